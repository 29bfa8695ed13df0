"""Golden PEFT: the MLP and the batches of golden_training with adapters, 20 steps of AdamW in float64.

Where the peft library has the method it computes the model; `bitfit`, `bottleneck`, `stacked` and
`rows.tied` are written here. Every parameter of an adapter starts at a drawn value, so that each
has a gradient at once.

Case `peft.NAME` has the attribute `adapters`, the [[model.adapters]] entries of Plait, `train`, the
model's own parameters that learn beside them, and `groups` of the optimizer, and holds the
initial parameters of the adapters `init.PARAMETER`, `losses` (20), each before its update,
`grad_norms` (20) over the adapters, and their parameters after 20 steps `final.PARAMETER`, where
PARAMETER is Plait's full name; `output` (6, 5), what the model makes of the first batch then; and
`merged.PARAMETER`, all parameters of the model with the adapters merged, where that is possible.
AdaLoRA's losses contain its term, and its steps count from 1. Of parameters in `train` init and
final are there as well. PiSSA starts as the library lets it; `start.PARAMETER` are the principal
parts of the weights by an SVD in float64.
Case `peft` holds what all share. The cases `rows.NAME` are the same of a table whose rows are looked
up by the labels, a linear layer, ReLU and a head, without weight decay: the peft library trains
rows, Plait what is added to them. `rows.lora` is LoRA of the table.

    python golden_peft.py [--check]      needs requirements_peft.txt, beside requirements.txt
"""

import copy
import pathlib
import sys
import types

import numpy as np
import torch
import torch.nn.functional as F
from peft import (AdaLoraConfig, IA3Config, LoraConfig, TrainableTokensConfig, VeraConfig,
                  get_peft_model)
from peft.optimizers import create_loraplus_optimizer

from golden_data import Golden, Inputs, write_or_check
from golden_training import STEPS, WIDTHS, initial_parameters, make_data, norm_of

ADAMW = dict(lr=0.02, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.05)
HIDDEN = 4  # of the bottleneck
RANK = 6  # of VeRA
IDS = [4, 1, 2]  # of the rows that are trained, of 5


class Mlp(torch.nn.Module):
    def __init__(self, initial):
        super().__init__()
        for layer, (fan_in, fan_out) in enumerate(zip(WIDTHS, WIDTHS[1:]), start=1):
            linear = torch.nn.Linear(fan_in, fan_out, dtype=torch.float64)
            linear.weight.data = torch.tensor(initial[f"layer{layer}.weight"])
            linear.bias.data = torch.tensor(initial[f"layer{layer}.bias"])
            setattr(self, f"layer{layer}", linear)

    def forward(self, x):
        return self.layer3(F.relu(self.layer2(F.relu(self.layer1(x)))))


class Bitfit(Mlp):
    def __init__(self, initial):
        super().__init__(initial)
        for p in self.parameters():
            p.requires_grad = False
        for layer in (1, 2, 3):
            width = WIDTHS[layer]
            self.register_parameter(f"change{layer}", fresh(width))

    def forward(self, x):
        for layer in (1, 2, 3):
            x = getattr(self, f"layer{layer}")(x) + getattr(self, f"change{layer}")
            x = F.relu(x) if layer < 3 else x
        return x

    def merged(self):
        return {f"linear{i}.bias": getattr(self, f"layer{i}").bias + getattr(self, f"change{i}")
                for i in (1, 2, 3)}


class Bottleneck(Mlp):
    """Behind the second linear layer, before its ReLU."""

    def __init__(self, initial):
        super().__init__(initial)
        for p in self.parameters():
            p.requires_grad = False
        self.down, self.up = fresh(HIDDEN, WIDTHS[2]), fresh(WIDTHS[2], HIDDEN)

    def forward(self, x):
        y = self.layer2(F.relu(self.layer1(x)))
        y = y + F.linear(F.gelu(F.linear(y, self.down)), self.up)
        return self.layer3(F.relu(y))


