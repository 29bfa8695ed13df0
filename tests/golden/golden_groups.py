"""Golden updates of experts: optimizers of whole matrices, each expert's matrix on its own, in float64.

Case `groups.OPTIMIZER.SHAPE` holds `p` (3,R,C), gradients `g` (4,3,R,C), of which the second matrix
has none in the first step, and `final` (3,R,C), what each matrix is behind four steps of an optimizer
that has that matrix alone: PyTorch's, of LAMB the formula in golden_optimizers.py.
"""

import numpy as np
import torch

import golden_optimizers as optimizers
from golden_data import Golden, Inputs

STEPS, GROUPS = 4, 3
RATE, DECAY = 0.02, 0.1
SHAPES = {"tall": (5, 3), "wide": (3, 5)}


def muon(p):
    torch.optim._muon.torch = optimizers.WithoutBfloat16()
    return torch.optim.Muon([p], lr=RATE, weight_decay=DECAY, adjust_lr_fn="original")


def adafactor(p):
    return torch.optim.Adafactor([p], lr=RATE, weight_decay=DECAY, eps=(1e-7, 1e-3), foreach=False)


def by_torch(make):
    def train(start, gradients):
        p = torch.tensor(start, dtype=torch.float64, requires_grad=True)
        optimizer = make(p)
        for g in gradients:
            p.grad = torch.tensor(g, dtype=torch.float64)
            optimizer.step()
        return p.detach().numpy()

    return train


def lamb(start, gradients):
    update = optimizers.lamb(**dict(optimizers.LAMB, rate=RATE, weight_decay=DECAY))
    p, state = start, {}
    for s, g in enumerate(gradients, start=1):
        p = update(p, g, state, s)
    return p


OPTIMIZERS = {"muon": by_torch(muon), "adafactor": by_torch(adafactor), "lamb": lamb}


def make():
    golden = Golden()
    inputs = Inputs(20261127)
    for shape, dims in SHAPES.items():
        start = inputs.normal(GROUPS, *dims)
        # Of sizes of their own: a norm of all matrices would show.
        sizes = np.array([0.01, 1.0, 30.0]).reshape(GROUPS, 1, 1)
        gradients = inputs.normal(STEPS, GROUPS, *dims) * sizes
        gradients[0, 1] = 0
        for name, train in OPTIMIZERS.items():
            final = np.stack([train(start[e], gradients[:, e]) for e in range(GROUPS)])
            golden.add(
                f"groups.{name}.{shape}",
                {"optimizer": name, "learning_rate": RATE, "weight_decay": DECAY},
                {"p": start, "g": gradients, "final": final},
            )
    return golden
