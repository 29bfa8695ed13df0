#!/usr/bin/env python3
"""One rank of PyTorch's DistributedDataParallel over Gloo on an MLP, tuned; rank 0 prints JSON lines.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=… ddp_torch.py [--what neuron_mlp|wide_mlp] [--batch A_RANK]

Models, optimizer and data as in mlp_torch.py, one thread a rank. Every variant is timed, the fastest is reported. Then rank 0 runs a
round for every line on stdin; the other ranks do as it says and need no input.
"""

import argparse
import os
import sys
import time

from peer_common import import_torch, load_mnist, mlp, report, tune_process

WIDTHS = {"neuron_mlp": [784, 120, 84, 10], "wide_mlp": [784, 2048, 2048, 2048, 2048, 10]}
# MiB of gradients that are reduced together, and which form of SGD updates.
VARIANTS = {
    "bucket 25, foreach": (25, dict(foreach=True)),
    "bucket 25, fused": (25, dict(fused=True)),
    "bucket 8, foreach": (8, dict(foreach=True)),
    "one bucket, foreach": (1024, dict(foreach=True)),
}


def step_of(torch, what, variant):
    bucket, options = VARIANTS[variant]
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(
        mlp(WIDTHS[what]), bucket_cap_mb=bucket, gradient_as_bucket_view=True, static_graph=True
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, **options)
    loss_of = torch.nn.functional.cross_entropy

    def step(x, y):
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(x), y).backward()
        optimizer.step()

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--what", choices=WIDTHS, default="neuron_mlp")
    parser.add_argument("--batch", type=int, default=32, help="a rank's own part")
    parser.add_argument("--seconds", type=float, default=2.0, help="per round")
    options = parser.parse_args()
    tune_process(1)
    torch = import_torch(1)
    import torch.distributed as dist

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    x, y, _, _ = load_mnist("")
    batches = list(zip(x[rank::world].split(options.batch), y[rank::world].split(options.batch)))
    batches = [b for b in batches if len(b[1]) == options.batch]

    def agreed(count):
        """The value of rank 0, on every rank."""
        told = torch.tensor([count])
        dist.broadcast(told, 0)
        return int(told)

    def timed(step, count):
        start = time.perf_counter()
        for i in range(count):
            step(*batches[i % len(batches)])
        return time.perf_counter() - start

    def rate(step, seconds):
        count = 1
        while True:
            elapsed = timed(step, count)
            more = agreed(int(elapsed < seconds / 10))
            if not more:
                break
            count *= 2
        count = agreed(max(2, int(count * seconds / elapsed)))
        cpu = time.process_time()
        elapsed = timed(step, count)
        return count / elapsed, (time.process_time() - cpu) / elapsed

    rates = {}
    for variant in VARIANTS:
        step = step_of(torch, options.what, variant)
        timed(step, 2)
        rates[variant] = rate(step, options.seconds / 2)[0]
    best = list(VARIANTS)[agreed(list(VARIANTS).index(max(rates, key=rates.get)))]
    step = step_of(torch, options.what, best)
    timed(step, 3)
    figures = dict(what=options.what, variant=best, torch=torch.__version__, ranks=world)
    if rank == 0:
        report(**figures, variants={name: round(r, 2) for name, r in rates.items()}, ready=True)
    while agreed(int(rank == 0 and sys.stdin.readline() != "")):
        per_second, cpus = rate(step, options.seconds)
        if rank == 0:
            report(**figures, steps_per_s=round(per_second, 3), cpus=round(cpus, 2))
    dist.destroy_process_group()
    os._exit(0)  # threads of Gloo that wait for a peer that ended first only delay the end


if __name__ == "__main__":
    main()
