#!/usr/bin/env python3
"""Writes float8.txt beside this script, or with --check compares it: 8-bit floats by PyTorch.

    golden_float8.py [--check]

A line `FORMAT value CODE BITS` gives the f32 that a code stands for, as bits; a line
`FORMAT code BITS CODE` the code that torch's conversion makes of an f32: of every number of the
format, of the halves between two neighbours, and of the f32 just below and above each of these.
Both formats are those of torch.float8_e4m3fn and torch.float8_e5m2. Beyond the greatest number
torch makes NaN or infinity where products saturate, so these are left out.
"""

import argparse
import pathlib
import sys

import numpy as np
import torch

FORMATS = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def bits(values):
    return [f"{v:08x}" for v in np.asarray(values, np.float32).view(np.uint32)]


def lines_of(name, dtype):
    codes = torch.arange(256, dtype=torch.int16).to(torch.uint8)
    values = codes.view(dtype).float().numpy()
    is_finite = np.isfinite(values)
    lines = [f"{name} value {i:02x} {b}" for i, b in enumerate(bits(values)) if is_finite[i]]
    finite = np.unique(values[is_finite])
    halves = (finite[1:].astype(np.float64) + finite[:-1]) / 2
    near = np.concatenate([finite, halves.astype(np.float32)]).astype(np.float32)
    beside = [np.nextafter(near, np.float32(end)) for end in (-np.inf, np.inf)]
    every = np.unique(np.concatenate([near, *beside]))
    every = every[np.abs(every) <= finite[-1]]
    made = torch.from_numpy(every).to(dtype).view(torch.uint8).tolist()
    return lines + [f"{name} code {b} {code:02x}" for b, code in zip(bits(every), made)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    path = pathlib.Path(__file__).resolve().parent / "float8.txt"
    text = "".join(line + "\n" for name, dtype in FORMATS.items() for line in lines_of(name, dtype))
    if not options.check:
        path.write_text(text)
    elif path.read_text() != text:
        print("[golden] float8.txt differs from what torch gives", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
