# Messages and errors of ./dev. Success is quiet; a failure prints the log's end and a remedy.
log_dir=$root/build/log

say() { printf '[dev] %s\n' "$*"; }

# stop <code> <message> [<remedy>]
stop() {
  printf '[dev] %s\n' "$2" >&2
  [ -z "${3:-}" ] || printf '[dev] what to do: %s\n' "$3" >&2
  exit "$1"
}

# logged <log name> <text on failure> <command>...: runs the command with its output in
# build/log/<name>.log. While it runs, a line like "[12/80] ..." is printed at most every 20 seconds
# to show progress.
logged() {
  local log=$log_dir/$1.log text=$2 line shown=$SECONDS status
  shift 2
  mkdir -p "$log_dir"
  : >"$log"
  set +e
  "$@" </dev/null 2>&1 | while IFS= read -r line; do
    printf '%s\n' "$line" >>"$log"
    if [[ $line =~ ^\[[0-9]+/[0-9]+\] ]] && ((SECONDS - shown >= 20)); then
      printf '  %s\n' "${line:0:100}"
      shown=$SECONDS
    fi
  done
  status=${PIPESTATUS[0]}
  set -e
  [ "$status" = 0 ] && return 0
  { # the first errors may be far above the end
    head -n -40 "$log" | grep -E '(error|Error|E): ' | head -10 || true
    tail -n 40 "$log"
  } | cut -c1-240 >&2
  stop 1 "$text" "its full output is in ${log#"$root"/}"
}
