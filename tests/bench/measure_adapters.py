"""LoRA beside a frozen GPT-2 124M: tokens/s and memory, beside the library peft on PyTorch; many adapters; a base of 4 bits."""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile

from bench_common import ROOT, Contestant, Failed
from measure_language import MODELS, memory, token_file, torch_peers, write_ids
from measure_speed import note_cpus, train
from parallel.ranks import MIB

RANK = 16
NAME = "GPT-2 124M, B4 T256"
MATCH = 'match=["model.h*.attn.*.weight", "model.h*.mlp.*.weight"]'
SPEED, MEMORY = 1.2, 0.6  # of the peer's best and least
FROZEN = {"f32": "master", "bf16": "compute"}
MANY, MANY_BATCH, MANY_SPEED = 8, 8, 0.9  # adapters in one pass, samples of a step, least tokens/s, of one adapter's
SWITCH = 1.0  # ms
NF4_BYTES, NF4_LOSS = 0.56, 0.01  # bytes of a frozen element of a product; difference of the loss, of that beside f32
NF4_STEPS, BASE_STEPS, LAST = 200, 60, 20  # of the adapter; of the base before; whose losses are averaged


def lora(names=""):
    return f'model.adapters=[{{type="lora", {MATCH}, rank={RANK}, alpha={RANK}{names}}}]'


def adapters(bench):
    kept, bench.rounds = bench.rounds, 3
    try:
        for dtype in FROZEN:
            beside_peft(bench, dtype)
        for dtype in FROZEN:
            many(bench, dtype)
        switching(bench)
    finally:
        bench.rounds = kept


def tokens_of(bench, model):
    return f'{{type="tokens", path="{token_file(bench, model["vocabulary"])}", length={model["length"]}}}'


def contestant(bench, name, dtype, frozen, batch, *settings):
    threads, seconds, model = len(os.sched_getaffinity(0)), 3 * bench.seconds, MODELS[NAME]
    return train(bench, name, model["file"], threads, seconds, f"batch.global={batch}", f"precision.compute={dtype}",
                 f"precision.frozen={frozen}", *settings)


def beside_peft(bench, dtype):
    threads, seconds = len(os.sched_getaffinity(0)), 3 * bench.seconds
    model = MODELS[NAME]
    label, tokens = f"LoRA {RANK} of {NAME}, {dtype}", model["batch"] * model["length"]
    data = f"data.train={tokens_of(bench, model)}"
    plait, numbers = (
        contestant(bench, f"plait, frozen {frozen}", dtype, frozen, model["batch"], data, lora()) for frozen in (FROZEN[dtype], "nf4")
    )
    peers = torch_peers(bench, model, dtype, threads, seconds, "--lora", RANK)
    bench.alternate([plait, numbers, *peers], label)
    rate = tokens * plait.median("steps_per_s")
    best = max(peers, key=lambda p: p.median("tokens_per_s")) if peers else None
    if best:
        bench.against(label, rate, "tokens/s", f"peft, {best.name} ({best.about['variant']})", best.median("tokens_per_s"), SPEED)
    else:
        bench.row(label, rate, "tokens/s")
    note_cpus(bench, label, [plait, *peers], threads)
    memory(bench, label, plait, peers, MEMORY)
    bench.row(f"{label}, base of nf4", tokens * numbers.median("steps_per_s"), "tokens/s", f"frozen {FROZEN[dtype]}", rate,
              tokens * numbers.median("steps_per_s") / rate)
    memory(bench, f"{label}, base of nf4", numbers, peers, MEMORY)


def many(bench, dtype):
    """Samples of MANY datasets, each with an adapter of its own, in one pass; beside one adapter that all samples take."""
    model = MODELS[NAME]
    part = tokens_of(bench, model)
    names = ", names=[" + ", ".join(f'"a{k}"' for k in range(MANY)) + "]"
    data = f'data.train={{type="blend", part_field="adapter", parts=[{", ".join([part] * MANY)}]}}'
    one = contestant(bench, "one adapter", dtype, FROZEN[dtype], MANY_BATCH, f"data.train={part}", lora())
    all_of_them = contestant(bench, f"{MANY} adapters", dtype, FROZEN[dtype], MANY_BATCH, data, lora(names), "model.adapter_field=adapter")
    label, tokens = f"{MANY} adapters of rank {RANK} in one pass, GPT-2 124M, B{MANY_BATCH} T256, {dtype}", MANY_BATCH * model["length"]
    bench.alternate([one, all_of_them], label)
    rates = [tokens * c.median("steps_per_s") for c in (all_of_them, one)]
    bench.against(label, rates[0], "tokens/s", "one adapter", rates[1], MANY_SPEED)
    for c in (one, all_of_them):
        planned, used = (c.about[key] / MIB for key in ("planned", "used"))
        bench.row(f"{label}, {c.name}: arena used", used, "MiB", "planned", planned, None, "equal", planned == used)
    settings = (f"batch.global={MANY_BATCH}", f"precision.compute={dtype}", f"precision.frozen={FROZEN[dtype]}")
    experiment = bench.experiment(model["file"])
    frozen, of_one = persistent(bench, experiment, *settings, f"data.train={part}", lora())
    same, of_many = persistent(bench, experiment, *settings, data, lora(names), "model.adapter_field=adapter")
    bench.row(f"{label}: frozen parameters", same / MIB, "MiB", "one adapter", frozen / MIB, None, "equal", same == frozen)
    bench.row(f"{label}: what is trained", of_many / MIB, "MiB", f"{MANY} x one adapter", MANY * of_one / MIB, None, "equal",
              of_many == MANY * of_one)