class Stacked(Mlp):
    """LoRA, then factors of the inputs, on the last linear layer: each adds to what was before."""

    def __init__(self, initial):
        super().__init__(initial)
        for p in self.parameters():
            p.requires_grad = False
        self.a, self.b = fresh(2, WIDTHS[2]), fresh(WIDTHS[3], 2)
        self.factor = fresh(WIDTHS[2])

    def forward(self, x):
        x = F.relu(self.layer2(F.relu(self.layer1(x))))
        changed = F.linear(x * self.factor, self.layer3.weight, self.layer3.bias)
        return changed + F.linear(F.linear(x, self.a), self.b) * (3 / 2)

    def merged(self):
        return {"linear3.weight": self.layer3.weight * self.factor + self.b @ self.a * (3 / 2)}


def fresh(*shape):
    return torch.nn.Parameter(torch.zeros(*shape, dtype=torch.float64))


def lora_names(model, method):
    """Plait's names of the adapter's parameters."""
    names = {}
    for name, p in model.named_parameters():
        if "lora_" in name:
            layer, factor = name.split("layer")[1][0], name.split("lora_")[1][0].lower()
            factor = "magnitude" if factor == "m" else factor
            names[f"model.linear{layer}.weight.{method}.{factor}"] = p
    return names


def lora(initial, **options):
    layers = options.pop("layers")
    config = LoraConfig(target_modules=[f"layer{i}" for i in layers], **options)
    model = get_peft_model(Mlp(initial), config)
    method = "dora" if options.get("use_dora") else "lora"
    entry = dict(type=method, match=[f"model.linear{i}.weight" for i in layers],
                 rank=options["r"], alpha=float(options["lora_alpha"]),
                 rslora=options.get("use_rslora", False))
    return model, lora_names(model, method), [entry]


def patterned(initial):
    """Ranks and factors by pattern."""
    model, names, (entry,) = lora(initial, layers=(1, 2, 3), r=2, lora_alpha=4,
                                  rank_pattern={"layer2": 4, "layer3": 1},
                                  alpha_pattern={"layer3": 9})
    entry |= dict(rank_pattern=["*.linear2.weight=4", "*.linear3.weight=1"],
                  alpha_pattern=["*.linear3.weight=9"])
    return model, names, [entry]


def beside(initial, train, **options):
    """Parameters of the model that learn beside LoRA: biases, or modules_to_save."""
    model, names, entries = lora(initial, r=2, lora_alpha=3, **options)
    for name, p in model.named_parameters():
        if p.requires_grad and "lora_" not in name:
            layer, part = name.split("layer")[1][0], name.rsplit(".", 1)[1]
            names[f"model.linear{layer}.{part}"] = p
    return model, names, entries, {}, {}, dict(train=train)


def loraplus(initial):
    """The second factors learn 16 times as fast."""
    model, names, entries = lora(initial, layers=(1, 3), r=2, lora_alpha=3)
    optimizer = create_loraplus_optimizer(model, torch.optim.AdamW, loraplus_lr_ratio=16,
                                          loraplus_weight_decay=ADAMW["weight_decay"],
                                          **(ADAMW | dict(lr=0.002)))
    groups = [dict(match=["*.lora.a"], learning_rate=0.002),
              dict(match=["*.lora.b"], learning_rate=0.032)]
    return model, names, entries, {}, {}, dict(groups=groups), optimizer


