"""Several ranks on one machine, compared with one rank with as many threads and with PyTorch DDP;
with and without overlap; memory of each rank."""

import json
import statistics
import subprocess

from bench_common import ROOT
from parallel.ranks import MIB, PlaitRun, TorchRanks, held_by_ranks

DATA_BAR, TENSOR_BAR, PIPELINE_BAR = 0.95, 0.85, 0.85  # of one rank with two threads
DDP_BARS = {"wide": 1.05, "neuron": 8.0}
NEVER = 1 << 20  # MiB: one part, which can only start when the backward pass has ended
ZERO_RANKS = 4


def backends(bench):
    found = {path.stem.removeprefix("plait-comm-") for path in bench.build.glob("lib/plait/plugins-*/plait-comm-*.so")}
    for name in ("shm", "gloo"):
        if name not in found:
            bench.notes.append(f"parallel: this build has no plait-comm-{name}, so its figures are left out")
    return [name for name in ("shm", "gloo") if name in found]


def parallel(bench):
    if not (bench.build / "bin" / "plait").exists():
        bench.notes.append("parallel: there is no plait in this build's bin/, so all its figures are left out")
        return
    nearest = backends(bench)
    if nearest:
        wide(bench, nearest)
        neuron(bench, nearest)
        overlap(bench, nearest)
    schedules(bench, nearest)
    zero(bench, nearest)


def rounds(bench, contestants, label):
    """Three rounds at most: each of ours starts processes of its own."""
    kept, bench.rounds = bench.rounds, 2 if bench.quick else 3
    try:
        bench.alternate(contestants, label)
    finally:
        bench.rounds = kept


def ddp(bench, what, batch, seconds):
    if not bench.peer_python:
        bench.notes.append(f"parallel: PyTorch is not asked for or not there, so {what} stands without DDP")
        return None
    command = bench.peer("ddp_torch.py", "--what", what, "--batch", batch, "--seconds", seconds)
    return TorchRanks("PyTorch DDP over Gloo", command, 2)


def wide(bench, nearest):
    steps = 4 if bench.quick else 6
    model, peer = bench.experiment("wide_ranks"), ddp(bench, "wide_mlp", 512, 2 * bench.seconds)

    def run(name, *settings):
        return PlaitRun(bench, name, model, steps, 2, *settings)

    threads = run("1 rank x 2 threads", "run.threads=2")
    data = {b: run(f"data, {b}", "topology.data=2", f"topology.backend={b}", "run.threads=1") for b in nearest}
    sharded = run("data, ZeRO 2", "topology.data=2", "topology.zero=2", f"topology.backend={nearest[0]}", "run.threads=1") if nearest else None
    tensor = {b: run(f"tensor, {b}", "topology.tensor=2", f"topology.backend={b}", "run.threads=1") for b in nearest}
    stages = ("topology.pipeline=2", "batch.accumulation=8", "topology.schedule=zero_bubble")
    wait = planned(bench, model, *stages)["pipeline"]["idle_share"]
    pipeline = {b: run(f"pipeline, {b}", *stages, f"topology.backend={b}", "run.threads=1") for b in nearest}
    kinds = (("data", data, DATA_BAR), ("tensor", tensor, TENSOR_BAR), ("pipeline", pipeline, PIPELINE_BAR))
    contestants = [c for _, all_of_kind, _ in kinds for c in all_of_kind.values()]
    rounds(bench, [threads, *contestants, *(one for one in (sharded, peer) if one)], "wide MLP, 2 ranks")
    for kind, contestants, bar in kinds:
        for backend, c in contestants.items():
            least = bar if backend == nearest[0] else None
            label = f"wide MLP, 2 ranks x 1 thread, {kind} parallel over {backend}"
            bench.against(label, c.median("steps_per_s"), "steps/s", threads.name, threads.median("steps_per_s"), least)
    if sharded:
        label = f"wide MLP, 2 ranks x 1 thread, data parallel with ZeRO 2 over {nearest[0]}"
        bench.against(label, sharded.median("steps_per_s"), "steps/s", threads.name, threads.median("steps_per_s"), None)
    bench.row("wide MLP, 2 pipeline ranks: busy at most, as its layers can be dealt out (planned)", 100 * (1 - wait), "%")
    if peer:
        label = f"wide MLP, data parallel over {nearest[0]}"
        against_ddp(bench, label, data[nearest[0]], peer, DDP_BARS["wide"])


def against_ddp(bench, label, plait, peer, bar):
    name = f"{peer.name} ({peer.about['variant']})"
    bench.against(label, plait.median("steps_per_s"), "steps/s", name, peer.median("steps_per_s"), bar)


def neuron(bench, nearest):
    """Each rank takes 32 samples."""
    steps = 2000 if bench.quick else 5000
    model, peer = bench.experiment("neuron_fed"), ddp(bench, "neuron_mlp", 32, bench.seconds)

    def run(backend):
        settings = ("topology.data=2", "batch.global=64", f"topology.backend={backend}", "run.threads=1")
        fewer = steps if backend == "shm" else steps // 5
        return PlaitRun(bench, f"data, {backend}", model, fewer, 100, *settings)

    data = [run(b) for b in nearest]
    rounds(bench, [*data, *([peer] if peer else [])], "Neuron MLP, 2 ranks")
    for backend, c in zip(nearest, data):
        label = f"Neuron MLP, 2 ranks x 32 samples, data parallel over {backend}"
        if peer:
            against_ddp(bench, label, c, peer, DDP_BARS["neuron"] if backend == nearest[0] else None)
        else:
            bench.row(label, c.median("steps_per_s"), "steps/s")


