#!/usr/bin/env python3
"""Writes nf4.txt beside this script, or with --check compares it: weights of 4 bits by NumPy.

    golden_nf4.py [--check]

A line `level I VALUE` gives a level of QLoRA (Dettmers et al. 2023, arXiv:2305.14314, appendix E)
as its definition does: quantiles of the normal distribution between even probabilities, eight
above 0 and seven below, over the greatest of them; in float64. The published levels are these
within 1e-6. A line `row X Q SCALES` gives what a row becomes, X and SCALES as bits of f32, Q as
bytes: a block's scale is its greatest absolute value, put to the nearest of 256 steps between the
least and the greatest scale of the row; numbers are nearest for that scale.
"""

import argparse
import pathlib
import statistics
import sys

import numpy as np

BLOCK = 64
F = np.float32
# As published.
LEVELS = np.array([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
                   -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
                   0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
                   0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
                   0.7229568362236023, 1.0])


def levels():
    """Of the definition."""
    greatest = 1 - (1 / 32 + 1 / 30) / 2
    quantile = statistics.NormalDist().inv_cdf
    above = [quantile(p) for p in np.linspace(greatest, 0.5, 9)[:-1]]
    below = [-quantile(p) for p in np.linspace(greatest, 0.5, 8)[:-1]]
    return np.array(sorted([*above, 0.0, *below])) / max(above)


def quantize(x):
    """The bytes and the scales of a row of up to 16384 columns."""
    blocks = [x[i:i + BLOCK] for i in range(0, len(x), BLOCK)]
    most = np.array([np.abs(b).max() for b in blocks], F)
    least, top = most.min(), most.max()
    step = F((top - least) / F(255))
    if F(float(step) * 255 + float(least)) > top:
        step = np.nextafter(step, F(0))
    codes = np.floor((most - least) / step + F(0.5)) if step > 0 else np.zeros(len(most))
    scales = [F(float(step) * c + float(least)) for c in codes]
    halves = ((LEVELS.astype(F)[1:] + LEVELS.astype(F)[:-1]) / F(2)).astype(F)
    numbers = [7 if s == 0 else int(np.searchsorted(halves, F(w / s)))
               for b, s in zip(blocks, scales) for w in b]
    numbers += [7] * (len(numbers) % 2)
    pairs = [a | b << 4 for a, b in zip(numbers[::2], numbers[1::2])]
    return bytes(pairs) + bytes(int(c) for c in codes), np.array([least, step], F)


def bits(values):
    return np.asarray(values, F).view(np.uint32).astype(">u4").tobytes().hex()


def lines():
    for i, v in enumerate(levels()):
        assert abs(v - LEVELS[i]) < 1e-6, (i, v)
        yield f"level {i} {float(v)!r}"
    random = np.random.default_rng(15)
    for columns in (1, 2, 31, 63, 64, 65, 100, 200, 300):
        x = random.normal(0, 0.02, columns).astype(F)
        if columns == 200:
            x[70] = 3  # its scale leaves few steps for the others
        if columns == 300:
            x[64:128] = 0
        q, scales = quantize(x)
        yield f"row {bits(x)} {q.hex()} {bits(scales)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    path = pathlib.Path(__file__).resolve().parent / "nf4.txt"
    text = "".join(line + "\n" for line in lines())
    if not options.check:
        path.write_text(text)
    elif path.read_text() != text:
        print("[golden] nf4.txt differs from what NumPy gives", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
