"""Steps per second beside PyTorch, and beside what the machine can do at all."""

import os
import subprocess
import sys

from bench_common import Contestant

NEURON = dict(widths=[784, 120, 84, 10], batch=32)
WIDE = dict(widths=[784, 2048, 2048, 2048, 2048, 10], batch=1024)
# For 1 and 2 threads: least ratio to PyTorch eager, to compiled; the issue's own bars.
NEURON_BARS = dict(eager=2.5, compile=2.0, fma=0.65)
# Default threads, against the better of one thread and all: alone, beside busy processes.
IDLE_BAR, BUSY_BAR = 0.98, 0.85
WIDE_BARS = dict(eager=1.05, compile=1.05, gemm=0.85)


def products(model):
    """(M, N, K, A transposed, B transposed) of every matrix product of a step, in its order. Weights are (out, in)."""
    b = model["batch"]
    layers = list(zip(model["widths"], model["widths"][1:]))
    forward = [(b, out, into, 0, 1) for into, out in layers]
    backward = []
    for index, (into, out) in reversed(list(enumerate(layers))):
        backward.append((out, into, b, 1, 0))
        if index > 0:
            backward.append((b, into, out, 0, 0))
    return forward + backward


def flops(model):
    return sum(2 * m * n * k for m, n, k, _, _ in products(model))


def thread_counts():
    return [1, 2] if len(os.sched_getaffinity(0)) > 1 else [1]


def train(bench, name, experiment, threads, seconds, *more):
    command = [bench.program("train"), bench.experiment(experiment), "--data", bench.data, "--seconds", seconds]
    return Contestant(name, [*command, f"run.threads={threads}", *more])


def torch_peers(bench, what, threads, seconds):
    if not bench.peer_python:
        return []
    common = ["--what", what, "--threads", threads, "--data", bench.data, "--seconds", seconds, "--rounds-on-input"]
    return [
        Contestant(f"PyTorch {mode}", bench.peer("mlp_torch.py", *common, "--mode", mode)) for mode in ("eager", "compile")
    ]


def rows_against_torch(bench, label, plait, peers, bars):
    if not peers:
        bench.row(label, plait.median("steps_per_s"), "steps/s")
    for peer in peers:
        mode = peer.about["mode"]
        name = f"{peer.name} ({peer.about['variant']})"
        rate = plait.median("steps_per_s")
        bench.against(label, rate, "steps/s", name, peer.median("steps_per_s"), bars[mode])
    note_cpus(bench, label, (plait, *peers), int(label.rsplit(" ", 2)[-2]))


def note_cpus(bench, label, contestants, threads):
    for contestant in contestants:
        used = contestant.median("cpus")
        if used < 0.9 * threads:
            bench.notes.append(f"{label}: {contestant.name} had {used:.2f} CPUs of {threads}; others were running, or it waits")


def neuron(bench):
    for threads in thread_counts():
        label = f"Neuron MLP, {threads} thread" + ("s" if threads > 1 else "")
        plait = train(bench, "plait", "neuron_mlp", threads, bench.seconds)
        fed = train(bench, "plait, host-fed", "neuron_fed", threads, bench.seconds, "--mode", "fed")
        peers = torch_peers(bench, "neuron_mlp", threads, bench.seconds)
        limit = Contestant("FMA limit", [bench.program("fma"), "--threads", threads])
        bench.alternate([plait, fed, *peers, limit], label)
        rows_against_torch(bench, label, plait, peers, NEURON_BARS)
        bench.row(label + ", host-fed batches", fed.median("steps_per_s"), "steps/s")
        most = max(r["gflops"] for r in limit.rounds)
        gflops = plait.median("steps_per_s") * flops(NEURON) * 1e-9
        bench.against(
            label + ", arithmetic", gflops, "GFLOP/s", f"FMA limit ({limit.about['unit']})", most,
            NEURON_BARS["fma"] if threads == 1 else None,
        )


def busy(bench):
    """Default threads beside processes that keep cores busy, and numbers that users ask for."""
    cores = len(os.sched_getaffinity(0))
    for n in (0, 1, 2):
        spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
        try:
            label = f"Neuron MLP beside {n} busy process" + ("" if n == 1 else "es")
            default = train(bench, "default threads", "neuron_mlp", 0, bench.seconds)
            asked = [
                train(bench, f"run.threads={n_threads}", "neuron_mlp", n_threads, bench.seconds)
                for n_threads in (1, cores)
            ]
            bench.alternate([default, *asked], label)
        finally:
            for spinner in spinners:
                spinner.kill()
                spinner.wait()
        best = max(asked, key=lambda c: c.median("steps_per_s"))
        for other in asked:
            rates = default.median("steps_per_s"), other.median("steps_per_s")
            bar = (BUSY_BAR if n else IDLE_BAR) if other is best else None
            bench.against(label, rates[0], "steps/s", other.name, rates[1], bar)


def wide(bench):
    seconds = 3 * bench.seconds  # a step takes half a second
    shapes = [",".join(map(str, p)) for p in products(WIDE)]
    for threads in thread_counts():
        label = f"wide MLP, {threads} thread" + ("s" if threads > 1 else "")
        plait = train(bench, "plait", "wide_mlp", threads, seconds)
        peers = torch_peers(bench, "wide_mlp", threads, seconds)
        bound = {"OMP_NUM_THREADS": str(threads), "OMP_PROC_BIND": "true", "OMP_PLACES": "cores"}
        gemm = Contestant("oneDNN", [bench.program("gemm"), "--seconds", seconds, *shapes], bound)
        bench.alternate([plait, *peers, gemm], label)
        rows_against_torch(bench, label, plait, peers, WIDE_BARS)
        gflops = plait.median("steps_per_s") * flops(WIDE) * 1e-9
        name = label + ", whole step's rate"
        bench.against(name, gflops, "GFLOP/s", "oneDNN GEMMs, best way each", gemm.median("gflops"), WIDE_BARS["gemm"])
        bench.against(name, gflops, "GFLOP/s", "oneDNN GEMMs, plain layout", gemm.median("plain_gflops"))
