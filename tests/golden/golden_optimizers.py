"""The optimizers of the golden training: each from PyTorch and each as a formula written out here.

A formula gets (p, g, state, s) as float64 NumPy arrays: parameter, gradient, a dict that is empty at
first, and the step s = 1, 2, …; it returns the new parameter. The generator runs both sides and fails
where they part by more than 1e-12, so the formulas are what the files contain. Lion, LAMB and independent
decay, which PyTorch has not, come from the formula (Lion: Chen et al. 2023, algorithm 2; LAMB: You et al. 2019,
arXiv:1904.00962, algorithm 2). PyTorch's Muon computes its products in bfloat16; here it is made to use float64.
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


def lamb(rate, beta1, beta2, eps, weight_decay=0.0, vectors=True):
    """Without `vectors`, what has one dimension is not scaled. A norm of 0 gives the ratio 1."""

    def update(p, g, state, s):
        m = state["m"] = beta1 * state.get("m", 0.0) + (1 - beta1) * g
        v = state["v"] = beta2 * state.get("v", 0.0) + (1 - beta2) * g * g
        r = m / (1 - beta1**s) / (np.sqrt(v / (1 - beta2**s)) + eps) + weight_decay * p
        own, of_update = np.sqrt((p * p).sum()), np.sqrt((r * r).sum())
        scaled = (vectors or p.ndim > 1) and own > 0 and of_update > 0
        return p - rate * (own / of_update if scaled else 1.0) * r

    return update


def adafactor(rate, beta2_decay, eps1, eps2, d, weight_decay=0.0):
    """Shazeer and Stern 2018, arXiv:1804.04235, algorithms 4 to 6, with PyTorch's use of eps1."""

    def update(p, g, state, s):
        weight = float(s) ** beta2_decay
        step = max(eps2, np.sqrt((p * p).mean())) * min(rate, 1 / np.sqrt(s))
        if p.ndim > 1:
            row, column = state.get("row", 0.0), state.get("column", 0.0)
            row = state["row"] = row + weight * ((g * g).mean(-1, keepdims=True) - row)
            column = state["column"] = column + weight * ((g * g).mean(-2, keepdims=True) - column)
            v = row * column / np.maximum(row.mean(-2, keepdims=True), eps1)
        else:
            v = state.get("v", 0.0)
            v = state["v"] = v + weight * (g * g - v)
        u = g / np.sqrt(np.maximum(v, eps1 * eps1))
        u /= max(1.0, np.sqrt((u * u).mean()) / d)
        return p * (1 - rate * weight_decay) - step * u

    return update


def muon(rate, momentum, nesterov, eps, iterations, coefficients, scale, weight_decay, adamw, ratio):
    """Jordan et al. 2024. What is no matrix, and the last layer's, follows AdamW at rate * ratio."""
    rest = adam(rate=rate * ratio, weight_decay=weight_decay, decoupled=True, **adamw)
    a, b, c = coefficients

    def update(p, g, state, s):
        if p.ndim < 2:
            return rest(p, g, state, s)
        m = state["m"] = momentum * state.get("m", 0.0) + (1 - momentum) * g
        x = (1 - momentum) * g + momentum * m if nesterov else m
        rows, columns = x.shape
        if rows > columns:
            x = x.T
        x = x / max(np.sqrt((x * x).sum()), eps)
        for _ in range(iterations):
            gram = x @ x.T
            x = a * x + (b * gram + c * gram @ gram) @ x
        if rows > columns:
            x = x.T
        of_shape = {
            "spectral": np.sqrt(max(1, rows / columns)), "rms": 0.2 * np.sqrt(max(rows, columns)),
        }[scale]  # fmt: skip
        return p * (1 - rate * weight_decay) - rate * of_shape * x

    return update


FORMULAS = {"sgd": sgd, "adam": adam, "rmsprop": rmsprop, "adagrad": adagrad, "lion": lion}
FORMULAS |= {"lamb": lamb, "adafactor": adafactor, "muon": muon}