def switching(bench):
    """A slot takes another adapter with each sequence, beside the same one each time."""
    command = [bench.program("generate"), bench.experiment("gpt2_124m"), "--mode", "switch", "--steps", 10 if bench.quick else 100]
    names = lora(', names=["a0", "a1"]')
    (run,) = bench.once([*command, "generate.slots=1", "generate.only=true", "model.adapter_field=adapter", names])
    bench.details["switching"] = run
    more = 1e3 * (run["other_s"] - run["same_s"])
    bench.at_most("GPT-2 124M, a sequence of one token: another adapter than before", more, "ms more", SWITCH, "the same adapter, ms",
                  1e3 * run["same_s"])


def persistent(bench, experiment, *settings):
    """Bytes of a plan: of frozen parameters; of trained ones with their gradients and the states of the optimizer."""
    told = json.loads(plait(bench, "plan", experiment, "--json", *settings))
    memory, trained = told["memory"], 4 * told["trained_count"]
    return memory["parameters"] - trained, trained + memory["gradients"] + memory["optimizer"]


def plait(bench, *arguments):
    command = [str(part) for part in (bench.build / "bin" / "plait", *arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise Failed(f"[bench] {' '.join(command[:3])} ended with code {done.returncode}: {done.stderr.strip()[-400:]}")
    return done.stdout


def nf4_loss(bench):
    """A base that has learned one text, and an adapter that learns another beside it, in f32 and of 4 bits."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="plait-bench-"))
    try:
        base_steps, steps = (10, 20) if bench.quick else (BASE_STEPS, NF4_STEPS)
        code, prose = (byte_tokens(folder, name, pattern) for name, pattern in (("code", "engine/**/*.cpp"), ("prose", "**/*.md")))
        run, _ = run_of_bytes(bench, folder, "base", code, base_steps)
        last, bytes_of = {}, {}
        for frozen in ("master", "nf4"):
            settings = [f"model.load={run}", lora(), f"precision.frozen={frozen}"]
            _, losses = run_of_bytes(bench, folder, frozen, prose, steps, *settings)
            last[frozen] = statistics.mean(losses[-LAST:])
            bytes_of[frozen] = persistent(bench, bench.experiment("gpt2_124m"), *of_bytes(prose), *settings)[0]
    finally:
        shutil.rmtree(folder)
    difference = abs(last["nf4"] / last["master"] - 1)
    label = f"LoRA {RANK} of GPT-2 124M on bytes of a text, base of nf4"
    bench.row(f"{label}: mean loss of steps {steps - LAST + 1} to {steps}", last["nf4"], "nats", "base of f32", last["master"],
              last["nf4"] / last["master"], f"within {NF4_LOSS:g}", difference <= NF4_LOSS)
    elements = 12 * 12 * MODELS[NAME]["width"] ** 2  # of the products of 12 blocks
    each = 4 - (bytes_of["master"] - bytes_of["nf4"]) / elements
    bench.row(f"{label}: a weight of a product", each, "bytes", "f32", 4, each / 4, f"<= {NF4_BYTES:g}", each <= NF4_BYTES)


def byte_tokens(folder, name, pattern):
    """The files of the tree that the pattern names, as a file of token ids, one of each byte."""
    text = folder / f"{name}.txt"
    text.write_bytes(b"".join(path.read_bytes() for path in sorted(ROOT.glob(pattern)) if "build" not in path.parts))
    return write_ids(folder / name, list(text.read_bytes()))


def of_bytes(tokens):
    return [f"data.train.path={tokens}", "data.train.length=256", "model.layers[0].vocabulary=256", "model.layers[4].out=256"]


def run_of_bytes(bench, folder, name, tokens, steps, *settings):
    """The run directory, and the loss of each step."""
    plait(bench, "run", bench.experiment("gpt2_124m"), "--quiet", f"run.out={folder}", f"run.name={name}", "run.log_every=1",
          f"run.steps={steps}", "run.progress=false", *of_bytes(tokens), *settings)
    (metrics,) = (folder / name).rglob("metrics.ndjson")
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    return metrics.parent, [line["loss"] for line in lines if "loss" in line and "step" in line]
