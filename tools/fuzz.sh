# fuzz <seconds>: every fuzz target with libFuzzer, findings in build/fuzz/findings. Sourced by ./dev.
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
    if "$target" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 \
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
    "rerun one with  build/fuzz/fuzz/fuzz_<name> build/fuzz/findings/<file>; fix it; keep the file in tests/fuzz/corpus/<name>/"
}