def pissa(initial):
    """The library takes the principal part out of the weights, in f32: here again in float64."""
    rank, alpha, layers = 3, 6, (1, 2, 3)
    start = get_peft_model(Mlp(initial).float(), LoraConfig(
        r=rank, lora_alpha=alpha, init_lora_weights="pissa",
        target_modules=[f"layer{i}" for i in layers])).double()
    names, fixed, parts = {}, {}, {}
    for name, p in lora_names(start, "pissa").items():
        names[name] = p
        fixed[f"{name[:-1]}initial_{name[-1]}"] = p.detach().clone()
    for i in layers:
        layer = getattr(start.base_model.model, f"layer{i}")
        weight = torch.tensor(initial[f"layer{i}.weight"])
        b, a = (fixed[f"model.linear{i}.weight.pissa.initial_{factor}"] for factor in "ba")
        layer.base_layer.weight.data = weight - alpha / rank * b @ a
        u, sigma, v = torch.linalg.svd(weight, full_matrices=False)
        parts[f"start.model.linear{i}.weight"] = (u[:, :rank] * sigma[:rank]) @ v[:rank]
        fixed[f"model.linear{i}.weight.pissa.minus_initial_b"] = -fixed.pop(
            f"model.linear{i}.weight.pissa.initial_b")
    match = [f"model.linear{i}.weight" for i in layers]
    entry = dict(type="pissa", match=match, rank=rank, alpha=float(alpha))
    return start, names, [entry], fixed, parts


class MlpWithLoss(Mlp):
    """The library adds its term of the loss to one that the model gives itself."""

    def forward(self, x, target=None):
        logits = super().forward(x)
        if target is None:
            return logits
        return types.SimpleNamespace(loss=F.cross_entropy(logits, target))


def adalora(initial, **options):
    layers = ["layer1", "layer2", "layer3"]
    config = AdaLoraConfig(target_modules=layers, total_step=STEPS, **options)
    model = get_peft_model(MlpWithLoss(initial), config).double()
    entry = dict(type="adalora", match=["model.linear*.weight"], alpha=float(options["lora_alpha"]))
    own = dict(init_r="init_rank", target_r="target_rank", deltaT="delta_t")
    entry |= {own.get(name, name): value for name, value in options.items() if name != "lora_alpha"}
    return model, lora_names(model, "adalora"), [entry]


def vera(initial):
    """The two fixed matrices are shared by all layers: each uses their first rows and columns."""
    config = VeraConfig(target_modules=["layer1", "layer3"], r=RANK, projection_prng_key=5)
    model = get_peft_model(Mlp(initial), config).double()
    names, fixed = {}, {}
    for name, layer in model.named_modules():
        if hasattr(layer, "vera_lambda_d"):
            own = f"model.linear{name[-1]}.weight.vera."
            names[own + "d"] = layer.vera_lambda_d["default"]
            names[own + "b"] = layer.vera_lambda_b["default"]
            fixed[own + "a"] = layer.vera_A["default"][:, :layer.in_features]
            fixed[own + "project"] = layer.vera_B["default"][:layer.out_features]
    match = ["model.linear1.weight", "model.linear3.weight"]
    return model, names, [dict(type="vera", match=match, rank=RANK)], fixed


def ia3(initial):
    config = IA3Config(target_modules=["layer1", "layer3"], feedforward_modules=["layer3"])
    model = get_peft_model(Mlp(initial), config)
    names = {}
    for name, p in model.named_parameters():
        if "ia3_l" in name:
            layer = name.split("layer")[1][0]
            names[f"model.linear{layer}.weight.{'out' if layer == '1' else 'in'}.factor"] = p
    entries = [dict(type="ia3", name="out", match=["model.linear1.weight"]),
               dict(type="ia3", name="in", match=["model.linear3.weight"], on="input")]
    return model, names, entries


def bitfit(initial):
    model = Bitfit(initial)
    names = {f"model.linear{i}.weight.bitfit.change": getattr(model, f"change{i}")
             for i in (1, 2, 3)}
    return model, names, [dict(type="bitfit", match=["model.linear*.weight"])]


def bottleneck(initial):
    model = Bottleneck(initial)
    names = {f"model.linear2.bottleneck.{w}": getattr(model, w) for w in ("down", "up")}
    return model, names, [dict(type="bottleneck", match=["model.linear2"], width=HIDDEN)]


