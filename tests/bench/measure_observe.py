"""What is seen of a run, and what seeing it costs: the first run, files and bar, statistics, memory of large data, lists of runs."""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

from bench_common import Contestant, Failed

FIRST = 1.0  # seconds
OBSERVED, STATISTICS = 1.01, 1.02  # of the time of a step without
STATISTICS_EVERY = 100  # steps
WINDOWS = 40  # in the seconds of a round: what else runs changes within one
PARTS = 3  # of a round
RUNS, LISTED = 10000, 1.0  # seconds
GIB = 2**30
SIZES = (0.25, 2, 20)  # GiB
COLUMNS = 256  # f32 in a sample
GROWTH = 1.05  # of the smallest's resident size


def command_line(bench, figure):
    """The program `plait` of the build; None, with a note, where there is none."""
    plait = bench.build / "bin" / "plait"
    if plait.exists():
        return plait.resolve()
    bench.notes.append(f"{figure}: there is no plait in this build's bin/, so its figures are left out")
    return None


def finished(command, folder):
    """Runs a command to its end. Returns (wall seconds, CPU seconds, greatest resident bytes)."""
    words = [str(word) for word in command]
    with tempfile.TemporaryFile() as said:
        start = time.monotonic()
        process = subprocess.Popen(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            text = said.read().decode(errors="replace").strip()[-400:]
            raise Failed(f"[bench] {' '.join(words)} ended with code {process.returncode}: {text}")
    return wall, used.ru_utime + used.ru_stime, 1024 * used.ru_maxrss


def medians(runs):
    return [statistics.median(column) for column in zip(*runs)]


def first(bench):
    """From nothing to a model that has learned something: `plait new demo && plait run demo`."""
    plait = command_line(bench, "first")
    if not plait:
        return
    runs = []
    for _ in range(bench.rounds):
        with tempfile.TemporaryDirectory(prefix="plait-bench-") as folder:
            parts = [finished([plait, *words], folder) for words in (["new", "demo", "--yes"], ["run", "demo"])]
        runs.append([sum(part[i] for part in parts) for i in (0, 1)])
    bench.details["first run"] = runs
    wall, cpu = medians(runs)
    bench.at_most("plait new demo && plait run demo", wall, "s", FIRST, "CPU time", cpu)


def observing(bench):
    """Steps of plait_session_run(), with nothing, with files and bar, and with statistics besides. Of one
    thread the processor time counts, which other processes disturb less; more of them spin while they wait."""
    observed(bench, 1, "cpu_us", "processor time of a step")
    cores = len(os.sched_getaffinity(0))
    if cores > 1:
        observed(bench, 2, "us", "step of 2 threads")


def observed(bench, threads, cost, of):
    """Each process also makes steps of plait_session_step(), in the same memory; the ratio to these is what is compared."""
    common = ["run.log_every=1", "checkpoint.at_end=false", "checkpoint.minutes=0", f"run.threads={threads}"]

    def run(name, mode, *settings):
        command = [bench.program("observe"), bench.experiment("neuron_mlp"), "--data", bench.data, "--seconds", bench.seconds / WINDOWS]
        return Contestant(name, [*command, "--mode", mode, *common, *settings])

    alone, seen = run("nothing", "nothing"), run("files and bar", "observed")
    figures = run("statistics", "observed", f"statistics.every={STATISTICS_EVERY}")
    bench.alternate([alone, seen, figures], f"observing, {of}", swap=True, rounds=PARTS * bench.rounds)
    for label, one, other, most in (
        ("metrics of every step, TensorBoard, bar", seen, alone, OBSERVED),
        (f"statistics every {STATISTICS_EVERY} steps", figures, seen, STATISTICS),
    ):
        costs = [[r[f"run_{cost}"] / r[f"step_{cost}"] for r in c.rounds] for c in (one, other)]
        ratios = [a / b for a, b in zip(*costs)]
        ratio = statistics.median(ratios)
        bench.row(f"Neuron MLP, {of} with {label}", one.median(f"run_{cost}"), "µs", "without", other.median(f"run_{cost}"), ratio, f"<= {most}",
                  ratio <= most, ratios)


def sparse(path, kind, shape, bytes):
    """An array of zeros that takes no space on the disk."""
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head.encode())
        file.truncate(128 + bytes)


