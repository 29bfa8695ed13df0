#!/usr/bin/env bash
# pack.sh BUILD OUT.tar.gz: what a bare machine with a GPU needs for measure.py, in one file: programs and plugins without
# debug information, the libraries of this system that they use, without the compiler's own, experiments, tests of the kernels.
# Environment: PLAIT_DATA, a folder with MNIST and tinyshakespeare, if it trains on them.
set -euo pipefail
build=$(cd "$1" && pwd)
out=$(realpath -m "$2")
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
package=$work/plait
abi=$(basename "$build"/lib/plait/plugins-*)
mkdir -p "$package"/{bin,lib,"lib/plait/$abi",system,data}

cp "$build/bin/plait" "$build/tests/bin/conformance" "$package/bin/"
[ ! -x "$build/tests/bin/cuda_bench" ] || cp "$build/tests/bin/cuda_bench" "$package/bin/"
cp -P "$build"/lib/libplait.so* "$package/lib/"
cp "$build/lib/plait/$abi"/*.so "$package/lib/plait/$abi/"
find "$package" -type f -exec strip --strip-unneeded {} +

# Libraries that a bare system may lack.
find "$package" -type f -exec ldd {} + 2>/dev/null | awk '$3 ~ /^\// { print $3 }' | sort -u |
  { grep -Ev '/(libc|libm|libstdc\+\+|libgcc_s|libdl|libpthread|librt|libresolv|ld-linux[^/]*|libplait)\.so' || true; } |
  while read -r library; do
    cp -L "$library" "$package/system/$(basename "$library")"
    strip --strip-unneeded "$package/system/$(basename "$library")"
  done

cp -r "$root/tests/bench/experiments" "$root/examples" "$package/"
cp "$root/tools/gpu/measure.py" "$root"/tests/bench/peers/{gpt,attention}_torch.py "$root/tests/bench/peers/peer_common.py" "$package/"
if [ -n "${PLAIT_DATA:-}" ]; then
  find -L "$PLAIT_DATA" -maxdepth 2 \( -name '*ubyte*' -o -path '*tinyshakespeare/input.txt' \) -exec cp {} "$package/data/" \;
fi
mkdir -p "$(dirname "$out")"
tar -C "$work" -czf "$out" plait
du -h "$out"
