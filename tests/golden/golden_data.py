"""Inputs, containers and comparison shared by the golden generators."""

import argparse
import json
import struct
import sys

import numpy as np
import torch
from safetensors import safe_open


class Inputs:
    """Seeded random inputs, each exactly representable in bf16, f16 and f32.

    A device that computes in a narrower type therefore starts from the very same numbers, and a
    difference is its own rounding. NumPy's RandomState stream is frozen, so files regenerate equal.
    """

    def __init__(self, seed):
        self._random = np.random.RandomState(seed)

    def normal(self, *shape, scale=1.0):
        return to_bf16(self._random.standard_normal(shape) * scale)

    def uniform(self, *shape, low=0.0, high=1.0):
        return to_bf16(self._random.uniform(low, high, shape))

    def integers(self, high, *shape):
        return self._random.randint(0, high, shape).astype(np.int64)


def to_bf16(values):
    """Rounds to the 8 significant bits of bf16 (half to even) and flushes below 2^-14 to zero."""
    mantissa, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    rounded = np.ldexp(np.rint(mantissa * 256) / 256, exponent)
    return np.where(np.abs(rounded) < 2.0**-14, 0.0, rounded)


class Golden:
    """One safetensors file: tensors named `case/tensor`, and per case a JSON text of attributes."""

    def __init__(self):
        self.tensors = {}
        self.metadata = {"format": "pt"}

    def add(self, case, attributes, tensors):
        assert case not in self.metadata, case
        attributes = dict(attributes, tensors=sorted(tensors))
        self.metadata[case] = json.dumps(attributes, sort_keys=True)
        for name, value in tensors.items():
            if isinstance(value, torch.Tensor):
                value = value.detach().numpy()
            value = np.ascontiguousarray(value).reshape(np.shape(value))
            assert value.dtype in (np.float64, np.int64), (case, name, value.dtype)
            assert np.isfinite(value).all(), (case, name)
            self.tensors[f"{case}/{name}"] = value

    def write(self, path):
        """Sorted by name throughout, so that equal values give equal bytes (safetensors' own writer
        leaves the order of its metadata to chance)."""
        header, data = {"__metadata__": dict(sorted(self.metadata.items()))}, b""
        for name, value in sorted(self.tensors.items()):
            begin, dtype = len(data), {"float64": "F64", "int64": "I64"}[value.dtype.name]
            data += value.astype(value.dtype.newbyteorder("<")).tobytes()
            offsets = [begin, len(data)]
            header[name] = {"dtype": dtype, "shape": value.shape, "data_offsets": offsets}
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        path.write_bytes(struct.pack("<Q", len(text)) + text + data)

    def differences(self, path, tolerance=1e-12):
        """Text for everything in which the file at `path` is not this: names, attributes, values."""
        with safe_open(path, framework="numpy") as stored:
            if stored.metadata() != self.metadata:
                yield "attributes differ"
            names = set(stored.keys())
            for name in sorted(names ^ set(self.tensors)):
                yield f"{name}: only in {'the file' if name in names else 'the new values'}"
            for name in sorted(names & set(self.tensors)):
                old, new = stored.get_tensor(name), self.tensors[name]
                if old.shape != new.shape or old.dtype != new.dtype:
                    yield f"{name}: {old.dtype}{old.shape} in the file, {new.dtype}{new.shape} now"
                elif not np.allclose(old, new, rtol=tolerance, atol=tolerance):
                    yield f"{name}: values differ by {np.abs(old - new).max():.3g}"


def write_or_check(make, path, summary):
    """The command line of a script that makes one file: writes what make() returns, or compares it with the file (--check)."""
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    golden = make()
    if not options.check:
        golden.write(path)
        return 0
    found = list(golden.differences(path))
    for line in found:
        print(f"[golden] {path.name}: {line}", file=sys.stderr)
    return 1 if found else 0


def leaf(array):
    """A float64 torch tensor that records gradients."""
    return torch.tensor(array, dtype=torch.float64, requires_grad=True)


def backward(y, dy):
    """Runs y's gradient for the upstream gradient dy (an array of y's shape)."""
    y.backward(torch.tensor(dy, dtype=torch.float64))
