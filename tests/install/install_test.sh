#!/usr/bin/env bash
# install_test.sh CMAKE BUILD SOURCE LIBDIR CC CXX: the installed tree works after it has been moved, for a C11 host by way of
# find_package and of pkg-config, for a plugin by way of plait_add_plugin, and for bin/plait.
set -euo pipefail
cmake=$1 build=$2 source=$3 libdir=$4 cc=$5 cxx=$6
work=$build/install-test
rm -rf "$work"
mkdir -p "$work"
fail() { echo "install_test: $*" >&2; exit 1; }

# Installed with a prefix that never exists, then moved: whatever still names the old place breaks.
DESTDIR=$work/stage "$cmake" --install "$build" --prefix /opt/plait-before >"$work/install.log"
tree=$work/moved/here
mkdir -p "$work/moved"
mv "$work/stage/opt/plait-before" "$tree"
for text in "$tree/$libdir/cmake/Plait/"*.cmake "$tree/$libdir/pkgconfig/plait.pc"; do
  ! grep -nF -e "$work/stage" -e /opt/plait-before -e "$build" "$text" || fail "$text names a place of this machine"
done

expected=$(sed -n 's/^#define PLAIT_ABI_VERSION \([0-9]*\)$/\1/p' "$tree/include/plait/base.h")
check_host() { # <program> <by what means>
  local said
  said=$(env -u LD_LIBRARY_PATH ${3:+LD_LIBRARY_PATH="$3"} "$1") || fail "the host built by $2 fails"
  [ "$said" = "abi $expected" ] || fail "the host built by $2 said '$said', expected 'abi $expected'"
}

"$cmake" -S "$source/consumer" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$tree" -DCMAKE_C_COMPILER="$cc" \
  -DCMAKE_CXX_COMPILER="$cxx" >"$work/consumer.log"
"$cmake" --build "$work/consumer" >>"$work/consumer.log" || { cat "$work/consumer.log"; fail "find_package(Plait)"; }
check_host "$work/consumer/host" find_package
symbols=$(nm -D --defined-only "$work/consumer/plait-consumer.so" | awk '{ print $3 }')
[ "$symbols" = "plait_plugin_v$expected" ] || fail "the plugin exports '$symbols'"

export PKG_CONFIG_PATH=$tree/$libdir/pkgconfig
# shellcheck disable=SC2046
"$cc" -std=c11 -Wall -Wextra -pedantic -Werror "$source/consumer/host.c" -o "$work/host-pc" \
  $(pkg-config --cflags --libs plait)
check_host "$work/host-pc" pkg-config "$tree/$libdir"
[ "$(pkg-config --variable=abi_version plait)" = "$expected" ] || fail "plait.pc: abi_version"
plugins=$(pkg-config --variable=pluginsdir plait)
[ "$(realpath "$plugins")" = "$(realpath -m "$tree/$libdir/plait/plugins-$expected")" ] || fail "plait.pc: pluginsdir"

if [ -x "$tree/bin/plait" ]; then
  env -u LD_LIBRARY_PATH "$tree/bin/plait" --version >"$work/version.log" || fail "the moved bin/plait does not start"
fi
