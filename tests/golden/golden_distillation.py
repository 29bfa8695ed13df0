"""Golden distillation: a student that learns from labels, of which some are ignored, and from a frozen teacher.

Student: 13 inputs, linear 11, ReLU, linear 5; teacher: linear 5. 10 fixed batches of 6 samples with weights `w`,
in float64. Each loss is the sum over the batch of weight * loss, divided by the sum of its own weights:
cross-entropy against `target` (10,6) counts the samples whose target is not negative, and adds nothing where there
is none (in batch 4); mse and huber (delta 1) of the teacher's outputs count all samples.
  loss = cross_entropy + 0.5 mse + 0.25 huber
SGD with momentum, the gradient clipped. `losses` (10) and `cross_entropy`, `mse`, `huber` (10) are each before that
step's update, `grad_norms` (10) before clipping, `final.NAME` the parameters after 10 steps.
"""

import numpy as np
import torch
import torch.nn.functional as F

from golden_data import Golden, Inputs, to_bf16
from golden_training import CLIP_EPSILON, fresh, norm_of

STEPS, BATCH, FEATURES, HIDDEN, CLASSES = 10, 6, 13, 11, 5
WEIGHTS = {"cross_entropy": 1.0, "mse": 0.5, "huber": 0.25}
OPTIONS = {"rate": 0.05, "momentum": 0.9, "clip_norm": 0.5}


def make():
    golden = Golden()
    inputs = Inputs(20261126)
    initial = {}
    for name, fan_in, fan_out in (("layer1", FEATURES, HIDDEN), ("layer2", HIDDEN, CLASSES), ("teacher", FEATURES, CLASSES)):
        initial[f"{name}.weight"] = inputs.normal(fan_out, fan_in, scale=fan_in**-0.5)
        initial[f"{name}.bias"] = inputs.normal(fan_out, scale=0.1)
    data = make_data(inputs)
    tensors = dict(data) | {f"init.{name}": value for name, value in initial.items()}
    golden.add("distillation", dict(OPTIONS, weights=WEIGHTS), tensors | train(initial, data))
    return golden


def make_data(inputs):
    target = inputs.integers(CLASSES, STEPS, BATCH)
    target[inputs.uniform(STEPS, BATCH) < 0.4] = -1
    target[3] = -1
    w = inputs.uniform(STEPS, BATCH, low=0.25, high=2)
    w[-1, -2:] = 0  # the padding of an incomplete last batch
    return {"x": to_bf16(inputs.normal(STEPS, BATCH, FEATURES)), "target": target, "w": w}


def losses_of(parameters, data, step):
    x, target, w = (torch.tensor(data[name][step]) for name in ("x", "target", "w"))
    hidden = F.relu(F.linear(x, parameters["layer1.weight"], parameters["layer1.bias"]))
    logits = F.linear(hidden, parameters["layer2.weight"], parameters["layer2.bias"])
    with torch.no_grad():
        taught = F.linear(x, parameters["teacher.weight"], parameters["teacher.bias"])
    per_sample = {
        "cross_entropy": F.cross_entropy(logits, target, reduction="none", ignore_index=-1),
        "mse": F.mse_loss(logits, taught, reduction="none").mean(1),
        "huber": F.huber_loss(logits, taught, reduction="none").mean(1),
    }
    counted = {"cross_entropy": w * (target >= 0)}
    result = {}
    for name, losses in per_sample.items():
        own = counted.get(name, w)
        total = own.sum()
        result[name] = (own * losses).sum() / total if total > 0 else (0 * losses).sum()
    return result


def train(initial, data):
    parameters = fresh(initial)
    student = [p for name, p in parameters.items() if name.startswith("layer")]
    optimizer = torch.optim.SGD(student, lr=OPTIONS["rate"], momentum=OPTIONS["momentum"])
    figures = {name: [] for name in ("losses", "grad_norms", *WEIGHTS)}
    for step in range(STEPS):
        optimizer.zero_grad()
        losses = losses_of(parameters, data, step)
        loss = sum(WEIGHTS[name] * value for name, value in losses.items())
        loss.backward()
        norm = norm_of([p.grad for p in student])
        for name, value in losses.items():
            figures[name].append(value.item())
        figures["losses"].append(loss.item())
        figures["grad_norms"].append(norm.item())
        factor = min(1.0, OPTIONS["clip_norm"] / (norm.item() + CLIP_EPSILON))
        for p in student:
            p.grad *= factor
        optimizer.step()
    result = {name: np.array(values) for name, values in figures.items()}
    return result | {f"final.{name}": p.detach().numpy() for name, p in parameters.items()}