def stacked(initial):
    model = Stacked(initial)
    names = {f"model.linear3.weight.lora.{w}": getattr(model, w) for w in "ab"}
    names["model.linear3.weight.ia3.factor"] = model.factor
    match = ["model.linear3.weight"]
    return model, names, [dict(type="lora", match=match, rank=2, alpha=3.0),
                          dict(type="ia3", match=match, on="input")]


CASES = {
    "lora": lambda i: lora(i, layers=(1, 2, 3), r=3, lora_alpha=5),
    "rslora": lambda i: lora(i, layers=(2,), r=2, lora_alpha=3, use_rslora=True),
    "dora": lambda i: lora(i, layers=(1, 2, 3), r=3, lora_alpha=5, use_dora=True),
    "patterns": patterned,
    "bias_all": lambda i: beside(i, ["*.bias"], layers=(1, 2), bias="all"),
    "bias_lora_only": lambda i: beside(i, ["model.linear2.bias"], layers=(2,), bias="lora_only"),
    "modules_to_save": lambda i: beside(i, ["model.linear3.*"], layers=(1, 2),
                                        modules_to_save=["layer3"]),
    "loraplus": loraplus,
    "pissa": pissa,
    "adalora": lambda i: adalora(i, init_r=4, target_r=2, lora_alpha=6, tinit=3, tfinal=6,
                                 deltaT=2, beta1=0.8, beta2=0.7, orth_reg_weight=0.3),
    "adalora.defaults": lambda i: adalora(i, init_r=3, target_r=2, lora_alpha=8),
    "vera": vera,
    "ia3": ia3,
    "bitfit": bitfit,
    "bottleneck": bottleneck,
    "stacked": stacked,
}


def make():
    golden = Golden()
    inputs = Inputs(20240603)
    initial = initial_parameters(inputs)  # the draws of golden_training, in their order
    data = make_data(inputs)
    golden.add("peft", {"adamw": dict(ADAMW, betas=list(ADAMW["betas"]))},
               {"x": data["x"], "target": data["target"]} |
               {f"base.{name}": value for name, value in initial.items()})
    for case, build in CASES.items():
        model, names, entries, *more = build(initial)
        fixed = {name: value.detach().clone() for name, value in more[0].items()} if more else {}
        draws = Inputs(7)
        tensors = {}
        for name, p in sorted(names.items()):
            about = 1.0 if name.endswith(("factor", "magnitude")) else 0.0
            if case != "pissa":
                p.data = torch.tensor(about + draws.normal(*p.shape, scale=0.25))
            tensors[f"init.{name}"] = p.detach().clone()
        optimizer = more[3] if more[3:] else None
        tensors |= train(model, list(names.values()), data["x"], data["target"], optimizer)
        tensors |= {f"final.{name}": p.detach().clone() for name, p in names.items()}
        tensors["output"] = model(torch.tensor(data["x"][0])).detach()
        tensors |= {f"merged.model.{name}": p.detach().clone() for name, p in merged(model).items()}
        for when in ("init", "final"):
            tensors |= {f"{when}.{name}": value for name, value in fixed.items()}
        attributes = {"adapters": entries} | (more[2] if more[2:] else {})
        golden.add(f"peft.{case}", attributes, tensors | (more[1] if more[1:] else {}))
    for tied in (False, True):
        add_rows(golden, tied, data["target"])
    add_lora_of_table(golden, data["target"])
    return golden


def merged(model):
    """All parameters of the model alone, by Plait's names within it; none: it cannot be merged."""
    if hasattr(model, "merge_and_unload"):
        plain, changed = copy.deepcopy(model).merge_and_unload(), {}
    elif hasattr(model, "merged"):
        plain, changed = model, model.merged()
    else:
        return {}
    own = {f"linear{i}.{part}": getattr(getattr(plain, f"layer{i}"), part)
           for i in (1, 2, 3) for part in ("weight", "bias")}
    return own | changed


