"""Training of GPTs beside PyTorch: tokens/s, share of the arithmetic limit, memory; start-up; two ranks on one machine."""

import array
import os
import random
import statistics
import struct

from bench_common import Contestant
from measure_parallel import backends, rounds
from measure_speed import note_cpus, train
from parallel.ranks import MIB, PlaitRun

TOKENS = 1 << 20  # in a file
MODELS = {
    # name: shape, and the least ratio to PyTorch
    "GPT 10.9M, B8 T256": dict(file="gpt_10m", vocabulary=256, width=384, layers=6, heads=6, batch=8, length=256, f32=1.10, bf16=1.15),
    "GPT-2 124M, B4 T256": dict(file="gpt2_124m", vocabulary=50304, width=768, layers=12, heads=12, batch=4, length=256, f32=1.08, bf16=1.15),
    "GPT-2 124M, B1 T1024": dict(file="gpt2_124m", vocabulary=50304, width=768, layers=12, heads=12, batch=1, length=1024, f32=1.10, bf16=1.15),
}
MEMORY = {"f32": 0.72, "bf16": 0.70}  # of the peer's least, for the second model
START = 1.0  # seconds
DATA, TENSOR, PIPELINE = 0.95, 0.85, 0.85  # of one rank with two threads


def flops(m):
    """Of a step: 6 per token and element of a matrix, the head's too, and the scores that a causal mask leaves."""
    tokens, c = m["batch"] * m["length"], m["width"]
    matrices = 12 * m["layers"] * c * c + m["vocabulary"] * c
    return 6 * tokens * matrices + 6 * m["layers"] * c * tokens * (m["length"] + 1)


def token_file(bench, vocabulary):
    """Random tokens."""
    path = bench.build / "bench" / f"tokens_{vocabulary}"
    if not path.with_suffix(".idx").exists():
        write_ids(path, random.Random(1).choices(range(vocabulary), k=TOKENS))
    return path.with_suffix(".bin")


def write_ids(path, ids):
    """Token ids below 65,536 in Megatron's format: one document. Returns the path of the .bin."""
    path.with_suffix(".bin").write_bytes(array.array("H", ids).tobytes())
    path.with_suffix(".idx").write_bytes(b"MMIDIDX\0\0" + struct.pack("<QBQQiqqq", 1, 8, 1, 2, len(ids), 0, 0, 1))
    return path.with_suffix(".bin")


def language(bench):
    kept, bench.rounds = bench.rounds, 3
    try:
        for name, model in MODELS.items():
            for dtype in ("f32", "bf16"):
                training(bench, name, model, dtype)
    finally:
        bench.rounds = kept


def torch_peers(bench, model, dtype, threads, seconds, *more):
    if not bench.peer_python:
        return []
    shape = [word for key in ("vocabulary", "width", "layers", "heads", "batch", "length") for word in (f"--{key}", model[key])]
    common = [*shape, "--dtype", dtype, "--threads", threads, "--seconds", seconds, "--rounds-on-input", *more]
    plain = ["--mode", "compile", *(["--variant", "inductor"] if bench.quick else [])]
    return [Contestant(f"PyTorch {mode[1]}", bench.peer("gpt_torch.py", *common, *mode)) for mode in (["--mode", "eager"], plain)]


