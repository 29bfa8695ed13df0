# coverage [percent]: the lines of engine/ and plugins/ that no test runs. Sourced by ./dev.

# They read sources, install or build other projects, measure, or repeat what other tests run.
not_for_coverage='structure|^abi_|^mutate|^install|^examples|^allocations|^endurance|^chaos|^hosts|^cuda_code|^fuzz_'

coverage() {
  local bar=${1:-95}
  [[ $bar =~ ^[0-9]+$ ]] || stop 2 "'$bar' is no percentage" "./dev coverage 95"
  need_packages core test
  build tests-coverage
  find build/tests-coverage -name '*.gcda' -delete
  say "running the tests"
  ctest --test-dir build/tests-coverage -j 3 -E "$not_for_coverage" </dev/null || say "some tests failed; their lines count as far as they came"
  say "lines of engine/ and plugins/ that the tests run"
  python3 -B tools/line_coverage.py . build/tests-coverage --bar "$bar" ||
    stop 1 "the tests run too few lines" "write tests for the lines in build/tests-coverage/lines_not_run.txt"
}