LAMB = dict(rate=0.02, beta1=0.9, beta2=0.999, eps=1e-6)
ADAFACTOR = dict(rate=0.05, beta2_decay=-0.8, eps1=1e-7, eps2=1e-3, d=1.0)
MUON = dict(
    rate=0.02, momentum=0.95, nesterov=True, eps=1e-7, iterations=5,
    coefficients=(3.4445, -4.775, 2.0315), scale="spectral", weight_decay=0.0,
    adamw=dict(beta1=0.9, beta2=0.999, eps=1e-8), ratio=1.0,
)  # fmt: skip
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
    "lamb": ("lamb", LAMB),
    "lamb_decay": ("lamb", LAMB | dict(weight_decay=0.05, clip_norm=0.5)),
    "lamb_matrices": ("lamb", LAMB | dict(weight_decay=0.05, vectors=False)),
    "adafactor": ("adafactor", ADAFACTOR),
    "adafactor_decay": ("adafactor", ADAFACTOR | dict(weight_decay=0.05, eps2=0.3, d=1.5)),
    "muon": ("muon", MUON),
    "muon_plain": (
        "muon",
        MUON | dict(nesterov=False, momentum=0.8, scale="rms", weight_decay=0.1, ratio=0.3),
    ),
    "muon_quick": (
        "muon",
        MUON | dict(iterations=3, coefficients=(2.0, -1.5, 0.5), weight_decay=0.1),
    ),
}  # fmt: skip

TRAINER_OPTIONS = ("clip_norm", "sample_weights")


def formula_of(case, last_matrix):
    """The update function of a case, for a parameter that is the last matrix or not."""
    name, options = CASES[case]
    if name == "muon" and last_matrix:
        adamw = dict(rate=options["rate"] * options["ratio"], **options["adamw"])
        return adam(**adamw, weight_decay=options["weight_decay"], decoupled=True)
    return FORMULAS[name](**{k: v for k, v in options.items() if k not in TRAINER_OPTIONS})


def torch_has(case):
    name, options = CASES[case]
    return name not in ("lion", "lamb") and not options.get("independent_decay")


def torch_optimizer_of(case, parameters):
    """PyTorch's optimizers for a case that torch_has."""
    name, o = CASES[case]
    decay = o.get("weight_decay", 0.0)
    if name == "muon":
        return muon_in_torch(parameters, o, decay)
    if name == "adafactor":
        return torch.optim.Adafactor(
            parameters, lr=o["rate"], beta2_decay=o["beta2_decay"], eps=(o["eps1"], o["eps2"]),
            d=o["d"], weight_decay=decay, foreach=False,
        )  # fmt: skip
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


class Both:
    """Two optimizers that step together."""

    def __init__(self, *optimizers):
        self._optimizers = optimizers

    def step(self):
        for optimizer in self._optimizers:
            optimizer.step()


def muon_in_torch(parameters, o, decay):
    """Muon for matrices but the last, AdamW for the rest, all in float64."""
    torch.optim._muon.torch = WithoutBfloat16()
    matrices = [p for p in parameters if p.ndim > 1][:-1]
    rest = [p for p in parameters if not any(p is m for m in matrices)]
    a = o["adamw"]
    return Both(
        torch.optim.Muon(
            matrices, lr=o["rate"], weight_decay=decay, momentum=o["momentum"],
            nesterov=o["nesterov"], ns_coefficients=o["coefficients"], eps=o["eps"],
            ns_steps=o["iterations"],
            adjust_lr_fn={"spectral": "original", "rms": "match_rms_adamw"}[o["scale"]],
        ),
        torch.optim.AdamW(
            rest, lr=o["rate"] * o["ratio"], betas=(a["beta1"], a["beta2"]), eps=a["eps"],
            weight_decay=decay, foreach=False,
        ),
    )  # fmt: skip


class WithoutBfloat16:
    """The torch module as its Muon sees it, with float64 under the name of bfloat16."""

    bfloat16 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)
