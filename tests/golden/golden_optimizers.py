"""The optimizers of the golden training: each from PyTorch and each as a formula written out here.

A formula gets (p, g, state, s) as float64 NumPy arrays: parameter, gradient, a dict that is empty at
first, and the step s = 1, 2, …; it returns the new parameter. The generator runs both sides and fails
where they part by more than 1e-12, so the formulas are what the files contain. Lion and independent
decay, which PyTorch has not, come from the formula (Lion: Chen et al. 2023, algorithm 2).
"""

import numpy as np
import torch


def sgd(rate, momentum=0.0, nesterov=False, weight_decay=0.0):
    def update(p, g, state, s):
        g = g + weight_decay * p
        if momentum:
            m = state["m"] = g if s == 1 else momentum * state["m"] + g
            g = g + momentum * m if nesterov else m
        return p - rate * g

    return update


def adam(rate, beta1, beta2, eps, weight_decay=0.0, decoupled=False, independent_decay=False):
    """`decoupled` is AdamW. Independent: the decay per step does not scale with the rate."""

    def update(p, g, state, s):
        if independent_decay:
            p = p - weight_decay * p
        elif decoupled:
            p = p - rate * weight_decay * p
        else:
            g = g + weight_decay * p
        m = state["m"] = beta1 * state.get("m", 0.0) + (1 - beta1) * g
        v = state["v"] = beta2 * state.get("v", 0.0) + (1 - beta2) * g * g
        m_hat, v_hat = m / (1 - beta1**s), v / (1 - beta2**s)
        return p - rate * m_hat / (np.sqrt(v_hat) + eps)

    return update


def rmsprop(rate, alpha, eps, momentum=0.0, weight_decay=0.0):
    def update(p, g, state, s):
        g = g + weight_decay * p
        v = state["v"] = alpha * state.get("v", 0.0) + (1 - alpha) * g * g
        g = g / (np.sqrt(v) + eps)
        if momentum:
            g = state["m"] = momentum * state.get("m", 0.0) + g
        return p - rate * g

    return update


def adagrad(rate, eps, weight_decay=0.0):
    def update(p, g, state, s):
        g = g + weight_decay * p
        v = state["v"] = state.get("v", 0.0) + g * g
        return p - rate * g / (np.sqrt(v) + eps)

    return update


def lion(rate, beta1, beta2, weight_decay=0.0):
    def update(p, g, state, s):
        m = state.get("m", 0.0)
        direction = np.sign(beta1 * m + (1 - beta1) * g)
        state["m"] = beta2 * m + (1 - beta2) * g
        return p - rate * (direction + weight_decay * p)

    return update


FORMULAS = {"sgd": sgd, "adam": adam, "rmsprop": rmsprop, "adagrad": adagrad, "lion": lion}

ADAM = dict(rate=0.01, beta1=0.9, beta2=0.999, eps=1e-8)

# name of the case: (formula, its options). `clip_norm` and `sample_weights` belong to the trainer.
CASES = {
    "sgd": ("sgd", dict(rate=0.1)),
    "sgd_momentum": ("sgd", dict(rate=0.05, momentum=0.9)),
    "sgd_nesterov": ("sgd", dict(rate=0.05, momentum=0.9, nesterov=True)),
    "sgd_decay": ("sgd", dict(rate=0.1, weight_decay=0.05)),
    "sgd_momentum_decay": ("sgd", dict(rate=0.05, momentum=0.9, weight_decay=0.05)),
    "sgd_clip": ("sgd", dict(rate=0.1, clip_norm=0.5)),
    "sgd_weighted": ("sgd", dict(rate=0.1, sample_weights=True)),
    "adam": ("adam", ADAM),
    "adam_l2": ("adam", ADAM | dict(weight_decay=0.05)),
    "adamw": ("adam", ADAM | dict(weight_decay=0.05, decoupled=True)),
    "adamw_scaling": (
        "adam",
        dict(rate=0.01, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=1e-4, decoupled=True,
             clip_norm=1.0),
    ),
    "adamw_independent": (
        "adam", ADAM | dict(weight_decay=0.002, decoupled=True, independent_decay=True)
    ),
    "rmsprop": ("rmsprop", dict(rate=0.005, alpha=0.99, eps=1e-8)),
    "rmsprop_momentum": ("rmsprop", dict(rate=0.002, alpha=0.99, eps=1e-8, momentum=0.9)),
    "adagrad": ("adagrad", dict(rate=0.05, eps=1e-10)),
    "lion": ("lion", dict(rate=0.005, beta1=0.9, beta2=0.99)),
    "lion_decay": ("lion", dict(rate=0.005, beta1=0.9, beta2=0.99, weight_decay=0.1)),
}  # fmt: skip

TRAINER_OPTIONS = ("clip_norm", "sample_weights")


def formula_of(case):
    """The update function of a case."""
    name, options = CASES[case]
    return FORMULAS[name](**{k: v for k, v in options.items() if k not in TRAINER_OPTIONS})


def torch_has(case):
    name, options = CASES[case]
    return name != "lion" and not options.get("independent_decay")


def torch_optimizer_of(case, parameters):
    """PyTorch's optimizer for a case that torch_has."""
    name, o = CASES[case]
    decay = o.get("weight_decay", 0.0)
    if name == "sgd":
        return torch.optim.SGD(
            parameters, lr=o["rate"], momentum=o.get("momentum", 0.0),
            nesterov=o.get("nesterov", False), weight_decay=decay, foreach=False,
        )  # fmt: skip
    if name == "adam":
        kind = torch.optim.AdamW if o.get("decoupled") else torch.optim.Adam
        return kind(
            parameters, lr=o["rate"], betas=(o["beta1"], o["beta2"]), eps=o["eps"],
            weight_decay=decay, foreach=False,
        )  # fmt: skip
    if name == "rmsprop":
        return torch.optim.RMSprop(
            parameters, lr=o["rate"], alpha=o["alpha"], eps=o["eps"],
            momentum=o.get("momentum", 0.0), weight_decay=decay, foreach=False,
        )  # fmt: skip
    return torch.optim.Adagrad(parameters, lr=o["rate"], eps=o["eps"], weight_decay=decay)
