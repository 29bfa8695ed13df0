# check: everything that must pass before a change is merged. Sourced by ./dev.

# C and C++ sources, tracked or not ignored by git, separated by NUL.
source_files() {
  git ls-files -z --cached --others --exclude-standard -- '*.c' '*.h' '*.cpp' '*.hpp' |
    while IFS= read -r -d '' file; do [ -f "$file" ] && printf '%s\0' "$file"; done
}

check_format() {
  say "format"
  mkdir -p "$log_dir"
  if ! source_files | xargs -0 -r clang-format --dry-run -Werror >"$log_dir/format.log" 2>&1; then
    grep -h 'error:' "$log_dir/format.log" | head -20 >&2
    stop 1 "some files are not in the project's format" "./dev format"
  fi
  check_width
}

# clang-format leaves comments and long strings as they are, so the width is checked here: 100
# columns, in the C headers 124 as abi/.clang-format says. ./dev sets a UTF-8 locale.
check_width() {
  local wide=$log_dir/wide.log count
  source_files | xargs -0 -r grep -anHE '^.{101}' | grep -avE '^abi/plait/[^:]*:[0-9]+:.{0,124}$' |
    cut -d: -f1,2 >"$wide" || true
  count=$(wc -l <"$wide")
  [ "$count" = 0 ] && return
  head -20 "$wide" | sed 's/$/: too wide/' >&2
  stop 1 "$count lines are too wide" "wrap them; the full list is in build/log/wide.log"
}

# Translation units that differ from the main branch.
changed_units() {
  local base
  base=$(git merge-base HEAD origin/main 2>/dev/null || git rev-parse -q --verify HEAD~1 2>/dev/null || true)
  [ -z "$base" ] || git diff --name-only --diff-filter=d "$base" -- '*.cpp'
  git ls-files --others --exclude-standard -- '*.cpp'
}

# Filters the given files (one per line): only files that the build compiles can be linted.
known_units() {
  awk '!seen[$0]++' | grep -Fx -f <(grep -o '"file": "[^"]*"' build/lint/compile_commands.json | cut -d'"' -f4 | sed "s|^$root/||") || true
}

# Lints changed files, then all others, for at most PLAIT_LINT_SECONDS (600). All changed files must
# be linted by then; the number of remaining files is printed here and at the end ($unlinted). The
# files are compiled as in the preset `lint`: clang-tidy cannot read the precompiled headers of the
# dev build, and reports an #include that they hide.
unlinted=""
check_lint() {
  local limit=${PLAIT_LINT_SECONDS:-600} started total=0 done=0 changed batch=()
  say "lint (at most $limit s, changed files first)"
  logged configure-lint "preset 'lint' could not be configured" cmake --preset lint
  : >"$log_dir/lint.log"
  local files=()
  mapfile -t files < <({ changed_units; git ls-files -- '*.cpp'; } | known_units)
  total=${#files[@]}
  changed=$(changed_units | known_units | wc -l)
  started=$SECONDS
  while ((done < total)) && ((SECONDS - started < limit)); do
    batch=("${files[@]:done:2 * jobs}")
    if ! printf '%s\0' "${batch[@]}" | xargs -0 -n 1 -P "$jobs" clang-tidy -p build/lint --quiet >>"$log_dir/lint.log" 2>&1; then
      grep -E '(warning|error):' "$log_dir/lint.log" | sort -u | head -30 >&2 || true
      stop 1 "clang-tidy reports problems" \
        "fix them, or add NOLINT(<check>) with a reason; the full list is in build/log/lint.log"
    fi
    done=$((done + ${#batch[@]}))
  done
  say "linted $done of $total files"
  local more="give it more time: PLAIT_LINT_SECONDS=$((limit * (total + 1) / (done + 1) + 60)) ./dev check"
  ((done >= changed)) || stop 1 "lint stopped after $limit s; $((changed - done)) of $changed changed files are left" "$more"
  ((done >= total)) || unlinted="NOT LINTED: $((total - done)) of $total files, all unchanged; $more"
  [ -z "$unlinted" ] || printf '[dev] %s\n' "$unlinted" >&2
}

# leg <name> <command>...: one part of the check; its duration is printed at the end.
legs=""
leg() {
  local name=$1 started=$SECONDS
  shift
  "$@"
  legs+="${legs:+, }$name $((SECONDS - started)) s"
}

# Tests that a sanitizer build leaves out give the reason in their folder: grep PLAIT_SANITIZE in
# CMakeLists.txt, and no_tsan.txt.
built_and_tested() {
  build "$1"
  run_tests "$1"
}

check() {
  local started=$SECONDS parsers seconds=${PLAIT_FUZZ_SECONDS:-60}
  parsers=$(find tests/fuzz -name '*_fuzz.cpp' | wc -l)
  say "three builds with their tests (dev, asan, tsan: hours on a small machine), lint for at most ${PLAIT_LINT_SECONDS:-600} s," \
    "a fourth build and $seconds s of fuzzing for each of $parsers parsers"
  need_packages core test lint fuzz
  leg format check_format
  leg build build dev
  leg lint check_lint
  leg tests run_tests dev
  leg asan built_and_tested asan
  leg tsan built_and_tested tsan
  . tools/fuzz.sh
  leg fuzz fuzz "$seconds"
  say "all checks passed in $(((SECONDS - started + 59) / 60)) min ($legs)"
  [ -z "$unlinted" ] || printf '[dev] %s\n' "$unlinted" >&2
}
