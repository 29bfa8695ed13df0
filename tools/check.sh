# check: everything that must be green before a change lands. Sourced by ./dev.

# C and C++ sources that git knows or would add, separated by NUL.
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
}

# Translation units to lint: those that differ from the main branch first, then all others, within a time limit.
lint_order() {
  local base
  base=$(git merge-base HEAD origin/main 2>/dev/null || git rev-parse -q --verify HEAD~1 2>/dev/null || true)
  {
    [ -z "$base" ] || git diff --name-only --diff-filter=d "$base" -- '*.cpp'
    git ls-files --others --exclude-standard -- '*.cpp'
    git ls-files -- '*.cpp'
  } | awk '!seen[$0]++'
}

# Lints until PLAIT_LINT_SECONDS (600) are over; says how far it came.
check_lint() {
  local limit=${PLAIT_LINT_SECONDS:-600} started=$SECONDS total=0 done=0 batch=() file
  say "lint (at most $limit s, changed files first)"
  : >"$log_dir/lint.log"
  local known
  known=$(grep -o '"file": "[^"]*"' build/dev/compile_commands.json | cut -d'"' -f4)
  local files=()
  while IFS= read -r file; do
    grep -qxF "$root/$file" <<<"$known" && files+=("$file")
  done < <(lint_order)
  total=${#files[@]}
  while ((done < total)) && ((SECONDS - started < limit)); do
    batch=("${files[@]:done:2 * jobs}")
    if ! printf '%s\0' "${batch[@]}" | xargs -0 -n 1 -P "$jobs" clang-tidy -p build/dev --quiet >>"$log_dir/lint.log" 2>&1; then
      grep -E '(warning|error):' "$log_dir/lint.log" | sort -u | head -30 >&2
      stop 1 "clang-tidy has remarks" "mend them, or say with NOLINT(<check>) and a reason why not; all in build/log/lint.log"
    fi
    done=$((done + ${#batch[@]}))
  done
  say "linted $done of $total files"
}

check() {
  need_packages core test lint fuzz
  check_format
  build dev
  check_lint
  run_tests dev
  build asan
  run_tests asan
  . tools/fuzz.sh
  fuzz "${PLAIT_FUZZ_SECONDS:-60}"
  say "all checks passed"
}
