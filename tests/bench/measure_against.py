"""This build compared with that of another checkout, for instance of an older commit, in alternating rounds."""

import statistics

from bench_common import Contestant
from measure_planning import ACTIVATIONS, BLOCKS, blocks
from measure_speed import thread_counts
from parallel.ranks import PlaitRun

LEAST = 0.98  # of the other build's speed
SLOW = 4  # times the usual seconds for a step that takes a good part of one


def against(bench):
    pair = {"this build": bench, "the other build": bench.other}
    for name, label in (("neuron_mlp", "Neuron MLP"), ("wide_mlp", "wide MLP")):
        for threads in thread_counts():
            compare(bench, f"{label}, threads: {threads}", [steps(b, who, name, threads) for who, b in pair.items()])
    for activation in ACTIVATIONS:
        compare(bench, f"{BLOCKS} blocks with {activation}, threads: 1", [activations(b, who, activation) for who, b in pair.items()])
    for name, label, count, skip in (("neuron_fed", "Neuron MLP", 5000, 100), ("wide_ranks", "wide MLP", 12, 2)):
        runs = [two_ranks(b, who, name, count, skip) for who, b in pair.items()]
        compare(bench, f"{label}, 2 ranks, data parallel over the nearest backend", runs)
    startup(bench, pair)
    allocations(bench, pair)


def steps(bench, who, experiment, threads):
    seconds = SLOW * bench.seconds if experiment == "wide_mlp" else bench.seconds
    command = [bench.program("train"), bench.experiment(experiment), "--data", bench.data, "--seconds", seconds]
    return Contestant(who, [*command, f"run.threads={threads}"])


def activations(bench, who, activation):
    """What the backward pass recomputes by itself must not cost time."""
    path = bench.build / "bench" / f"blocks_{activation}.toml"
    path.write_text(blocks(BLOCKS, activation, optimizer='type = "sgd"'))
    return Contestant(who, [bench.program("train"), path, "--data", bench.data, "--seconds", bench.seconds, "run.threads=1"])


def two_ranks(bench, who, experiment, count, skip):
    batch = ["batch.global=64"] if experiment == "neuron_fed" else []
    return PlaitRun(bench, who, bench.experiment(experiment), count, skip, "topology.data=2", "run.threads=1", *batch)


def compare(bench, label, contestants):
    """The ratio of each round, as the speed of the machine drifts; their median counts."""
    bench.alternate(contestants, f"against, {label}", swap=True)
    ours, others = ([r["steps_per_s"] for r in c.rounds] for c in contestants)
    ratios = [a / b for a, b in zip(ours, others)]
    ratio = statistics.median(ratios)
    bench.row(
        label, statistics.median(ours), "steps/s", "the other build", statistics.median(others), ratio, f">= {LEAST}",
        ratio >= LEAST, ratios,
    )


def startup(bench, pair):
    """Milliseconds from dlopen to the end of the first step, in fresh processes taken in turn."""
    times = {who: [] for who in pair}
    for _ in range(2 * bench.rounds):
        for who, b in pair.items():
            library = b.build / "lib" / "libplait.so"
            runs = b.once([b.program("startup"), library, b.experiment("neuron_fed"), "--times", 2], {"PLAIT_BIND": "all"})
            times[who] += [1e3 * r["total"] for r in runs]
    ours, others = (statistics.median(t) for t in times.values())
    bench.details["against, startup"] = times
    bench.row("dlopen to the end of the first step", ours, "ms", "the other build", others, ours / others, "<= 1.02", ours <= 1.02 * others)


def allocations(bench, pair):
    calls = []
    for b in pair.values():
        command = [b.program("allocations"), b.experiment("neuron_mlp"), "--data", b.data, "--steps", 500, "--mode", "files"]
        (seen,) = b.once([*command, "run.threads=2", "checkpoint.at_end=false"])
        calls.append(seen["allocations"] + seen["frees"] + seen["mmaps"])
    bench.details["against, allocations"] = calls
    bench.row("allocations in 499 steps, writing files", calls[0], "calls", "the other build", calls[1], None, "<= its", calls[0] <= calls[1])
