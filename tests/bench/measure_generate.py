"""Generation with GPT-2 124M: time to the first token, tokens per second, and the share of the machine's read rate."""

SHARE = 0.85  # of the read rate
SLOTS = 6  # times the tokens of one slot, with 8
TOKENS = 64
WEIGHTS = {"f32": "compute", "int8": "int8"}  # by label: generate.weights
LIBRARY = {"f32": 2.4, "bf16": 2.1}  # times the tokens of `generate` of transformers


def generation(bench):
    (limit,) = bench.once([bench.program("read")])
    bench.details["read rate"] = limit
    tokens = 16 if bench.quick else TOKENS
    for weights in WEIGHTS:
        for threads in (1, 2):
            of_slots(bench, limit, weights, threads, tokens)
    library(bench, tokens, threads=2)


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


def library(bench, tokens, threads):
    """One slot beside the library, in the same minutes."""
    if not bench.peer_python:
        bench.notes.append("generation: PyTorch is not asked for or not there, so generation stands without transformers")
        return
    for dtype, bar in LIBRARY.items():
        settings = (f"run.threads={threads}", "generate.slots=1", "generate.only=true", f"precision.compute={dtype}")
        ours, theirs = [], []
        for mode in ("eager", "compile"):
            ours += bench.once([bench.program("generate"), bench.experiment("gpt2_124m"), "--steps", tokens, *settings])
            options = ("--dtype", dtype, "--mode", mode, "--threads", threads, "--tokens", tokens)
            theirs += bench.once(bench.peer("generate_torch.py", *options))
        label = f"GPT-2 124M, {dtype}, {threads} threads, 1 slot"
        bench.details[f"{label}, beside transformers"] = {"plait": ours, "transformers": theirs}
        best = max(theirs, key=lambda run: run["tokens_per_s"])
        name = f"transformers {best['transformers']} {best['mode']}"
        bench.against(f"{label}: tokens", max(run["tokens_per_s"] for run in ours), "/s", name, best["tokens_per_s"], bar)
        first = min(run["first_s"] for run in theirs)
        bench.row(f"{label}: first token behind 256", 1e3 * min(run["first_s"] for run in ours), "ms", "transformers", 1e3 * first)
