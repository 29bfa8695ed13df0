# Speaking and failing, for ./dev. Success is quiet; a failure shows the log's end and what to do.
log_dir=$root/build/log

say() { printf '[dev] %s\n' "$*"; }

# stop <code> <what> [<what to do>]
stop() {
  printf '[dev] %s\n' "$2" >&2
  [ -z "${3:-}" ] || printf '[dev] what to do: %s\n' "$3" >&2
  exit "$1"
}

# logged <log name> <text on failure> <command>...: runs the command, its output going to build/log/<name>.log. While it works,
# a line like "[12/80] ..." is shown at most every 20 seconds, so that a long build is seen to live.
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
  { # the first errors may lie far above the end
    head -n -40 "$log" | grep -E '(error|Error|E): ' | head -10 || true
    tail -n 40 "$log"
  } | cut -c1-240 >&2
  stop 1 "$text" "all of its output is in ${log#"$root"/}"
}
