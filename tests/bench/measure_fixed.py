"""Accuracy, memory, allocations and start-up: metrics that barely depend on the machine's load."""

import statistics

from bench_common import ROOT

RECIPES = {
    # name: (experiment, the peer's recipe, the peer's start of the weights)
    "784-120-84-10, SGD": ("examples/mnist_mlp/experiment.toml", "neuron", "torch"),
    "784-128x4-10, AdamW": ("examples/mnist_adamw/experiment.toml", "scaling", "xavier_normal"),
}
POINTS = 0.3  # of accuracy
PART = 0.01  # of memory
START = 0.100  # seconds


def accuracy(bench):
    seeds = 1 if bench.quick else 3
    for name, (experiment, recipe, init) in RECIPES.items():
        runs = []
        for seed in range(1, seeds + 1):
            command = [bench.program("train"), ROOT / experiment, "--mode", "accuracy", "--data", bench.data]
            runs += bench.once([*command, f"run.seed={seed}"])
        bench.details[f"accuracy {name}"] = {"plait": runs}
        values = [100 * accuracy_of(run["evaluation"]) for run in runs]
        value, label = statistics.mean(values), f"accuracy of {name}, {seeds} seed" + ("s" if seeds > 1 else "")
        if not bench.peer_python:
            bench.row(label, round(value, 2), "%")
            continue
        command = bench.peer("accuracy_torch.py", "--recipe", recipe, "--init", init, "--seeds", seeds, "--data", bench.data)
        peer = bench.once(command)[-1]
        bench.details[f"accuracy {name}"]["PyTorch"] = peer
        bar, met = f">= its - {POINTS}", value >= peer["accuracy"] - POINTS
        bench.row(label, f"{value:.2f}", "%", "PyTorch", f"{peer['accuracy']:.2f}", None, bar, met)


def accuracy_of(evaluation):
    return evaluation["metrics"]["accuracy"] if "metrics" in evaluation else evaluation["accuracy"]


def memory(bench):
    for name in ("wide_mlp", "neuron_mlp"):
        command = [bench.program("memory"), bench.experiment(name), "--data", bench.data, "--steps", 20]
        (seen,) = bench.once(command)
        plan, session = seen["plan"]["memory"], seen["session"]
        bench.details[f"memory {name}"] = {k: v for k, v in seen.items() if k != "plan"} | {"planned": plan}
        arena = session["arena_bytes"]
        bench.row(f"{name}: arena used", arena, "bytes", "planned", plan["arena"], None, "equal", arena == plan["arena"])
        mib = 2.0**20
        # The data set is read when the plan is made, everything else when the session opens and steps.
        for label, before, planned in (
            ("growth from before the plan", "before_plan", plan["total"]),
            ("growth from before the session", "before_session", plan["total"] - plan["dataset"]),
        ):
            grown = seen["after_steps"]["anonymous"] - seen[before]["anonymous"]
            met = abs(grown - planned) <= PART * planned if name == "wide_mlp" else None
            bar = "within 1 %" if met is not None else ""
            bench.row(f"{name}: {label}", grown / mib, "MiB", "planned", planned / mib, grown / planned, bar, met)
        code = (seen["after_steps"]["file"] - seen["before_plan"]["file"]) / mib
        bench.row(f"{name}: code paged in meanwhile", code, "MiB")


def allocations(bench):
    cases = [("neuron_mlp", threads, files) for threads in (1, 2) for files in ("none", "files", "observed")]
    for name, threads, files in [*cases, ("wide_mlp", 2, "none")]:
        steps = 500 if name == "neuron_mlp" else 10
        command = [bench.program("allocations"), bench.experiment(name), "--data", bench.data, "--steps", steps]
        (seen,) = bench.once([*command, "--mode", files, f"run.threads={threads}", "checkpoint.at_end=false"])
        label = f"allocations in {seen['steps']} steps of {name}, {threads} thread" + ("s" if threads > 1 else "")
        label += {"files": ", writing files", "observed": ", writing files and the bar"}.get(files, "")
        bench.details[label] = seen
        bench.at_most(label, seen["allocations"] + seen["frees"] + seen["mmaps"], "calls", 0, "page faults", seen["page_faults"])


def startup(bench):
    times = 5 if bench.quick else 10
    library = bench.build / "lib" / "libplait.so"
    for label, more in (("its own data", []), ("host-fed", ["--fed"])):
        runs = bench.once([bench.program("startup"), library, bench.experiment("neuron_fed"), "--times", times, *more])
        bench.details[f"startup, {label}"] = runs
        middle = {key: 1e3 * statistics.median(r[key] for r in runs) for key in runs[0]}
        total, cpu = middle.pop("total"), middle.pop("cpu")
        bench.at_most(f"dlopen to the end of the first step, {label}", total, "ms", 1e3 * START, "its CPU time", cpu)
        if not more:
            for part, value in middle.items():
                bench.row(f"    {part}", value, "ms")