class Labels(torch.nn.Module):
    def __init__(self, draws):
        super().__init__()
        self.table = torch.nn.Embedding(5, 6, dtype=torch.float64)
        self.middle = torch.nn.Linear(6, 6, dtype=torch.float64)
        self.head = torch.nn.Linear(6, 5, bias=False, dtype=torch.float64)
        for p in self.parameters():
            p.data = torch.tensor(draws.normal(*p.shape, scale=0.5))
            p.requires_grad = False

    def forward(self, labels):
        return self.head(F.relu(self.middle(self.table(labels))))


class TiedLabels(Labels):
    """The head is the table, with its trained rows."""

    def __init__(self, draws):
        super().__init__(draws)
        self.rows = torch.nn.Parameter(self.table.weight[IDS].clone())

    def forward(self, labels):
        weight = self.table.weight.index_copy(0, torch.tensor(IDS), self.rows)
        return F.linear(F.relu(self.middle(F.embedding(labels, weight))), weight)


def add_rows(golden, tied, targets):
    draws = Inputs(13)
    base = (TiedLabels if tied else Labels)(draws)
    before = {f"base.{name}": p.detach().clone() for name, p in base.named_parameters()
              if name != "rows" and not (tied and name == "head.weight")}
    if tied:
        model, rows = base, base.rows
    else:
        model = get_peft_model(base, TrainableTokensConfig(target_modules=["table"],
                                                           token_indices=IDS))
        rows, = (p for p in model.parameters() if p.requires_grad)
    at_first = rows.detach().clone()
    rows.data += torch.tensor(draws.normal(*rows.shape, scale=0.25))
    name = "model.table.weight.token_rows.change"
    tensors = before | {f"init.{name}": (rows - at_first).detach().clone()}
    tensors |= train(model, [rows], targets, targets, weight_decay=0.0)
    tensors[f"final.{name}"] = (rows - at_first).detach().clone()
    match = ["model.table.weight"] + ["model.head.weight"] * tied
    golden.add("rows.tied" if tied else "rows.table",
               {"adapters": [dict(type="token_rows", match=match, ids=IDS)]}, tensors)


def add_lora_of_table(golden, targets):
    draws = Inputs(17)
    base = Labels(draws)
    before = {f"base.{name}": p.detach().clone() for name, p in base.named_parameters()}
    model = get_peft_model(base, LoraConfig(target_modules=["table"], r=2, lora_alpha=3))
    factors = {name.split("lora_embedding_")[1][0].lower(): p
               for name, p in model.named_parameters() if p.requires_grad}
    tensors = dict(before)

    def add(when):  # the library has the first one transposed
        for name, p in factors.items():
            value = (p.T if name == "a" else p).detach().clone().contiguous()
            tensors[f"{when}.model.table.weight.lora.{name}"] = value

    for _, p in sorted(factors.items()):
        p.data = torch.tensor(draws.normal(*p.shape, scale=0.25))
    add("init")
    tensors |= train(model, list(factors.values()), targets, targets, weight_decay=0.0)
    add("final")
    golden.add("rows.lora", {"adapters": [dict(type="lora", match=["model.table.weight"], rank=2,
                                               alpha=3.0)]}, tensors)


def train(model, parameters, inputs, targets, optimizer=None, **changed):
    optimizer = optimizer or torch.optim.AdamW(parameters, **(ADAMW | changed))
    losses, norms = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        x, target = torch.tensor(inputs[step]), torch.tensor(targets[step])
        allocates = hasattr(model, "update_and_allocate")
        loss = model.base_model(x, target).loss if allocates else F.cross_entropy(model(x), target)
        loss.backward()
        losses.append(loss.item())
        norms.append(norm_of([p.grad for p in parameters]).item())
        optimizer.step()
        if allocates:
            model.update_and_allocate(step + 1)
    return {"losses": np.array(losses), "grad_norms": np.array(norms)}


if __name__ == "__main__":
    sys.exit(write_or_check(make, pathlib.Path(__file__).resolve().parent / "peft.safetensors", __doc__.splitlines()[0]))
