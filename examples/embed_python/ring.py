"""Trains from a Python program that owns the loop and feeds its own samples, without any package but plait.

The model separates points inside a ring from points outside. Prints its accuracy on fresh points and a parameter.
"""

import array
import math
import random

import plait

BATCH, TEST = 64, 512
# [data.train] only declares the fields and their shapes here: every batch is fed below.
EXPERIMENT = {
    "run": {"name": "ring"},
    "batch": {"global": BATCH, "eval": TEST},
    "data": {"train": {"type": "synthetic", "samples": 64, "shape": [2], "classes": 2}},
    "model": {"layers": [{"type": "linear", "out": 32}, {"type": "tanh"}, {"type": "linear", "out": 32}, {"type": "tanh"}, {"type": "linear", "out": 2}]},
    "loss": {"type": "cross_entropy"},
    "optimizer": {"type": "adamw", "learning_rate": 0.01},
}


def points(draw, n):
    """n points (n, 2) in [-2, 2) and their labels (n): 1 inside the ring of radii 0.7 and 1.5."""
    x = array.array("f", (draw.uniform(-2, 2) for _ in range(2 * n)))
    label = array.array("i", (0.7 < math.hypot(x[2 * i], x[2 * i + 1]) < 1.5 for i in range(n)))
    return memoryview(x).cast("B").cast("f", (n, 2)), label  # a NumPy array or a tensor of PyTorch is as good


def main():
    with plait.Engine().experiment(EXPERIMENT).plan().session(files=False) as session:
        draw = random.Random(1)
        for _ in range(1000):
            x, label = points(draw, BATCH)
            step = session.step({"x": x, "label": label})
            if step.step % 250 == 0:
                print(f"step {step.step} loss {step.loss:.4f}")
        x, label = points(random.Random(12345), TEST)
        scores = session.predict({"x": x}).tolist()
        print(f"accuracy {sum((b > a) == expected for (a, b), expected in zip(scores, label)) / TEST:.3f}")
        print("model.linear3.bias", [round(value, 4) for value in session.view("model.linear3.bias").tolist()])


if __name__ == "__main__":
    main()
