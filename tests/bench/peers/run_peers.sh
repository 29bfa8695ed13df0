#!/usr/bin/env bash
# Runs every PyTorch peer and prints one JSON line each on stdout.
#   run_peers.sh [--data FOLDER] [--quick] [speed|accuracy|all]
# FOLDER has MNIST's IDX .gz files; without it the speed runs use synthetic images and accuracy is left out.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
data=${PLAIT_DATA:-}
rounds=5
seconds=2
part=all
while [ $# -gt 0 ]; do
  case $1 in
    --data) data=${2:?[bench] --data needs a folder}; shift ;;
    --quick) rounds=3; seconds=1 ;;
    speed | accuracy | all) part=$1 ;;
    *) echo "[bench] unknown argument '$1'; known: --data FOLDER, --quick, speed, accuracy, all" >&2; exit 2 ;;
  esac
  shift
done
first=train-images-idx3-ubyte.gz
if [ -n "$data" ] && [ ! -e "$data/$first" ] && [ -e "$data/mnist/$first" ]; then data=$data/mnist; fi
if [ -n "$data" ] && [ ! -e "$data/$first" ]; then
  echo "[bench] no $first in $data; name the folder that has MNIST with --data" >&2
  exit 2
fi
python=$("$here/setup.sh")
export PYTHONDONTWRITEBYTECODE=1
export TORCHINDUCTOR_CACHE_DIR=${TORCHINDUCTOR_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/plait-bench-inductor}
threads="1 2"
if [ "$(nproc)" -lt 2 ]; then threads=1; fi

speed() { "$python" "$here/mlp_torch.py" --data "$data" --rounds $rounds --seconds $seconds "$@"; }

if [ "$part" != accuracy ]; then
  for what in neuron_mlp wide_mlp; do
    for count in $threads; do
      for mode in eager compile; do
        speed --what $what --mode $mode --threads "$count"
      done
    done
  done
  # As a user gets it who tunes nothing, to show what tuning is worth.
  speed --what neuron_mlp --variant foreach --threads "$(nproc)" --untuned
fi
if [ "$part" != speed ] && [ -n "$data" ]; then
  for recipe in neuron scaling; do
    "$python" "$here/accuracy_torch.py" --recipe $recipe --data "$data" --threads 1
  done
fi
