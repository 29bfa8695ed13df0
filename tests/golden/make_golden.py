#!/usr/bin/env python3
"""Writes the golden files beside this script, or with --check compares them with new values.

    make_golden.py [--out FOLDER] [--check]

Needs torch, numpy and safetensors, as tests/bench/peers/requirements.txt pins them.
"""

import argparse
import pathlib
import sys

import torch

import golden_distillation
import golden_groups
import golden_losses
import golden_ops
import golden_schedules
import golden_training

HERE = pathlib.Path(__file__).resolve().parent
FILES = {
    "ops.safetensors": golden_ops,
    "losses.safetensors": golden_losses,
    "training.safetensors": golden_training,
    "groups.safetensors": golden_groups,
    "schedules.safetensors": golden_schedules,
    "distillation.safetensors": golden_distillation,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=HERE)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    failures = 0
    for name, module in FILES.items():
        golden, path = module.make(), options.out / name
        if options.check:
            found = list(golden.differences(path))
            failures += len(found)
            for line in found:
                print(f"[golden] {name}: {line}", file=sys.stderr)
        else:
            golden.write(path)
        cases = len(golden.metadata) - 1
        print(f"{name}: {cases} cases, {len(golden.tensors)} tensors, {path.stat().st_size} bytes")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
