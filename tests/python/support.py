"""What the tests of the package share: a small experiment, its batches, an engine for each test."""

import array
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bindings/python"), str(ROOT / "tests/support")]
import default_signals
import plait

default_signals.use()

TIME = 120  # seconds for a process
TINY = {
    "run": {"name": "tiny", "steps": 40},
    "batch": {"global": 16},
    "data": {"train": {"type": "synthetic", "samples": 200, "shape": [8], "classes": 3},
             "eval": {"type": "synthetic", "samples": 100, "shape": [8], "classes": 3, "first": 200}},
    "model": {"layers": [{"type": "linear", "out": 16}, {"type": "relu"}, {"type": "linear", "out": 3}]},
    "loss": {"type": "cross_entropy"},
    "metrics": [{"type": "accuracy", "train": True}],
    "optimizer": {"type": "adamw", "learning_rate": 0.01},
}
WEIGHT = "model.linear1.weight"


def batch(n=16, seed=1):
    """(x, label) of n random samples."""
    draw = random.Random(seed)
    return shaped([draw.gauss(0, 1) for _ in range(8 * n)], n, 8), array.array("i", [draw.randrange(3) for _ in range(n)])


def shaped(numbers, *shape):
    return memoryview(array.array("f", numbers)).cast("B").cast("f", shape)


class Case(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="plait-python-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.lines = []
        self.engine = plait.Engine(log=lambda level, text: self.lines.append((level, text)))

    def session(self, overrides=(), source=TINY, **options):
        options = {"files": False, **options}
        return self.engine.experiment(source, overrides).plan().session(**options)

    def script(self, text, env=None):
        """A process of this interpreter, with the package in its path."""
        return subprocess.Popen([sys.executable, "-B", "-c", text], env={**os.environ, "PYTHONPATH": str(ROOT / "bindings/python"), **(env or {})},
                                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
