#!/usr/bin/env python3
"""Prints what tests of ../unit/data_plugins compare datasets with, or with --check looks for it there.

    golden_datasets.py [--check]

Made by the definitions alone. data.synthetic: element i of a stream is the stream's key plus i times the golden ratio of 64 bits, mixed by
the finaliser of MurmurHash3 (fmix64); its upper 24 bits become a value in [-sqrt(3), sqrt(3)). A target is the scaled dot product with the
first row of the stream of weights, a label the row with the greatest. data.tokens with documents_seed: the documents are swapped as Fisher
and Yates do, from the last one, by numbers of Philox 4x32-10 (Salmon et al. 2011) whose counter is (i, 0, 0, "docs") and whose key is the
seed.
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


def philox(counter, key):
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [b >> 32 ^ counter[1] ^ key[0], b & 2**32 - 1, a >> 32 ^ counter[3] ^ key[1], a & 2**32 - 1]
        key = [key[0] + 0x9E3779B9 & 2**32 - 1, key[1] + 0xBB67AE85 & 2**32 - 1]
    return counter


def order(documents, seed):
    """The documents, as their numbers, in the order of the seed."""
    all = list(range(documents))
    for i in range(documents, 1, -1):
        words = philox([i, 0, 0, 0x646F6373], [seed & 2**32 - 1, seed >> 32])
        at = (words[0] << 32 | words[1]) * i >> 64
        all[i - 1], all[at] = all[at], all[i - 1]
    return all


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    x, w = stream(SAMPLES, 6), stream(WEIGHTS, CLASSES)
    targets = [f32(dot(row, w[0]) / FEATURES**0.5) for row in x[:2]]
    labels = [max(range(CLASSES), key=lambda c: dot(row, w[c])) for row in x]
    synthetic = [[f"{v!r}f" for v in x[0] + x[1]], [f"{v!r}f" for v in targets], [str(v) for v in labels]]
    found = {"synthetic_test.cpp": synthetic, "tokens_test.cpp": [[str(d) for d in order(40, 5)]]}
    for name, lists in found.items():
        test = pathlib.Path(__file__).resolve().parent.parent / "unit/data_plugins" / name
        text = " ".join(test.read_text().split())
        for values in lists:
            if not options.check:
                print(", ".join(values))
            elif "{" + ", ".join(values) + "}" not in text:
                print(f"[golden] {name} does not have {values}", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
