# soak <minutes> <mutants>: repeats the tests in random order until one fails or the time is over.
# Each round also tests all layouts of ranks and all collectives instead of a sample, a thousand steps
# on MNIST and on a bad network, a run of 20,000 steps that is killed every 500 or so, repeats what others try a few times, and has real jobs whose ranks
# are killed, stopped and disturbed at random moments (tests/chaos). Before the first round hostile files are read, each in the seconds it
# may take. In the end mutants are planted, others each day. Sourced by ./dev.
soak() {
  local minutes=$1 mutants=$2 round=0
  [[ $minutes =~ ^[0-9]+$ ]] || stop 2 "'$minutes' is not a number of minutes" "./dev soak 30"
  [[ $mutants =~ ^[0-9]+$ ]] || stop 2 "'$mutants' is not a number of mutants" "./dev soak 30 200"
  need_packages core test soak  # of soak: without them some tests are skipped
  build dev
  logged build-hostile "the benchmark of hostile files could not be built" cmake --build build/dev --target hostile_files_bench
  build/dev/tests/bin/hostile_files_bench || stop 1 "a hostile file takes its reader too long" "run  build/dev/tests/bin/hostile_files_bench  alone"
  local end=$((SECONDS + minutes * 60))
  while ((SECONDS < end)); do
    run_tests dev --schedule-random --quiet
    PLAIT_TEST_ALL=1 run_tests dev --quiet -R 'parallel_grids|parallel_random|^parallel_mnist$|comm_.*_table|^network$|^endurance$|^cli_(load|ranks|runs|traversal)$'
    PLAIT_BIN=build/dev/bin/plait python3 -B tests/chaos/chaos.py --promise --rounds 1000 --seconds $(((end - SECONDS + 1) / 2)) ||
      stop 1 "a job of several ranks did not survive a fault as it should" "run the command above again"
    round=$((round + 1))
  done
  say "$round rounds without a failure"
  ((mutants == 0)) && return
  . tools/mutate.sh
  mutate "$(date +%Y%m%d)" "$mutants"
}
