# mutate [seed] [count] [mutate.py arguments]: plants mutants and counts how many the tests find (tools/mutate/mutate.py). Sourced by
# ./dev.
mutate() {
  local seed=${1:-1} count=${2:-20}
  [[ $seed =~ ^[0-9]+$ ]] || stop 2 "'$seed' is no seed" "./dev mutate 1 20"
  [[ $count =~ ^[1-9][0-9]*$ ]] || stop 2 "'$count' is not a number of mutants" "./dev mutate 1 20"
  need_packages core test
  build dev
  say "planting $count mutants, seed $seed; the build with all of them and one run of each test come first"
  python3 -B tools/mutate/mutate.py . --seed "$seed" --count "$count" --jobs "$jobs" "${@:3}"
}
