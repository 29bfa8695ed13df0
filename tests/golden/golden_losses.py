"""Losses and the gradients of their inputs, from PyTorch in float64.

Every case has B samples with weights `w` (B) and stores, per sample, the unweighted loss `l` (B).
The two sums stay apart, as a run on several ranks needs them: `sum_wl` = sum(w l), `sum_w` = sum(w).
`dx` is the gradient of sum_wl; `dx_mean` that of the loss a user sees, `mean` = sum_wl / sum_w.
For losses on values the loss of a sample is the mean over its elements.
"""

import torch
import torch.nn.functional as F

from golden_data import Golden, Inputs, leaf


def make():
    golden = Golden()
    inputs = Inputs(20240602)
    add_cross_entropies(golden, inputs)
    add_value_losses(golden, inputs)
    return golden


def weights_for(inputs, batch, kind):
    if kind == "ones":
        return inputs.uniform(batch) * 0 + 1
    weights = inputs.uniform(batch, low=0.25, high=2)
    if kind == "padded":
        weights[-2:] = 0  # the padding of an incomplete last batch
    return weights


def add(golden, case, attributes, per_sample, x, target, weights):
    x = leaf(x)
    w = torch.tensor(weights)
    losses = per_sample(x, torch.tensor(target))
    sum_wl, sum_w = (w * losses).sum(), w.sum()
    mean = sum_wl / sum_w
    (dx,) = torch.autograd.grad(sum_wl, x, retain_graph=True)
    (dx_mean,) = torch.autograd.grad(mean, x)
    golden.add(
        case,
        attributes,
        {
            "x": x,
            "target": target,
            "w": weights,
            "l": losses,
            "sum_wl": sum_wl,
            "sum_w": sum_w,
            "mean": mean,
            "dx": dx,
            "dx_mean": dx_mean,
        },
    )


def add_cross_entropies(golden, inputs):
    """x (B,C) logits, target (B) class indices. Smoothing s: (1 - s) nll + s mean(-log_softmax)."""
    for shape in ((5, 7), (3, 17), (6, 2)):
        for smoothing in (0.0, 0.1):
            for kind in ("ones", "weighted") + (("padded",) if shape[0] >= 5 else ()):
                x = inputs.normal(*shape, scale=2)
                target = inputs.integers(shape[1], shape[0])
                add(
                    golden,
                    f"cross_entropy.{shape[0]}x{shape[1]}.{'smooth' if smoothing else 'plain'}.{kind}",
                    {"loss": "cross_entropy", "label_smoothing": smoothing},
                    lambda x, t: F.cross_entropy(
                        x, t, reduction="none", label_smoothing=smoothing
                    ),
                    x,
                    target,
                    weights_for(inputs, shape[0], kind),
                )
    x = inputs.normal(4, 9, scale=500)
    target = inputs.integers(9, 4)
    add(
        golden,
        "cross_entropy.huge",
        {"loss": "cross_entropy", "label_smoothing": 0.0},
        lambda x, t: F.cross_entropy(x, t, reduction="none"),
        x,
        target,
        weights_for(inputs, 4, "ones"),
    )


def row_mean(losses):
    return losses.flatten(1).mean(1)


def add_value_losses(golden, inputs):
    """x and target (B,C). huber: d^2/2 where |d| <= delta, else delta (|d| - delta/2)."""
    losses = {
        "mse": ({}, lambda x, t: row_mean((x - t) ** 2)),
        "mae": ({}, lambda x, t: row_mean((x - t).abs())),
        "huber.delta1": (
            {"loss": "huber", "delta": 1.0},
            lambda x, t: row_mean(F.huber_loss(x, t, reduction="none", delta=1.0)),
        ),
        "huber.delta0.5": (
            {"loss": "huber", "delta": 0.5},
            lambda x, t: row_mean(F.huber_loss(x, t, reduction="none", delta=0.5)),
        ),
        "bce_with_logits": (
            {"loss": "binary_cross_entropy"},
            lambda x, t: row_mean(F.binary_cross_entropy_with_logits(x, t, reduction="none")),
        ),
    }
    for name, (attributes, per_sample) in losses.items():
        for shape in ((5, 7), (3, 17), (6, 1)):
            for kind in ("ones", "weighted"):
                scale = 4 if name == "bce_with_logits" else 1
                x = inputs.normal(*shape, scale=scale)
                if name == "bce_with_logits":
                    target = inputs.uniform(*shape)
                    target[0], target[1] = 0.0, 1.0
                    x[-1, 0] = 200.0  # log(1 + exp(x)) would overflow in f32
                else:
                    target = inputs.normal(*shape)
                    target[0, 0] = x[0, 0]  # the gradient of mae is 0 at equality
                add(
                    golden,
                    f"{name}.{shape[0]}x{shape[1]}.{kind}",
                    {"loss": name} | attributes,
                    per_sample,
                    x,
                    target,
                    weights_for(inputs, shape[0], kind),
                )
