"""How long a plan takes to make, and what a training program holds: figures of the compiler, without a step."""

import pathlib
import statistics
import tempfile

# Processor seconds on one core, by number of blocks.
PLANNING = {160: 0.3, 320: 0.6, 640: 1.2}
REPLICAS = 2
TRANSIENT = 66  # MB, of BLOCKS
BLOCKS = 40
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")
BATCH, WIDTH = 1024, 128
EVERY_RANK = (60, 4096)  # seconds, MiB
EVERY_BLOCKS, GRID = 96, dict(pipeline=8, data=16, tensor=8)
INITIAL = 0.5  # seconds
ROWS, CHANNELS = 31000, 4000  # of an embedding: 124 million values


def blocks(n, activation, topology="", optimizer='type = "adamw"\nlearning_rate = 0.001'):
    """An experiment of n blocks: layer_norm, linear, activation."""
    block = f'  {{type = "layer_norm"}}, {{type = "linear", out = {WIDTH}}}, {{type = "{activation}"}},\n'
    return f"""[run]
steps = 1000000000
seed = 1
[topology]
{topology}
[batch]
global = {BATCH}
[data.train]
type = "synthetic"
samples = {BATCH}
shape = [{WIDTH}]
classes = 10
[model]
layers = [
{block * n}  {{type = "linear", out = 10}},
]
[loss]
type = "cross_entropy"
[optimizer]
{optimizer}
"""


def planned(bench, text, ranks, times):
    """What bench_planning says of rank 0, once for each time."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "experiment.toml"
        path.write_text(text)
        command = [bench.program("planning"), path, "--steps", ranks]
        return [bench.once(command)[0] for _ in range(times)]


def planning(bench):
    for n, most in PLANNING.items():
        runs = planned(bench, blocks(n, "gelu", f"data = {REPLICAS}\nzero = 1"), REPLICAS, 3 if bench.quick else 5)
        bench.details[f"planning of {n} blocks"] = runs
        wall = statistics.median(run["wall_s"] for run in runs)
        cpu = statistics.median(run["cpu_s"] for run in runs)
        bench.at_most(f"planning of {n} blocks, data = {REPLICAS}, zero = 1", cpu, "s of CPU", most, "wall time", wall)


def every_rank(bench):
    """All ranks of a job: planned, compared, executed symbolically."""
    seconds, mib = EVERY_RANK
    text = blocks(EVERY_BLOCKS, "gelu", "\n".join(f"{axis} = {size}" for axis, size in GRID.items()))
    text = text.replace("[batch]\n", "[batch]\naccumulation = 8\n")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "experiment.toml"
        path.write_text(text)
        (run,) = bench.once([bench.program("planning"), path, "--mode", "every-rank"])
    bench.details["every rank"] = run
    what = f"{run['ranks']:,} ranks of {EVERY_BLOCKS} blocks, every rank ({run['planned']} planned)"
    bench.at_most(f"planning of {what}", run["wall_s"], "s", seconds, "CPU time", run["cpu_s"])
    bench.at_most(f"memory for {what}", run["peak"] / 2**20, "MiB", mib)


def transient(bench):
    for activation in ACTIVATIONS:
        (run,) = planned(bench, blocks(BLOCKS, activation), 1, 1)
        bench.details[f"transient memory with {activation}"] = run
        bench.at_most(f"transient memory of {BLOCKS} blocks with {activation}", run["transient"] / 1e6, "MB", TRANSIENT)


def initial(bench):
    """Everything that opening does is in it: memory that is touched for the first time, data, kernels."""
    text = f"""[run]
seed = 1
[batch]
global = 4
[data.train]
type = "npy"
input = "ids.npy"
target = "ids.npy"
[model]
layers = [{{type = "embedding", vocabulary = {ROWS}, width = {CHANNELS}}}, {{type = "linear", out = 2}}]
[loss]
type = "cross_entropy"
[optimizer]
type = "sgd"
learning_rate = 0.001
"""
    with tempfile.TemporaryDirectory() as folder:
        head = "{'descr': '|u1', 'fortran_order': False, 'shape': (8,), }".ljust(117)
        (pathlib.Path(folder) / "ids.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(head + " ").to_bytes(2, "little") + head.encode()
                                                        + b"\n" + bytes([0, 1] * 4))
        path = pathlib.Path(folder) / "experiment.toml"
        path.write_text(text)
        runs = [bench.once([bench.program("initial"), path])[0] for _ in range(3 if bench.quick else 5)]
    bench.details["124 million normal initial values"] = runs
    cpu = statistics.median(run["cpu_s"] for run in runs)
    bench.at_most("124 million normal initial values", statistics.median(run["wall_s"] for run in runs), "s", INITIAL, "CPU time", cpu)
