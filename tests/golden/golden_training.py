"""Golden training: one small MLP, 20 fixed batches, every optimizer, in float64.

Model: 13 inputs, linear 11, ReLU, linear 7, ReLU, linear 5, cross-entropy. Parameters are named
`layer1.weight` (11,13), `layer1.bias` (11), … `layer3.bias` (5); a linear layer is y = x w^T + b.
Loss of a batch: sum(w l) / sum(w) over its 6 samples, w = 1 except in cases with `sample_weights`.
Clipping: with n the L2 norm over all gradients, g is multiplied by min(1, clip_norm / (n + 1e-6)).

Case `training` holds what all share: `x` (20,6,13), `target` (20,6), `w` (20,6), the initial parameters
`init.NAME`, and of step 1, before any update, with w = 1: `logits` (6,5), `loss`, `grad_norm` and every
gradient `grad.NAME`; `weighted.…` the same with the stored w.
Case `training.OPTIMIZER` holds `losses` (20), each before that step's update, `grad_norms` (20), before
clipping, `final_loss` (batch 1 with the final parameters) and the parameters after 20 steps, `final.NAME`.
"""

import numpy as np
import torch
import torch.nn.functional as F

import golden_optimizers as optimizers
from golden_data import Golden, Inputs, to_bf16

WIDTHS = (13, 11, 7, 5)
STEPS, BATCH = 20, 6
CLIP_EPSILON = 1e-6  # as torch.nn.utils.clip_grad_norm_ has it


def make():
    golden = Golden()
    inputs = Inputs(20240603)
    initial = initial_parameters(inputs)
    data = make_data(inputs)
    tensors = {"x": data["x"], "target": data["target"], "w": data["w"]}
    tensors |= {f"init.{name}": value for name, value in initial.items()}
    tensors |= first_step(initial, data, weighted=False)
    tensors |= {f"weighted.{k}": v for k, v in first_step(initial, data, weighted=True).items()}
    golden.add("training", {"widths": WIDTHS, "steps": STEPS, "batch": BATCH}, tensors)

    for case, (name, options) in optimizers.CASES.items():
        by_formula = train(initial, data, options, FormulaUpdate(case))
        in_torch = optimizers.torch_has(case)
        if in_torch:
            by_torch = train(initial, data, options, TorchUpdate(case))
            for key, value in by_torch.items():
                np.testing.assert_allclose(by_formula[key], value, rtol=1e-12, atol=1e-12)
            by_formula = by_torch
        attributes = dict(options, optimizer=name, source="torch" if in_torch else "formula")
        golden.add(f"training.{case}", attributes, by_formula)
    return golden


def initial_parameters(inputs):
    parameters = {}
    for layer, (fan_in, fan_out) in enumerate(zip(WIDTHS, WIDTHS[1:]), start=1):
        parameters[f"layer{layer}.weight"] = inputs.normal(fan_out, fan_in, scale=fan_in**-0.5)
        parameters[f"layer{layer}.bias"] = inputs.normal(fan_out, scale=0.1)
    return parameters


def make_data(inputs):
    """Class means plus noise, so that there is something to learn; the last weights are padding."""
    means = inputs.normal(WIDTHS[-1], WIDTHS[0])
    target = inputs.integers(WIDTHS[-1], STEPS, BATCH)
    x = inputs.normal(STEPS, BATCH, WIDTHS[0])
    w = inputs.uniform(STEPS, BATCH, low=0.25, high=2)
    w[:, -1] = 0
    w[-1, -3:] = 0
    return {"x": to_bf16(means[target] + x), "target": target, "w": w}


def fresh(initial):
    return {k: torch.tensor(v, dtype=torch.float64, requires_grad=True) for k, v in initial.items()}


def loss_of(parameters, data, step, weighted):
    """(loss, logits) of one batch."""
    x = torch.tensor(data["x"][step])
    target = torch.tensor(data["target"][step])
    w = torch.tensor(data["w"][step]) if weighted else torch.ones(BATCH, dtype=torch.float64)
    layers = len(WIDTHS) - 1
    for layer in range(1, layers + 1):
        x = F.linear(x, parameters[f"layer{layer}.weight"], parameters[f"layer{layer}.bias"])
        if layer < layers:
            x = F.relu(x)
    losses = F.cross_entropy(x, target, reduction="none")
    return (w * losses).sum() / w.sum(), x


def norm_of(gradients):
    return torch.sqrt(sum((g * g).sum() for g in gradients))


def first_step(initial, data, weighted):
    parameters = fresh(initial)
    loss, logits = loss_of(parameters, data, 0, weighted)
    loss.backward()
    result = {"logits": logits, "loss": loss}
    result["grad_norm"] = norm_of([p.grad for p in parameters.values()])
    return result | {f"grad.{name}": p.grad for name, p in parameters.items()}


class TorchUpdate:
    """PyTorch's optimizer object."""

    def __init__(self, case):
        self._case = case
        self._optimizer = None

    def step(self, parameters, s):
        if self._optimizer is None:
            self._optimizer = optimizers.torch_optimizer_of(self._case, list(parameters.values()))
        self._optimizer.step()


class FormulaUpdate:
    """The formula, parameter by parameter."""

    def __init__(self, case):
        self._case = case
        self._states = {}

    def step(self, parameters, s):
        for name, p in parameters.items():
            state = self._states.setdefault(name, {})
            last = name == f"layer{len(WIDTHS) - 1}.weight"
            formula = optimizers.formula_of(self._case, last)
            new = formula(p.detach().numpy().copy(), p.grad.numpy().copy(), state, s)
            p.data = torch.tensor(new)


def train(initial, data, options, update):
    parameters = fresh(initial)
    weighted = options.get("sample_weights", False)
    losses, norms = [], []
    for step in range(STEPS):
        for p in parameters.values():
            p.grad = None
        loss, _ = loss_of(parameters, data, step, weighted)
        loss.backward()
        norm = norm_of([p.grad for p in parameters.values()])
        losses.append(loss.item())
        norms.append(norm.item())
        if "clip_norm" in options:
            factor = min(1.0, options["clip_norm"] / (norms[-1] + CLIP_EPSILON))
            for p in parameters.values():
                p.grad *= factor
        update.step(parameters, step + 1)
    final_loss, _ = loss_of(parameters, data, 0, weighted)
    result = {"losses": np.array(losses), "grad_norms": np.array(norms), "final_loss": final_loss}
    result |= {f"final.{name}": p for name, p in parameters.items()}
    return {k: v.detach().numpy() if isinstance(v, torch.Tensor) else v for k, v in result.items()}
