#!/bin/sh
# symbols_test.sh LIST LIBRARY PLUGINS: the library exports what the list says, and each plugin of the folder its entry alone.
failed=0
exports() { nm -D --defined-only --format=posix "$1" | awk '{ sub(/@.*/, "", $1); if ($2 != "A") print $1 }' | sort -u; }

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
grep -v '^#' "$1" | sort -u >"$work/expected"
exports "$2" | grep -v '^__' >"$work/found"
diff -u "$work/expected" "$work/found" >"$work/diff" ||
  { cat "$work/diff"; echo "$2 exports something else than $1 says; correct the code, or the list when the ABI grew"; failed=1; }

for plugin in "$3"/plait-*.so; do
  [ -e "$plugin" ] || continue
  found=$(exports "$plugin" | grep -v -e '^__asan' -e '^__odr_asan' -e '^__gcov')
  [ "$found" = plait_plugin_v1 ] || { echo "$plugin exports: $found; expected plait_plugin_v1 alone"; failed=1; }
done
exit $failed
