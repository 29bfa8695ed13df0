#!/usr/bin/env python3
"""Prints the samples of data.synthetic that ../unit/data_plugins/synthetic_test.cpp compares, or with --check looks for them there.

    golden_synthetic.py [--check]

Made by the definition alone: element i of a stream is the number of the stream's key plus i times the golden ratio of 64 bits, mixed by
the finaliser of MurmurHash3 (https://github.com/aappleby/smhasher, MurmurHash3.cpp, fmix64); its upper 24 bits become a value in
[-sqrt(3), sqrt(3)). A target is the scaled dot product with the first row of the stream of weights, a label the row with the greatest.
"""

import argparse
import pathlib
import struct
import sys

MASK, GOLDEN = 2**64 - 1, 0x9E3779B97F4A7C15
SAMPLES, WEIGHTS = 1, 2  # streams
SEED, FEATURES, CLASSES = 7, 2, 3


def mix(x):
    x = (x ^ x >> 33) * 0xFF51AFD7ED558CCD & MASK
    x = (x ^ x >> 33) * 0xC4CEB9FE1A85EC53 & MASK
    return x ^ x >> 33


def f32(value):
    """The nearest f32."""
    return struct.unpack("f", struct.pack("f", value))[0]


def stream(number, n):
    """n rows of FEATURES values."""
    key, unit = mix(mix(SEED + GOLDEN & MASK) + number & MASK), f32(f32(1.7320508) / 2**23)
    values = [f32(((mix(key + i * GOLDEN & MASK) >> 40) - 2**23) * unit) for i in range(n * FEATURES)]
    return [values[i:i + FEATURES] for i in range(0, len(values), FEATURES)]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    x, w = stream(SAMPLES, 6), stream(WEIGHTS, CLASSES)
    targets = [f32(dot(row, w[0]) / FEATURES**0.5) for row in x[:2]]
    labels = [max(range(CLASSES), key=lambda c: dot(row, w[c])) for row in x]
    lists = [[f"{v!r}f" for v in x[0] + x[1]], [f"{v!r}f" for v in targets], [str(v) for v in labels]]
    test = pathlib.Path(__file__).resolve().parent.parent / "unit/data_plugins/synthetic_test.cpp"
    text = " ".join(test.read_text().split())
    for values in lists:
        if not options.check:
            print(", ".join(values))
        elif "{" + ", ".join(values) + "}" not in text:
            print(f"[golden] {test.name} does not have {values}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
