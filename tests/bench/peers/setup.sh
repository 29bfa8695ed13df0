#!/usr/bin/env bash
# Makes the Python environment of the peers and prints its python. Only `./dev bench` needs it: 5 GB, once.
# Where: $PLAIT_BENCH_VENV, else ~/.cache/plait-bench. An environment that fits requirements.txt is kept as it is.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv=${PLAIT_BENCH_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/plait-bench}
stamp=$venv/.requirements.txt

fail() { echo "[bench] $1; $2" >&2; exit 3; }

if ! cmp -s "$here/requirements.txt" "$stamp"; then
  python3 -c 'import venv, ensurepip' 2>/dev/null ||
    fail "Python's venv module is missing" "install it: apt-get install python3-venv"
  mkdir -p "$venv"
  space=$(df -Pk "$venv" | awk 'NR == 2 { print int($4 / 1048576) }')
  [ "$space" -ge 12 ] ||
    fail "$venv has $space GB left, PyTorch needs 12" "set PLAIT_BENCH_VENV to another folder"
  echo "[bench] installing PyTorch into $venv (once, several GB) …" >&2
  python3 -m venv "$venv" || fail "no environment in $venv" "choose another folder with PLAIT_BENCH_VENV"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$here/requirements.txt" >&2 ||
    fail "pip could not install $here/requirements.txt" "check the network, or run './dev bench --no-peers'"
  cp "$here/requirements.txt" "$stamp"
  rm -f "$venv"/.requirements_llama.*
fi

# PyPI has llama.cpp as source only: it is compiled for this processor. Without it the other peers still run.
llama=$here/requirements_llama.txt
if ! cmp -s "$llama" "$venv/.requirements_llama.txt" && ! cmp -s "$llama" "$venv/.requirements_llama.failed"; then
  echo "[bench] compiling llama.cpp into $venv (once, some minutes) …" >&2
  outcome=txt
  CMAKE_ARGS="-DGGML_NATIVE=ON" "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$llama" >&2 || outcome=failed
  cp "$llama" "$venv/.requirements_llama.$outcome"
fi
[ -e "$venv/.requirements_llama.txt" ] ||
  echo "[bench] llama.cpp could not be compiled; remove $venv/.requirements_llama.failed to try again" >&2
echo "$venv/bin/python"
