# build <preset>, run_tests <preset> [ctest args]. Sourced by ./dev.

# The presets use ninja; a configured folder is configured again only if cmake itself requires it.
build() {
  local preset=$1
  [ -n "$(find "build/$preset/build.ninja" -newer CMakePresets.json 2>/dev/null)" ] ||
    logged "configure-$preset" "preset '$preset' could not be configured" cmake --preset "$preset"
  say "building (preset $preset)"
  logged "build-$preset" "the build failed (preset $preset)" cmake --build --preset "$preset" -j "$jobs"
  sed 's/^/[dev] left out: /' "build/$preset/not_built.txt" 2>/dev/null || true
}

run_tests() {
  local preset=$1
  shift
  say "testing (preset $preset)"
  # Many tests wait for time-outs more than they compute, so three share two cores.
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j 3 "$@" </dev/null ||
    stop 1 "tests failed (preset $preset); their output is above" \
      "run one alone with  ctest --test-dir build/$preset --output-on-failure -R <name>"
}
