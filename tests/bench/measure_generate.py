"""Generation with GPT-2 124M: time to the first token, tokens per second, and the share of the machine's read rate."""

import subprocess

SHARE = 0.85  # of the read rate
SLOTS = 6  # times the tokens of one slot, with 8
TOKENS = 64
WEIGHTS = {"f32": "compute", "int8": "int8"}  # by label: generate.weights
LLAMA = {"f32": ("f32", 1.05), "bf16": ("bf16", 1.1), "int8": ("q8_0", 1.2)}  # type in llama.cpp, least ratio of tokens/s
LIBRARY = {"f32": 2.4, "bf16": 2.1}  # times the tokens of `generate` of transformers


def generation(bench):
    (limit,) = bench.once([bench.program("read")])
    bench.details["read rate"] = limit
    tokens = 16 if bench.quick else TOKENS
    for weights in WEIGHTS:
        for threads in (1, 2):
            of_slots(bench, limit, weights, threads, tokens)
    library(bench, tokens, threads=2)
    llama(bench, tokens, threads=2)


def of_slots(bench, limit, weights, threads, tokens):
    """One sequence and eight, with weights of that type."""
    one = None
    for slots in (1, 8):
        settings = (f"run.threads={threads}", f"generate.slots={slots}", "generate.only=true", f"generate.weights={WEIGHTS[weights]}")
        command = [bench.program("generate"), bench.experiment("gpt2_124m"), "--steps", tokens, *settings]
        runs = [bench.once(command)[0] for _ in range(1 if bench.quick else 3)]
        best = max(runs, key=lambda run: run["tokens_per_s"])
        label = f"GPT-2 124M, {weights}, {threads} thread{'s' if threads > 1 else ''}, {slots} slot{'s' if slots > 1 else ''}"
        bench.details[label] = runs
        rate = best["tokens_per_s"]
        if slots == 1:
            one = rate
            bench.row(f"{label}: first token behind 256", 1e3 * min(run["first_s"] for run in runs), "ms")
            read = best["weight_bytes"] * rate / 1e9
            top = limit[f"threads_{threads}"]
            bench.row(f"{label}: weights read", read, "GB/s", "read loop", top, read / top, f">= {SHARE:g}", read / top >= SHARE)
            bench.row(f"{label}: tokens", rate, "/s")
        else:
            bench.row(f"{label}: tokens", rate, "/s", "1 slot", one, rate / one, f">= {SLOTS:g}", rate / one >= SLOTS)


def beside(bench, label, settings, tokens, peer, calls, name, bar):
    """One slot beside a peer, in the same minutes: a call of ours before each of its calls. name: of its best run."""
    ours, theirs = [], []
    for call in calls:
        ours += bench.once([bench.program("generate"), bench.experiment("gpt2_124m"), "--steps", tokens, *settings])
        theirs += bench.once(call)
    bench.details[f"{label}, beside {peer}"] = {"plait": ours, peer: theirs}
    best = max(theirs, key=lambda run: run["tokens_per_s"])
    bench.against(f"{label}: tokens", max(run["tokens_per_s"] for run in ours), "/s", name(best), best["tokens_per_s"], bar)
    first = min(run["first_s"] for run in theirs)
    bench.row(f"{label}: first token behind 256", 1e3 * min(run["first_s"] for run in ours), "ms", peer, 1e3 * first)


def library(bench, tokens, threads):
    if not bench.peer_python:
        bench.notes.append("generation: PyTorch is not asked for or not there, so generation stands without transformers")
        return
    for dtype, bar in LIBRARY.items():
        settings = (f"run.threads={threads}", "generate.slots=1", "generate.only=true", f"precision.compute={dtype}")
        options = ("--dtype", dtype, "--threads", threads, "--tokens", tokens)
        calls = [bench.peer("generate_torch.py", *options, "--mode", mode) for mode in ("eager", "compile")]
        label = f"GPT-2 124M, {dtype}, {threads} threads, 1 slot"
        beside(bench, label, settings, tokens, "transformers", calls, lambda best: f"transformers {best['transformers']} {best['mode']}", bar)


def llama(bench, tokens, threads):
    if not bench.peer_python or subprocess.run([bench.peer_python, "-c", "import llama_cpp, gguf"], capture_output=True).returncode:
        bench.notes.append("generation: llama.cpp is not asked for or not there, so generation stands without it")
        return
    for ours_type, (theirs_type, bar) in LLAMA.items():
        weights = "generate.weights=int8" if ours_type == "int8" else f"precision.compute={ours_type}"
        settings = (f"run.threads={threads}", "generate.slots=1", "generate.only=true", weights)
        options = ("--dtype", theirs_type, "--threads", threads, "--tokens", tokens)
        calls = [bench.peer("generate_llama.py", *options, *flash) for flash in ((), ("--flash",))]
        label = f"GPT-2 124M, {ours_type}, {threads} threads, 1 slot"
        beside(bench, label, settings, tokens, "llama.cpp", calls,
               lambda best: f"llama.cpp {best['dtype']}" + (" flash" if best["flash"] else ""), bar)