def training(bench, name, model, dtype):
    threads, seconds = len(os.sched_getaffinity(0)), 3 * bench.seconds  # a step takes seconds
    label, tokens = f"{name}, {dtype}, {threads} threads", model["batch"] * model["length"]
    data = [f"data.train.path={token_file(bench, model['vocabulary'])}", f"data.train.length={model['length']}"]
    settings = [*data, f"batch.global={model['batch']}", f"precision.compute={dtype}"]
    if dtype == "bf16":
        settings.append("precision.split_master=true")  # f32 weights and their copies in four bytes
    plait = train(bench, "plait", model["file"], threads, seconds, *settings)
    peers = torch_peers(bench, model, dtype, threads, seconds)
    limit = Contestant("FMA limit", [bench.program("fma"), "--threads", threads, *(["--bf16"] if dtype == "bf16" else [])])
    bench.alternate([plait, *peers, limit], label)
    rate = tokens * plait.median("steps_per_s")
    if peers:
        best = max(peers, key=lambda p: p.median("tokens_per_s"))
        bench.against(label, rate, "tokens/s", f"{best.name} ({best.about['variant']})", best.median("tokens_per_s"), model[dtype])
    else:
        bench.row(label, rate, "tokens/s")
    note_cpus(bench, label, [plait, *peers], threads)
    most, gflops = max(r["gflops"] for r in limit.rounds), plait.median("steps_per_s") * flops(model) * 1e-9
    bench.against(f"{label}: arithmetic", gflops, "GFLOP/s", f"limit of {'products of bf16' if 'bf16' in limit.about['unit'] else 'f32'} ({limit.about['unit']})", most)
    memory(bench, label, plait, peers, MEMORY[dtype] if model["batch"] == 4 else None)


def memory(bench, label, plait, peers, most):
    planned, used = (plait.about[key] / MIB for key in ("planned", "used"))
    bench.row(f"{label}: arena used", used, "MiB", "planned", planned, None, "equal", planned == used)
    peak = plait.rounds[-1]["peak_mib"]
    if not peers:
        bench.row(f"{label}: peak of the process", peak, "MiB")
        return
    least = min(peers, key=lambda p: p.rounds[-1]["peak_mib"])
    ratio = peak / least.rounds[-1]["peak_mib"]
    bar = f"<= {most:g}" if most else ""
    bench.row(f"{label}: peak of the process", peak, "MiB", least.name, least.rounds[-1]["peak_mib"], ratio, bar, ratio <= most if most else None)


def startup(bench):
    """64 tokens in the first step: the time of starting, not of computing."""
    settings = [f"data.train.path={token_file(bench, 50304)}", "data.train.length=64", "batch.global=1"]
    library, times = bench.build / "lib" / "libplait.so", 3 if bench.quick else 5
    runs = bench.once([bench.program("startup"), library, bench.experiment("gpt2_124m"), "--times", times, *settings])
    bench.details["startup, GPT-2 124M"] = runs
    middle = {key: statistics.median(r[key] for r in runs) for key in runs[0]}
    total, cpu = middle.pop("total"), middle.pop("cpu")
    bench.at_most("GPT-2 124M, B1 T64: dlopen to the end of the first step", total, "s", START, "its CPU time", cpu)
    for part, value in middle.items():
        bench.row(f"    {part}", 1e3 * value, "ms")


def two_ranks(bench):
    """Two ranks of a thread each, 8 samples a step; the pipeline takes them one by one."""
    nearest = backends(bench)[:1]
    if not nearest or not (bench.build / "bin" / "plait").exists():
        bench.notes.append("language: this build has no plait in its bin/ or no way between ranks, so two ranks are left out")
        return
    common = [f"data.train.path={token_file(bench, 50304)}", "batch.global=8"]

    def run(name, *settings):
        return PlaitRun(bench, name, bench.experiment("gpt2_124m"), 2 if bench.quick else 3, 1, *common, *settings)

    threads = run("1 rank x 2 threads", "run.threads=2")
    apart = ("run.threads=1", f"topology.backend={nearest[0]}")
    stages = ("topology.pipeline=2", "batch.accumulation=8", "topology.schedule=zero_bubble")
    kinds = (
        ("data parallel", run("data", *apart, "topology.data=2"), DATA),
        ("tensor parallel with its vocabulary", run("tensor", *apart, "topology.tensor=2"), TENSOR),
        ("pipeline of 8 micro-batches", run("pipeline", *apart, *stages), PIPELINE),
    )
    rounds(bench, [threads, *(contestant for _, contestant, _ in kinds)], "GPT-2 124M, 2 ranks")
    for kind, contestant, bar in kinds:
        label = f"GPT-2 124M, B8 T256, 2 ranks x 1 thread, {kind} over {nearest[0]}"
        bench.against(label, 8 * 256 * contestant.median("steps_per_s"), "tokens/s", threads.name, 8 * 256 * threads.median("steps_per_s"), bar)
