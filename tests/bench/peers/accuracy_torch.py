#!/usr/bin/env python3
"""Test accuracy on MNIST of the two recipes in PyTorch, mean of several seeds: prints one JSON line.

    accuracy_torch.py --data FOLDER [--recipe neuron|scaling] [--init torch] [--seeds 3] [--threads 2]

neuron    784-120-84-10, SGD 0.01, batch 32, 4 epochs, inputs in 0 … 1
scaling   784-128-128-128-128-10, AdamW (0.9, 0.95, 1e-8, decay 1e-4 on all parameters), batch 256, rate
          0.01 by cosine to 0 over 1000 steps, inputs (x - 0.5) / 0.5, gradient norm clipped at 1, 1000 steps
Both: f32, ReLU, cross-entropy, reshuffled every epoch, an incomplete last batch is used as it is.
"""

import argparse
import math
import statistics

from peer_common import import_torch, load_mnist, mlp, report, tune_process

RECIPES = {
    "neuron": dict(widths=[784, 120, 84, 10], batch=32, steps=4 * 1875, scale=(0.0, 1.0)),
    "scaling": dict(widths=[784, 128, 128, 128, 128, 10], batch=256, steps=1000, scale=(0.5, 0.5)),
}

# What weights start from; biases start at 0 except with `torch`, which keeps nn.Linear's own start:
# weights and biases uniform in +-1/sqrt(fan_in).
INITS = {
    "torch": None,
    "xavier_uniform": lambda init, w: init.xavier_uniform_(w),
    "xavier_normal": lambda init, w: init.xavier_normal_(w),
    "kaiming_uniform": lambda init, w: init.kaiming_uniform_(w, nonlinearity="relu"),
    "kaiming_normal": lambda init, w: init.kaiming_normal_(w, nonlinearity="relu"),
}


def initialise(torch, model, init):
    if INITS[init] is None:
        return
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            INITS[init](torch.nn.init, layer.weight)
            torch.nn.init.zeros_(layer.bias)


def optimizer_of(torch, recipe, parameters):
    if recipe == "neuron":
        return torch.optim.SGD(parameters, lr=0.01)
    return torch.optim.AdamW(parameters, lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=1e-4)


def rate_of(recipe, step, steps):
    """Step counts from 1."""
    return 0.01 if recipe == "neuron" else 0.01 * (1 + math.cos(math.pi * step / steps)) / 2


def batches_of(torch, count, batch, seed):
    """Index batches without end, reshuffled every epoch."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield from torch.randperm(count, generator=generator).split(batch)


def train(torch, recipe, init, seed, data):
    """(accuracy on the test images, last training loss)."""
    settings = RECIPES[recipe]
    shift, divisor = settings["scale"]
    x, y, test_x, test_y = data
    torch.manual_seed(seed)
    model = mlp(settings["widths"])
    initialise(torch, model, init)
    optimizer = optimizer_of(torch, recipe, model.parameters())
    x, test_x = (x - shift) / divisor, (test_x - shift) / divisor
    steps = settings["steps"]
    for step, rows in zip(range(1, steps + 1), batches_of(torch, len(x), settings["batch"], seed)):
        for group in optimizer.param_groups:
            group["lr"] = rate_of(recipe, step, steps)
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        if recipe == "scaling":
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    with torch.no_grad():
        right = (model(test_x).argmax(1) == test_y).sum().item()
    return 100 * right / len(test_y), loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="folder with MNIST's IDX .gz files")
    parser.add_argument("--recipe", choices=RECIPES, default="neuron")
    parser.add_argument("--init", choices=INITS, default="torch")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    tune_process(options.threads)
    torch = import_torch(options.threads)
    data = load_mnist(options.data)
    runs = [
        train(torch, options.recipe, options.init, seed, data) for seed in range(options.seeds)
    ]
    report(
        what=f"accuracy_{options.recipe}",
        init=options.init,
        accuracy=round(statistics.mean(a for a, _ in runs), 3),
        runs=[round(a, 2) for a, _ in runs],
        last_losses=[round(loss, 4) for _, loss in runs],
        torch=torch.__version__,
    )


if __name__ == "__main__":
    main()