def overlap(bench, nearest):
    """The wide model at a batch so small that the exchange of gradients takes about a third of the step."""
    model, steps = bench.experiment("wide_ranks"), 10 if bench.quick else 20
    for backend in nearest:
        batch = 128 if backend == "shm" else 256

        def run(name, *settings):
            return PlaitRun(bench, name, model, steps, 3, "run.threads=1", *settings)

        both = ("topology.data=2", f"topology.backend={backend}", f"batch.global={batch}")
        alone = run("1 rank", f"batch.global={batch // 2}")
        apart = run("in one part", *both, f"topology.bucket_mib={NEVER}")
        together = run("in parts of 8 MiB", *both)
        small = run("in parts of 1 MiB", *both, "topology.bucket_mib=1")
        rounds(bench, [alone, apart, together, small], f"parts over {backend}")
        time = {c: 1e3 / c.median("steps_per_s") for c in (alone, apart, together, small)}
        share = max(0.0, 1 - time[alone] / time[apart])
        label = f"wide MLP, batch {batch}, 2 ranks over {backend}: step"
        note = f"in one part ({share:.0%} of it not computing)"
        for c in (together, small):
            bench.row(f"{label} {c.name}", time[c], "ms", note, time[apart], time[c] / time[apart])


def planned(bench, model, *settings):
    command = [bench.build / "bin" / "plait", "plan", model, "--json", *settings]
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    return json.loads(done.stdout)


def schedules(bench, nearest):
    """The share of a step in which 4 ranks wait for each other: as planned, and measured with layers that sleep, so that two cores do."""
    model, plugin = bench.experiment("pipeline_wait"), bench.build / "bench" / "plugins-aside" / "plait-bench-wait.so"
    steps = 5 if bench.quick else 15
    runs = []
    for schedule, chunks in (("gpipe", 1), ("1f1b", 1), ("interleaved", 2), ("zero_bubble", 1)):
        settings = ("--plugins", plugin, f"topology.schedule={schedule}", f"topology.virtual_stages={chunks}")
        pipeline = planned(bench, model, *settings)["pipeline"]
        work = sum(s["forward_flops"] + s["backward_flops"] + s["weight_grad_flops"] for s in pipeline["stages"])  # ns a micro-batch
        busy = 1e-9 * work * pipeline["micro_batches"] / pipeline["ranks"]
        label = f"pipeline of 4 ranks, 8 micro-batches, {schedule}: idle"
        for backend in nearest[:1]:
            run = PlaitRun(bench, schedule, model, steps, 2, *settings, f"topology.backend={backend}", "run.threads=1")
            runs.append((label, run, busy, pipeline["idle_share"]))
        if not nearest:
            bench.row(f"{label}, simulated", 100 * pipeline["idle_share"], "%")
    rounds(bench, [run for _, run, _, _ in runs], "idle share of schedules")
    for label, run, busy, simulated in runs:
        idle = 1 - busy * run.median("steps_per_s")
        bench.row(label, 100 * idle, "%", "simulated", 100 * simulated, idle / simulated)


def zero(bench, nearest):
    """Planned by category for each rank; then ranks say what arena they took. AdamW: two states a parameter."""
    model = bench.experiment("wide_ranks")
    common = [f"topology.data={ZERO_RANKS}", "batch.global=64", "optimizer.type=adamw", "run.steps=100", "run.threads=1"]
    for stage in range(4):
        settings = [*common, f"topology.zero={stage}"]
        plans = []
        for rank in range(ZERO_RANKS):
            plans.append(planned(bench, model, "--rank", rank, *settings))
        memory = [plan["memory"] for plan in plans]
        whole = 4 * plans[0]["parameter_count"]
        for category, copies, first in (("parameters", 1, 3), ("gradients", 1, 2), ("optimizer", 2, 1)):
            ideal = copies * whole / (ZERO_RANKS if stage >= first else 1)
            most = max(m[category] for m in memory)
            label = f"ZeRO {stage}, {ZERO_RANKS} ranks: {category} of the fullest rank"
            bench.row(label, most / MIB, "MiB", "ideal", ideal / MIB, most / ideal, "<= 1.01", most <= 1.01 * ideal)
        transient = max(m["transient"] for m in memory)
        bench.row(f"ZeRO {stage}: transient, gathered and unreduced parts among it", transient / MIB, "MiB")
        if nearest and bench.program("rank").exists():
            held = held_by_ranks(bench, ZERO_RANKS, model, "--steps", 3, f"topology.backend={nearest[0]}", *settings)
            bench.details[f"ZeRO {stage}"] = dict(memory=memory, held=[{k: h[k] for k in ("grown", "session")} for h in held])
            arenas = [h["session"]["arena_bytes"] for h in held]
            equal = arenas == [m["arena"] for m in memory]
            worst, arena = max(arenas) / MIB, max(m["arena"] for m in memory) / MIB
            label = f"ZeRO {stage}: arena used by the fullest rank"
            bench.row(label, worst, "MiB", "planned", arena, worst / arena, "equal, all ranks", equal)
            grown = statistics.median(h["grown"] for h in held) / MIB
            label = f"ZeRO {stage}: growth of a rank's process, with its data and exchange"
            bench.row(label, grown, "MiB", "planned arena", arena, grown / arena)
