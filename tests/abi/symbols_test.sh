#!/bin/sh
# symbols_test.sh LIST LIBRARY PLUGINS HEADERS: the library exports what the list says, and each plugin of the folder its entry alone.
# The ABI number of HEADERS/base.h, the library's SONAME, the entry's name and the list of what was shipped agree.
failed=0
exports() { nm -D --defined-only --format=posix "$1" | awk '{ sub(/@.*/, "", $1); if ($2 != "A") print $1 }' | sort -u; }
agree() { [ "$2" = "$3" ] || { echo "$1: found '$2', expected '$3' by PLAIT_ABI_VERSION $abi; they change together"; failed=1; }; }

abi=$(sed -n 's/^#define PLAIT_ABI_VERSION \([0-9]*\)$/\1/p' "$4/base.h")
entry=$(sed -n 's/^#define PLAIT_PLUGIN_ENTRY "\(.*\)"$/\1/p' "$4/plugin.h")
[ -n "$abi" ] && [ -n "$entry" ] || { echo "$4 has no ABI number or no entry symbol"; exit 1; }
agree "PLAIT_PLUGIN_ENTRY" "$entry" "plait_plugin_v$abi"
agree "SONAME of $2" "$(objdump -p "$2" | awk '$1 == "SONAME" { print $2 }')" "libplait.so.$abi"
newest=$(ls "$(dirname "$1")" | sed -n 's/^baseline_v\([0-9]*\)\.txt$/\1/p' | sort -n | tail -1)
agree "the newest list of what was shipped" "baseline_v$newest.txt" "baseline_v$abi.txt"

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
grep -v '^#' "$1" | sort -u >"$work/expected"
exports "$2" | grep -v '^__' >"$work/found"
diff -u "$work/expected" "$work/found" >"$work/diff" ||
  { cat "$work/diff"; echo "$2 exports something else than $1 says; correct the code, or the list when the ABI grew"; failed=1; }

plugins=0
for plugin in "$3"/plait-*.so; do
  [ -e "$plugin" ] || continue
  plugins=$((plugins + 1))
  found=$(exports "$plugin" | grep -v -e '^__asan' -e '^__odr_asan' -e '^__gcov')
  [ "$found" = "$entry" ] || { echo "$plugin exports: $found; expected $entry alone"; failed=1; }
done
[ $plugins -gt 0 ] || { echo "no plugin in $3"; failed=1; }
exit $failed
