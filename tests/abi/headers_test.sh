#!/bin/sh
# headers_test.sh ROOT: each header of abi/ alone and twice, as C11 and C++20; each of bindings/cpp as C++20; no warning allowed.
root=$1
failed=0
tried=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

try() { # compiler, language, standard, header
  command -v "$1" >/dev/null || { echo "no $1 here: skipped"; return; }
  printf '#include <%s>\n#include <%s>\nint abi_header_test;\n' "$4" "$4" >"$work/one.$2"
  tried=$((tried + 1))
  "$1" -std="$3" -Wall -Wextra -pedantic -Wshadow -Werror -fsyntax-only -I"$root/abi" -I"$root/bindings/cpp" "$work/one.$2" ||
    { echo "<$4> as $3 with $1: failed"; failed=1; }
}

for path in "$root"/abi/plait/*.h; do
  header=plait/$(basename "$path")
  for c in gcc clang; do try $c c c11 "$header"; done
  for c in g++ clang++; do try $c cpp c++20 "$header"; done
done
for path in $(cd "$root/bindings/cpp" && find plait -name '*.hpp' | sort); do
  for c in g++ clang++; do try $c cpp c++20 "$path"; done
done
echo "$tried compilations"
[ "$tried" -gt 0 ] && exit $failed
