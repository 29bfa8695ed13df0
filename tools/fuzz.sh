# fuzz <seconds>: every fuzz target with libFuzzer, findings in build/fuzz/findings.
# fuzz --coverage: the lines of the parsers that the seeds reach. Sourced by ./dev.

# No input may take a second, or 512 MiB. The sanitizers make a parser several times slower, so two
# seconds under them are less than one without; a single second would be a false alarm when the
# machine is busy. Their memory counts as well: a shadow byte for each eight, gaps around each
# block, and what is freed but held back to find later uses of it, 256 MiB unless limited as here.
fuzz_limits=(-rss_limit_mb=512 -timeout=2)
fuzz_asan=quarantine_size_mb=32
fuzz() {
  local seconds=$1 target name failed=()
  [[ $seconds =~ ^[0-9]+$ ]] || stop 2 "'$seconds' is not a number of seconds" "./dev fuzz 60"
  need_packages core test fuzz
  build fuzz
  mkdir -p build/fuzz/findings
  for target in build/fuzz/fuzz/fuzz_*; do
    [ -x "$target" ] || stop 1 "there is no fuzz target" "add tests/fuzz/<name>_fuzz.cpp"
    name=${target##*/fuzz_}
    mkdir -p "build/fuzz/corpus/$name"
    local seeds=()
    [ ! -d "tests/fuzz/corpus/$name" ] || seeds=("tests/fuzz/corpus/$name")
    if ASAN_OPTIONS=$fuzz_asan "$target" -max_total_time="$seconds" "${fuzz_limits[@]}" -print_final_stats=1 \
      -artifact_prefix="build/fuzz/findings/$name-" "build/fuzz/corpus/$name" "${seeds[@]}" \
      </dev/null >"$log_dir/fuzz-$name.log" 2>&1; then
      say "fuzz $name: nothing found in $seconds s, $(awk '/number_of_executed_units/ { print $2 }' \
        "$log_dir/fuzz-$name.log") inputs"
    else
      failed+=("$name")
      tail -40 "$log_dir/fuzz-$name.log" >&2
    fi
  done
  [ ${#failed[@]} = 0 ] || stop 1 "fuzzing found errors in: ${failed[*]}" \
    "rerun one with  ASAN_OPTIONS=$fuzz_asan build/fuzz/fuzz/fuzz_<name> ${fuzz_limits[*]} build/fuzz/findings/<file>; fix it; keep the file in tests/fuzz/corpus/<name>/"
}

# The seeds, and the mutations of them that tests/fuzz/replay_main.cpp makes, in a build that counts lines.
fuzz_coverage() {
  local target name
  need_packages core test
  build coverage
  find build/coverage -name '*.gcda' -delete
  for target in build/coverage/fuzz/fuzz_*; do
    [ -x "$target" ] || stop 1 "there is no fuzz target" "add tests/fuzz/<name>_fuzz.cpp"
    name=${target##*/fuzz_}
    logged "coverage-$name" "the seeds of $name are an error" "$target" "tests/fuzz/corpus/$name"
  done
  say "lines of the parsers that the seeds reach"
  python3 -B tools/line_coverage.py . build/coverage --listed tests/fuzz/parsers.txt ||
    stop 1 "the seeds reach too few lines" "add seeds to tests/fuzz/corpus/<name>/ for the lines in build/coverage/lines_not_run.txt"
}