LARGE = """[run]
steps = 200
seed = 1
progress = false
[batch]
global = 64
[checkpoint]
at_end = false
[data.train]
type = "npy"
input = "x.npy"
target = "y.npy"
memory_mib = 0
[model]
layers = [{type = "linear", out = 32}, {type = "relu"}, {type = "linear", out = 2}]
[loss]
type = "cross_entropy"
[optimizer]
type = "sgd"
learning_rate = 0.01
"""


def large_data(bench):
    """The resident size of training must not depend on that of its files. memory_mib = 0: the labels, a
    file of 20 MiB at most, would else be held, as all files of up to 256 MiB are."""
    plait = command_line(bench, "large-data")
    if not plait:
        return
    used = {}
    for gib in SIZES:
        rows = int(gib * GIB) // (4 * COLUMNS)
        with tempfile.TemporaryDirectory(prefix="plait-bench-") as folder:
            sparse(pathlib.Path(folder) / "x.npy", "<f4", f"({rows}, {COLUMNS})", 4 * COLUMNS * rows)
            sparse(pathlib.Path(folder) / "y.npy", "|u1", f"({rows},)", rows)
            pathlib.Path(folder, "large.toml").write_text(LARGE)
            used[gib] = [finished([plait, "run", "large.toml"], folder) for _ in range(bench.rounds)]
    bench.details["training from large files"] = used
    mib = {gib: medians(runs)[2] / 2**20 for gib, runs in used.items()}
    for gib in SIZES:
        bar = f"<= {GROWTH}" if gib > SIZES[0] else ""
        ratio = mib[gib] / mib[SIZES[0]]
        bench.row(
            f"resident size of training from {gib:g} GiB", mib[gib], "MiB", f"from {SIZES[0]:g} GiB", mib[SIZES[0]], ratio,
            bar, ratio <= GROWTH if bar else None,
        )


def many_runs(plait, folder):
    """RUNS run directories, 100 to a folder, with the files of one that was trained and losses of their own."""
    finished([plait, "new", "demo", "--yes"], folder)
    finished([plait, "run", "demo", "--run-dir", "one"], folder)
    one = folder / "one"
    lines = (one / "metrics.ndjson").read_text().splitlines()
    steps = [i for i, line in enumerate(lines) if '"event"' not in line]
    for n in range(RUNS):
        run = folder / "runs" / f"{n // 100:03}" / f"{n:05}"
        run.mkdir(parents=True)
        for name in ("run.toml", "env.json", "status.json", "overrides.txt", "lock"):
            shutil.copyfile(one / name, run / name)
        last = json.loads(lines[steps[-1]]) | {"loss": ((n * 7919) % RUNS) / RUNS}
        text = [*lines[: steps[-1]], json.dumps(last), *lines[steps[-1] + 1 :]]
        (run / "metrics.ndjson").write_text("\n".join(text) + "\n")


def listing(bench):
    plait = command_line(bench, "listing")
    if not plait:
        return
    ways = {"": [], " --sort loss": ["--sort", "loss"], " --limit 0": ["--limit", "0"]}
    seen = {way: [] for way in ways}
    with tempfile.TemporaryDirectory(prefix="plait-bench-") as name:
        many_runs(plait, pathlib.Path(name))
        for _ in range(bench.rounds):
            for way, words in ways.items():
                seen[way].append(finished([plait, "runs", *words], name))
    bench.details[f"lists of {RUNS} runs"] = seen
    for way, runs in seen.items():
        wall, cpu, _ = medians(runs)
        bench.at_most(f"plait runs{way}, {RUNS:,} runs", wall, "s", LISTED, "CPU time", cpu)
