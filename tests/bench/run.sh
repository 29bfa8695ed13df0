#!/usr/bin/env bash
# The benchmarks: every figure beside its peer in one run. `./dev bench` builds the release preset and calls this.
#   run.sh [--quick] [--no-peers] [--only NAME]... [--against TREE] [--list]
# --quick     shorter and fewer rounds
# --no-peers  without PyTorch (nothing is installed then); the other peers need nothing
# --only      neuron, busy, wide, accuracy, memory, allocations, startup, language, language-start, language-ranks, adapters, nf4-loss, tokenizing, generation, comm, parallel, saving, first, observing, large-data, listing, planning, every-rank, transient, initial, against; repeatable
# --against   another checkout of this project with a release build, for instance of an older commit: compares both
# PLAIT_BENCH_BUILD names another build folder than build/release, PLAIT_DATA a folder with MNIST, PLAIT_BENCH_VENV where
# PyTorch is or goes. The results lie in <build>/bench.json afterwards.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
caller=$PWD
cd "$root"
export LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
. tools/common.sh
. tools/packages.sh
. tools/demo.sh

peers=1
other=
arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    --no-peers) peers=0 ;;
    --only)
      [ $# -gt 1 ] || stop 2 "--only needs a name" "$(sed -n 's/^# --only *//p' "$here/run.sh")"
      arguments+=(--only "$2")
      shift
      ;;
    --against)
      [ $# -gt 1 ] || stop 2 "--against needs a checkout" "git worktree add ../older COMMIT && (cd ../older && ./dev build release)"
      other=$(cd "$caller" && realpath -m "$2")
      [ -e "$other/build/release/lib/libplait.so" ] || stop 3 "there is no libplait.so in $other/build/release/lib" "(cd $other && ./dev build release)"
      arguments+=(--against "$other")
      shift
      ;;
    --quick) arguments+=(--quick) ;;
    --list) sed -n 's/^# --only *//p' "$here/run.sh"; exit 0 ;;
    -h | --help) sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//; p}' "$here/run.sh"; exit 0 ;;
    *) stop 2 "unknown argument '$1'" "known: --quick, --no-peers, --only NAME, --against TREE, --list" ;;
  esac
  shift
done

build=$(realpath -m "${PLAIT_BENCH_BUILD:-build/release}")
[ -e "$build/lib/libplait.so" ] || stop 3 "there is no libplait.so in $build/lib" "run ./dev bench, or ./dev build release"

find_data
[ -n "$demo_data" ] || fetch_data
# build_bench <tree> <its build>
build_bench() {
  logged configure-bench "the benchmarks of $1 could not be configured" cmake -G Ninja -S "$1/tests/bench" -B "$2/bench" \
    -DCMAKE_BUILD_TYPE=Release -DPLAIT_BUILD_DIR="$2"
  logged build-bench "the benchmarks of $1 could not be built" cmake --build "$2/bench"
}
build_bench "$root" "$build"
[ -z "$other" ] || build_bench "$other" "$other/build/release"
if [ $peers = 1 ]; then
  python=$("$here/peers/setup.sh")
  arguments+=(--peer-python "$python")
  export TORCHINDUCTOR_CACHE_DIR=${TORCHINDUCTOR_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/plait-bench-inductor}
fi
exec python3 "$here/bench.py" --build "$build" --data "$(realpath "$demo_data")" "${arguments[@]}"
