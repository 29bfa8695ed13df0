#!/usr/bin/env bash
# install_test.sh CMAKE BUILD SOURCE LIBDIR CC CXX: the installed tree works after it has been moved, for a C11 host by way of
# find_package and of pkg-config, for a plugin by way of plait_add_plugin, and for bin/plait. The layer that CONTRIBUTING.md shows is
# built and trained as it stands there.
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
# Without names that a sanitizer adds.
symbols=$(nm -D --defined-only "$work/consumer/plait-consumer.so" | awk '$3 !~ /^__(odr_)?asan/ { print $3 }')
[ "$symbols" = "plait_plugin_v$expected" ] || fail "the plugin exports '$symbols'"

export PKG_CONFIG_PATH=$tree/$libdir/pkgconfig
# shellcheck disable=SC2046,SC2086
"$cc" -std=c11 -Wall -Wextra -pedantic -Werror ${CFLAGS:-} "$source/consumer/host.c" -o "$work/host-pc" \
  $(pkg-config --cflags --libs plait)
check_host "$work/host-pc" pkg-config "$tree/$libdir"
[ "$(pkg-config --variable=abi_version plait)" = "$expected" ] || fail "plait.pc: abi_version"
plugins=$(pkg-config --variable=pluginsdir plait)
[ "$(realpath "$plugins")" = "$(realpath -m "$tree/$libdir/plait/plugins-$expected")" ] || fail "plait.pc: pluginsdir"

[ -x "$tree/bin/plait" ] || exit 0
plait() { env -u LD_LIBRARY_PATH PLAIT_PLUGIN_PATH="$work/page" "$tree/bin/plait" "$@"; }
# Where bash, zsh and fish look for them; and the page of all keys.
for script in bash:bash-completion/completions/plait zsh:zsh/site-functions/_plait fish:fish/vendor_completions.d/plait.fish; do
  plait completion "${script%%:*}" | cmp -s - "$tree/share/${script#*:}" || fail "share/${script#*:} is not what plait completion prints"
done
for doc in README.md GUIDE.md REFERENCE.md OPS.md; do
  find "$tree/share" -name "$doc" | grep -q . || fail "$doc is not installed"
done
plait --version >"$work/version.log" || fail "the moved bin/plait does not start"

# "Add a layer in 15 minutes": the code between ```cpp and ```, and the line for CMake; then that of the PEFT method.
page=$source/../../CONTRIBUTING.md
mkdir -p "$work/page"
code_of() { sed -n "/^## $1 in 15 minutes/,/^## /p" "$page" | sed -n '/^   ```cpp$/,/^   ```$/{/```/d;s/^   //;p}'; }
code_of "Add a layer" >"$work/page/scale.cpp"
code_of "Add a PEFT method" >"$work/page/peft.cpp"
line=$(tr '\n' ' ' <"$page" | grep -o 'plait_add_plugin(layer-scale SOURCES scale.cpp)') || fail "CONTRIBUTING.md has no line for CMake"
# Its step 3 is true, too: with the parameter shared among tensor ranks.
sed -e 's/, 0});/, 0}, 0);/' -e 's/"scale"/"shared_scale"/' -e 's/"layer-scale"/"layer-shared"/' "$work/page/scale.cpp" >"$work/page/shared.cpp"
grep -q '0}, 0);' "$work/page/shared.cpp" || fail "CONTRIBUTING.md makes its parameter in another way"
cat >"$work/page/CMakeLists.txt" <<TEXT
cmake_minimum_required(VERSION 3.25)
project(page LANGUAGES C CXX)
add_compile_options(-Wall -Wextra -Werror)
find_package(Plait REQUIRED)
set(PLAIT_PLUGIN_OUTPUT_DIR \${CMAKE_CURRENT_SOURCE_DIR})
$line
plait_add_plugin(layer-shared SOURCES shared.cpp)
plait_add_plugin(peft-scale SOURCES peft.cpp)
TEXT
"$cmake" -S "$work/page" -B "$work/page/build" -DCMAKE_PREFIX_PATH="$tree" -DCMAKE_CXX_COMPILER="$cxx" >"$work/page.log"
"$cmake" --build "$work/page/build" >>"$work/page.log" || { cat "$work/page.log"; fail "a plugin of CONTRIBUTING.md does not build"; }
cat >"$work/page/experiment.toml" <<'TEXT'
[run]
name = "page"
steps = 60
[batch]
global = 16
[data.train]
type = "synthetic"
samples = 64
shape = [8]
classes = 3
[model]
layers = [{type = "linear", out = 16, parallel = "column"}, {type = "scale", start = 0.5}, {type = "linear", out = 3, parallel = "row"}]
[loss]
type = "cross_entropy"
[optimizer]
type = "adamw"
learning_rate = 0.01
TEXT
plait plugins scale >"$work/page/plugins.log" || fail "plait plugins does not show the layer of CONTRIBUTING.md"
grep -q 'y = gain \* x' "$work/page/plugins.log" || fail "plait plugins does not say what the layer is for"
plait run "$work/page/experiment.toml" run.out="$work/page/runs" --json >"$work/page/run.log" ||
  { cat "$work/page/run.log"; fail "the layer of CONTRIBUTING.md does not train"; }
# Shared, it meets its input where that is; whole, the parts of the input are gathered first.
plait plan "$work/page/experiment.toml" topology.tensor=2 -v >"$work/page/whole.log" || fail "it does not serve two tensor ranks"
grep -q 'all_gather  *tensor' "$work/page/whole.log" || fail "two tensor ranks have parts of its input, and nobody gathers them"
sed -i 's/"scale"/"shared_scale"/' "$work/page/experiment.toml"
plait plan "$work/page/experiment.toml" topology.tensor=2 -v >"$work/page/shared.log" || fail "its parameter cannot be shared"
! grep 'all_gather' "$work/page/shared.log" || fail "its parameter is shared, and its input is gathered all the same"
# The PEFT method: the model is frozen, and its own parameters train, also where tensor ranks share them.
cat >>"$work/page/experiment.toml" <<'TEXT'
[[model.adapters]]
type = "scale_outputs"
match = ["*.weight"]
TEXT
plait plan "$work/page/experiment.toml" topology.tensor=2 --json >"$work/page/peft.log" || fail "the PEFT method of CONTRIBUTING.md cannot be planned"
grep -q '"trained_count":19,' "$work/page/peft.log" || { cat "$work/page/peft.log"; fail "the PEFT method of CONTRIBUTING.md does not train its 16 + 3 parameters alone"; }
