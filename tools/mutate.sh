# mutate [seed] [count] [mutate.py arguments], mutate --module PREFIX PROGRAM... [module.py arguments]: plants mutants and counts how many
# the tests, or the programs that are named, find (tools/mutate). Sourced by ./dev.
mutate() {
  if [ "${1:-}" = --module ]; then
    [ $# -ge 3 ] || stop 2 "--module needs sources and a test program" "./dev mutate --module engine/topology unit_topology"
    need_packages core test
    build dev
    python3 -B tools/mutate/module.py . --jobs "$jobs" "${@:2}"
    return
  fi
  local seed=${1:-1} count=${2:-20}
  [[ $seed =~ ^[0-9]+$ ]] || stop 2 "'$seed' is no seed" "./dev mutate 1 20"
  [[ $count =~ ^[1-9][0-9]*$ ]] || stop 2 "'$count' is not a number of mutants" "./dev mutate 1 20"
  need_packages core test
  build dev
  say "planting $count mutants, seed $seed; the build with all of them and one run of each test come first"
  python3 -B tools/mutate/mutate.py . --seed "$seed" --count "$count" --jobs "$jobs" "${@:3}"
}
