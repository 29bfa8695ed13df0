#!/usr/bin/env python3
"""Tests and measures on a machine with a GPU where nothing is installed: runs phases and prints a table last.

    measure.py [--package FOLDER] [--out FOLDER] [--seconds N] [--ops NAME,...] [--only TEXT] [phase...]

FOLDER is an unpacked package of pack.sh, by default the folder of this file. Each phase has a time limit, and a phase that fails does
not end the others; nothing is started beyond --seconds. Logs and results.json are written to --out. Libraries of CUDA are taken from
PLAIT_CUDA_LIBRARIES, from the wheels of this Python, or from the system.

    inventory    driver, compilers, libraries, `plait env`
    device       memory, copies, events and graphs (conformance)
    memory       memory of the GPU beside the planned, and its growth in 1,000 steps
    cold         seconds of a process that does one step, with an empty cache of kernels and with a full one
    kernels      every kernel against the reference device, an op in each process
    train        losses of 50 steps, compared with the CPU
    twice        200 steps twice, without graphs, with other activations recomputed: equal losses to the last bit
    ranks        two ranks on one GPU, by way of host memory
    speed        training: tokens/s, utilisation
    shakespeare  the recipe examples/shakespeare/gpu.toml
    checkpoint   what that recipe saved, evaluated and continued on the GPU and on the processor
    profile      time of each op of a step
    bench        single kernels beside the limits (cuda_bench)
    attention    own kernels and cuDNN beside PyTorch's scaled_dot_product_attention
    sanitizer    compute-sanitizer's four tools on small kernels
    peers        PyTorch on the same models
"""

import argparse
import concurrent.futures
import glob
import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import time

TOKENS = 1 << 20
GPT2 = "experiments/gpt2_124m.toml"
LLAMA = "experiments/llama_7b.toml"
# name, experiment, overrides, steps
BF16 = ["data.train.length=1024", "precision.compute=bf16"]
FAST = ["topology.chunk_mib=1024", "topology.recompute=none"]  # where memory is no matter
CUDNN = "precision.library_attention=true"
FP8 = "precision.products=fp8"
MLP = "examples/mnist_mlp/experiment.toml"
SPEED = [
    ("MLP 784-120-84-10, batch 32", MLP, ["~run.epochs", "~data.eval"], 3000),
    ("MLP 784-2048x4-10, batch 1024", "experiments/wide_mlp.toml", [], 300),
    ("MLP 784-2048x4-10, batch 1024, tf32", "experiments/wide_mlp.toml", ["precision.tf32=true"], 300),
    ("124M f32, 8 x 1024", GPT2, ["batch.global=8", "data.train.length=1024"], 12),
    ("124M bf16, 16 x 1024", GPT2, ["batch.global=16", *BF16], 60),
    ("124M bf16, 64 x 1024", GPT2, ["batch.global=64", *BF16], 30),
    ("124M bf16, 64 x 1024, more memory", GPT2, ["batch.global=64", *BF16, *FAST], 30),
    ("124M bf16, the same, attention by cuDNN", GPT2, ["batch.global=64", *BF16, *FAST, CUDNN], 30),
    ("124M bf16, the same, bf16 residuals", GPT2, ["batch.global=64", *BF16, *FAST, "precision.residual=compute"], 30),
    ("124M bf16, the same, tuned", GPT2, ["batch.global=64", *BF16, *FAST, "precision.tune=true"], 30),
    ("124M fp8, the same", GPT2, ["batch.global=64", *BF16, *FAST, FP8], 30),
    ("124M fp8, a scale for each row", GPT2, ["batch.global=64", *BF16, *FAST, FP8, "precision.fp8.scaling=row"], 30),
    ("1.5B bf16, 16 x 1024", "experiments/qwen_1_5b.toml", ["batch.global=16", *BF16[1:], *FAST], 12),
    ("1.5B bf16, attention by cuDNN", "experiments/qwen_1_5b.toml", ["batch.global=16", *BF16[1:], *FAST, CUDNN], 12),
    ("1.5B fp8, 16 x 1024", "experiments/qwen_1_5b.toml", ["batch.global=16", *BF16[1:], *FAST, FP8], 12),
    ("7B bf16, f32 weights beside it, 4 x 1024", LLAMA, BF16[1:], 12),  # 121 GB: an H200
    ("7B bf16, bf16 weights, 4 x 1024", LLAMA, [*BF16[1:], "precision.master=false"], 12),
    ("7B bf16, bf16 weights and states, 4 x 1024", LLAMA, [*BF16[1:], "precision.master=false", "precision.states=bf16"], 12),
]
LOSSES = [
    # name, experiment, overrides, largest relative difference
    ("MLP, f32", "experiments/wide_mlp.toml", [], 1e-4),
    ("GPT 10.9M, f32", "experiments/gpt_10m.toml", ["batch.global=2"], 1e-4),
    ("GPT 10.9M, bf16", "experiments/gpt_10m.toml", ["batch.global=2", "precision.compute=bf16"], 2e-2),
    ("GPT 10.9M, bf16, attention by cuDNN", "experiments/gpt_10m.toml", ["batch.global=2", "precision.compute=bf16", CUDNN], 2e-2),
]


class Run:
    def __init__(self, package, out, seconds):
        self.package, self.out, self.end = package, out, time.monotonic() + seconds
        self.rows, self.data = [], out / "data"
        self.data.mkdir(parents=True, exist_ok=True)
        self.env = dict(os.environ, LC_ALL="C.UTF-8", PLAIT_DATA=os.pathsep.join([str(self.data)]))
        folders = [str(package / "lib"), str(package / "system"), os.environ.get("LD_LIBRARY_PATH")]
        self.env["LD_LIBRARY_PATH"] = ":".join(filter(None, folders))
        self.env.setdefault("PLAIT_CUDA_LIBRARIES", wheel_folders())

    def left(self):
        return self.end - time.monotonic()

    def run(self, name, command, limit, env=None):
        """Runs a command with its output in a log; (exit code or None, text)."""
        limit = min(limit, self.left())
        if limit < 2:
            return None, "no time left"
        try:
            done = subprocess.run([str(word) for word in command], env=env if env is not None else self.env, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=limit, cwd=self.out)
            code, text = done.returncode, done.stdout
        except subprocess.TimeoutExpired as late:
            code, text = None, (late.stdout or b"") + f"\n[measure] ended after {limit:.0f} s\n".encode()
        except OSError as missing:
            code, text = None, str(missing).encode()
        text = text.decode(errors="replace")
        with open(self.out / f"{name}.log", "a") as log:
            log.write(f"$ {' '.join(map(str, command))}\n{text}\n[exit {code}]\n")
        return code, text

    def row(self, phase, what, value):
        self.rows.append((phase, what, value))
        print(f"[{self.left():4.0f} s left] {phase:10} {what:42} {value}", flush=True)

    def plugin(self, name):
        return next(self.package.glob(f"lib/plait/plugins-*/plait-device-{name}.so"))

    def plait(self, name, words, limit, env=None):
        return self.run(name, [self.package / "bin/plait", *words], limit, env)

    def train(self, name, experiment, overrides, steps, limit, device="cuda", env=None):
        """The step rows of a run's metrics, and its error if it failed."""
        folder = self.out / "runs" / re.sub(r"\W+", "_", name)
        shutil.rmtree(folder, ignore_errors=True)
        words = ["run", self.package / experiment, "--run-dir", folder, f"run.device={device}", f"run.steps={steps}", *overrides, "--quiet"]
        code, text = self.plait("train", words, limit, env)
        rows = []
        if (folder / "metrics.ndjson").exists():
            rows = [json.loads(line) for line in (folder / "metrics.ndjson").read_text().splitlines()]
        shutil.rmtree(folder / "ckpt", ignore_errors=True)
        return [row for row in rows if "event" not in row], "" if code == 0 else last_error(text, code)


def last_error(text, code):
    lines = [line for line in text.splitlines() if line.strip()]
    told = [line for line in lines if re.search("error|failed|cannot", line.lower())] or lines[-1:]
    return f"exit {code}: {' / '.join(line.strip()[:300] for line in told[:2])}"


def wheel_folders():
    try:
        import nvidia
    except ImportError:
        return ""
    found = {os.path.dirname(f) for root in nvidia.__path__ for f in glob.glob(root + "/**/lib*.so*", recursive=True)}
    return ":".join(sorted(found))


def make_tokens(v, vocabulary):
    """Random tokens in Megatron's format, as tests/bench makes them."""
    path = v.data / f"tokens_{vocabulary}"
    if not path.with_suffix(".idx").exists():
        ids = random.Random(1).choices(range(vocabulary), k=TOKENS)
        path.with_suffix(".bin").write_bytes(struct.pack(f"<{TOKENS}H", *ids))
        path.with_suffix(".idx").write_bytes(b"MMIDIDX\0\0" + struct.pack("<QBQQiqqq", 1, 8, 1, 2, TOKENS, 0, 0, 1))


def inventory(v):
    code, text = v.run("inventory", ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm", "--format=csv,noheader"], 20)
    v.row("inventory", "nvidia-smi", text.strip() if code == 0 else last_error(text, code))
    code, text = v.plait("inventory", ["env"], 20)
    v.row("inventory", "plait env", "loaded" if code == 0 else last_error(text, code))
    for command in (["nvcc", "--version"], ["compute-sanitizer", "--version"], ["ncu", "--version"], ["g++", "--version"], ["lscpu"]):
        v.run("inventory", command, 20)


def conformance(v, name, words, limit, env=None):
    command = [v.package / "bin/conformance", f"--reference={v.plugin('reference')}", *words, v.plugin("cuda")]
    return v.run(name, command, limit, env)


def device(v):
    code, text = conformance(v, "device", ["--source-file=*device_test*"], 60)
    v.row("device", "memory, copies, events, graphs", verdict(code, text))


def used_mib(v):
    """Of the GPU that the run takes, by all processes."""
    code, text = v.run("memory", ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], 20)
    return int(text.split()[0]) if code == 0 else None


def memory(v):
    """What nvidia-smi shows while a run trains, without what it showed before: the arena, and context, modules, graphs and libraries."""
    make_tokens(v, 50304)
    overrides = ["batch.global=16", *BF16, "run.log_every=10", "checkpoint.at_end=false", "run.steps=2000"]
    code, text = v.plait("memory", ["plan", v.package / GPT2, "run.device=cuda", *overrides, "--json"], 60)
    if code != 0:
        return v.row("memory", "the plan", last_error(text, code))
    planned = json.loads(text.splitlines()[-1])["memory"]["arena"] / 2**20
    before, folder = used_mib(v), v.out / "runs" / "memory"
    if before is None:
        return v.row("memory", "nvidia-smi", "does not tell the memory in use")
    shutil.rmtree(folder, ignore_errors=True)
    command = [v.package / "bin/plait", "run", v.package / GPT2, "--run-dir", folder, "run.device=cuda", *overrides, "--quiet"]
    with open(v.out / "memory.log", "a") as log, subprocess.Popen(list(map(str, command)), env=v.env, cwd=v.out, stdout=log, stderr=log) as run:
        found, wanted, end = [], [20, 1020], time.monotonic() + min(120, v.left())
        while wanted and run.poll() is None and time.monotonic() < end:
            file = folder / "metrics.ndjson"
            steps = re.findall(r'"step": ?(\d+)', file.read_text()) if file.exists() else []
            if steps and int(steps[-1]) >= wanted[0]:
                found.append((int(steps[-1]), used_mib(v) - before))
                wanted.pop(0)
            time.sleep(0.05)
        run.terminate()
    if len(found) < 2:
        return v.row("memory", "124M bf16, 16 x 1024", f"no figures of two steps: {found}; see memory.log")
    (first, early), (last, late) = found
    v.row("memory", "124M bf16, 16 x 1024", f"arena {planned:.0f} MiB as planned, {early - planned:.0f} MiB beside it at step {first}, {late - early:+d} MiB until step {last}")


def cold(v):
    """Of the whole process, from its start to its end."""
    make_tokens(v, 50304)
    caches = v.out / "cold"
    shutil.rmtree(caches, ignore_errors=True)
    for name, experiment, overrides in (("MLP", MLP, ["~run.epochs", "~data.eval"]), ("124M bf16, 16 x 1024", GPT2, ["batch.global=16", *BF16])):
        env = dict(v.env, XDG_CACHE_HOME=str(caches / name.split()[0]))
        for what in ("empty cache", "full cache", "full cache again"):
            begin = time.monotonic()
            _, error = v.train(f"cold {name}", experiment, [*overrides, "checkpoint.at_end=false"], 1, 60, env=env)
            v.row("cold", f"{name}, {what}", error or f"{time.monotonic() - begin:.2f} s")


def verdict(code, text):
    found = re.search(r"assertions: *(\d+) \| *(\d+) passed \| *(\d+) failed", text)
    if code == 0 and found:
        return f"{found[2]} checks passed"
    if found and int(found[3]):
        where = re.search(r"(?:logged|c.name|kernel.name)[^\n]*", text)
        return f"{found[3]} of {found[1]} checks failed" + (f": {where[0][:150]}" if where else "")
    return last_error(text, code)


def ops_of(v):
    """The ops for which the plugin has kernels."""
    code, text = v.plait("inventory", ["plugins", "--json"], 20)
    return sorted(set(re.findall(r'"cuda/(\w+)/', text))) if code == 0 else []


def kernels(v):
    names = [name for name in ops_of(v) if not v.ops or name in v.ops]
    failed = passed = 0

    def one(op):
        return op, conformance(v, f"kernels_{op}", [f"--op={op}", "--source-file=*ops_test*"], 240)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for op, (code, text) in pool.map(one, names):
            if "no case is of the op" in text:
                continue
            passed, failed = passed + (code == 0), failed + (code != 0)
            if code != 0:
                v.row("kernels", op, verdict(code, text))
    v.row("kernels", "ops whose kernels agree with the reference", f"{passed} of {passed + failed}")


# Of the kernels with shared memory and barriers, what the other tools look at; all are slow.
SANITIZED = [("memcheck", op) for op in ("softmax", "layer_norm", "dot_product_attention", "matmul", "gather", "reduce")]
SANITIZED += [(tool, op) for tool in ("racecheck", "synccheck") for op in ("softmax", "layer_norm_grad", "reduce", "scatter_add", "top_k")]
SANITIZED += [("initcheck", op) for op in ("softmax", "reduce", "scatter_add")]


def sanitizer(v):
    for tool, op in SANITIZED:
        command = ["compute-sanitizer", f"--tool={tool}", "--error-exitcode=9", v.package / "bin/conformance",
                   f"--reference={v.plugin('reference')}", f"--op={op}", "--bounds", "--small", "--test-case=every kernel agrees*",
                   v.plugin("cuda")]
        code, text = v.run("sanitizer", command, 60)
        found = re.search(r"ERROR SUMMARY: (\d+ errors?)|RACECHECK SUMMARY: (\d+ hazards?)", text)
        v.row("sanitizer", f"{tool} of {op}", found[1] or found[2] if found else last_error(text, code))


def train(v):
    make_tokens(v, 256)
    for name, experiment, overrides, most in LOSSES:
        wanted, error_cpu = v.train(name + " cpu", experiment, [*overrides, "run.log_every=1"], 50, 90, "cpu")
        found, error = v.train(name + " cuda", experiment, [*overrides, "run.log_every=1"], 50, 60)
        if error or error_cpu or len(found) != len(wanted):
            v.row("train", name, error or error_cpu or f"{len(found)} steps, expected {len(wanted)}")
            continue
        worst = max(abs(a["loss"] - b["loss"]) / abs(b["loss"]) for a, b in zip(found, wanted))
        said = f"loss {found[0]['loss']:.4f} to {found[-1]['loss']:.4f}, worst difference to the CPU {worst:.2g}"
        v.row("train", name, said + (f", expected {most:g}" if worst > most else ""))


def twice(v):
    make_tokens(v, 256)
    for name, overrides in (("f32", []), ("bf16", ["precision.compute=bf16"]), ("bf16 cuDNN", ["precision.compute=bf16", CUDNN])):
        first = None
        for what, more in (("the first run", []), ("a second run", []), ("without graphs", ["device.graphs=false"]),
                           ("nothing recomputed", ["topology.recompute=none"]), ("layers recomputed", ["topology.recompute=layer"])):
            rows, error = v.train(f"GPT 10.9M {name} {what}", "experiments/gpt_10m.toml",
                                  [*overrides, *more, "run.log_every=1"], 200, 60)
            losses = [row["loss"] for row in rows]
            if first is None:
                first = losses
                if error:
                    v.row("twice", f"GPT 10.9M {name}", error)
                    break
                continue
            same = losses == first and not error
            v.row("twice", f"GPT 10.9M {name}, {what}", f"equal losses, to the last bit, in {len(first)} steps" if same else f"differs: {error or str(losses)[:200]}")


def speed(v):
    for vocabulary in (256, 50304):
        make_tokens(v, vocabulary)
    for name, experiment, overrides, steps in SPEED:
        if not re.search(v.only, name):
            continue
        logging = [f"run.log_every={max(1, steps // 6)}", "checkpoint.at_end=false"]
        rows, error = v.train(name, experiment, [*overrides, *logging], steps, 150 if experiment == LLAMA else 60)
        if error or len(rows) < 3:
            v.row("speed", name, error or "too few steps")
            continue
        last = rows[-1]
        said = f"{1e3 / last['step_ms']:.1f} it/s"
        if "tokens_per_s" in last:
            said += f", {last['tokens_per_s']:,.0f} tokens/s"
        if "mfu" in last:
            said += f", MFU {last['mfu']:.3f}" + (f" (full {last['mfu_full']:.3f})" if "mfu_full" in last else "")
        elif "tflops" in last:
            said += f", {last['tflops']:.1f} TFLOP/s"
        v.row("speed", name, said + f", loss {last['loss']:.3f}")


def ranks(v):
    """Two ranks on one GPU, by way of host memory."""
    make_tokens(v, 256)
    found = {}
    for name, more in (("one rank", []), ("two ranks", ["topology.data=2", "topology.backend=shm"]), ("two stages", ["topology.pipeline=2", "topology.backend=shm"])):
        rows, error = v.train(f"GPT 10.9M {name}", "experiments/gpt_10m.toml", ["run.log_every=1", *more], 20, 60)
        found[name] = [row["loss"] for row in rows]
        if error or name == "one rank" or len(rows) != len(found["one rank"]):
            if error:
                v.row("ranks", name, error)
            continue
        worst = max(abs(a - b) / abs(b) for a, b in zip(found[name], found["one rank"]))
        v.row("ranks", f"GPT 10.9M, {name} on one GPU", f"worst difference to one rank {worst:.2g} in {len(rows)} steps")


def shakespeare(v):
    """The second recipe of examples/shakespeare, made for a GPU."""
    text = v.data / "input.txt"
    if not text.exists():
        return v.row("shakespeare", "the text is not in the package", "pack.sh takes it from PLAIT_DATA")
    (v.data / "tinyshakespeare").mkdir(exist_ok=True)
    shutil.copy(text, v.data / "tinyshakespeare" / "input.txt")
    words = ["data", "tokenize", text, "--tokenizer", "chars", "--option", f"path={text}", "--out", v.data / "shakespeare"]
    v.plait("shakespeare", words, 30)
    folder = v.out / "runs" / "shakespeare"
    code, said = v.plait("shakespeare", ["run", v.package / "examples/shakespeare/gpu.toml", "--run-dir", folder, "run.device=cuda", "--quiet"], 200)
    rows = [json.loads(line) for line in (folder / "metrics.ndjson").read_text().splitlines()] if code == 0 else []
    losses = [(row["loss"], row["step"]) for row in rows if row.get("event") == "evaluate"]
    last = [row for row in rows if "event" not in row][-1:]
    v.row("shakespeare", "gpu.toml", f"{losses[-1][0]:.4f} nats at the end, lowest {min(losses)[0]:.4f} at step {min(losses)[1]}, "
          f"{last[0]['elapsed_s']:.0f} s, {last[0]['tokens_per_s']:,.0f} tokens/s" if losses else last_error(said, code))


def checkpoint(v):
    """The checkpoint of the phase shakespeare: evaluated and continued on the GPU and on the processor."""
    folder, experiment = v.out / "runs" / "shakespeare", v.package / "examples/shakespeare/gpu.toml"
    words = [experiment, "--checkpoint", folder, "--quiet"]
    for device in ("cuda", "cpu"):
        code, text = v.plait("checkpoint", ["eval", *words, f"run.device={device}", "--json"], 60)
        found = re.search(r'"loss": ?([0-9.]+)', text)
        v.row("checkpoint", f"evaluated on {device}", found[1] if code == 0 and found else last_error(text, code))
    for device in ("cuda", "cpu"):
        code, text = v.plait("checkpoint", ["generate", *words, f"run.device={device}", "--prompt", "But soft, what", "--max-tokens", 60, "--temperature", 0], 60)
        v.row("checkpoint", f"continued on {device}", repr(text.strip()[:90]) if code == 0 else last_error(text, code))


def profile(v):
    make_tokens(v, 50304)
    words = ["profile", v.package / GPT2, "run.device=cuda", "batch.global=16", "data.train.length=1024", "precision.compute=bf16", "--top", 40]
    code, text = v.plait("profile", words, 60)
    print(text)
    v.row("profile", "124M bf16, 16 x 1024", "see profile.log" if code == 0 else last_error(text, code))


def bench(v):
    code, text = v.run("bench", [v.package / "bin/cuda_bench", v.plugin("cuda")], 120)
    print(text)
    v.row("bench", "single kernels", "see bench.log" if code == 0 else last_error(text, code))


def attention(v):
    """Forward, the same sizes: Plait's kernel, cuDNN behind Plait, and PyTorch's two backends."""
    code, text = v.run("attention", [v.package / "bin/cuda_bench", v.plugin("cuda"), "--only=attention", "--seconds=30"], 60)
    for line in text.splitlines():
        if line.startswith("{") and "attention" in line:
            one = json.loads(line)
            v.row("attention", one["name"], f"{one['ms']:.3f} ms, {one['tflops']:.0f} TFLOP/s" if "ms" in one else one["note"])
    said = [line for line in text.splitlines() if "driver for CUDA" in line]  # the last says whether cuDNN computed
    v.row("attention", "the device", said[-1] if code == 0 and said else last_error(text, code))
    code, text = v.run("attention", [sys.executable, v.package / "attention_torch.py"], 60, dict(os.environ))
    for line in text.splitlines():
        if line.startswith("{"):
            one = json.loads(line)
            size = "x".join(map(str, one["size"]))
            v.row("attention", f"PyTorch {one['backend']}, {size}", f"{one['ms']:.3f} ms, {one['tflops']:.0f} TFLOP/s" if "ms" in one else one["error"])
    if code != 0:
        v.row("attention", "PyTorch", last_error(text, code))


def peers(v):
    for batch, dtype in ((64, "bf16"), (8, "f32")):
        for mode in ("compile", "eager"):
            command = [sys.executable, v.package / "gpt_torch.py", "--device", "cuda", "--batch", batch, "--length", 1024, "--dtype", dtype,
                       "--mode", mode, "--rounds", 1, "--seconds", 3, *(["--variant", "inductor"] if mode == "compile" else [])]
            code, text = v.run("peers", command, 60, dict(os.environ))  # PyTorch finds its own libraries
            lines = [line for line in text.splitlines() if line.startswith("{")]
            v.row("peers", f"PyTorch {mode}, 124M {dtype}, {batch} x 1024", lines[-1][:160] if code == 0 and lines else last_error(text, code))


PHASES = [inventory, device, kernels, train, twice, ranks, memory, cold, speed, shakespeare, checkpoint, profile, bench, attention, sanitizer, peers]


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--package", type=pathlib.Path, default=here)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu"))
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--ops", default="", help="of the phase kernels: these alone, separated by commas")
    parser.add_argument("--only", default="", help="of the phase speed: models whose name this regular expression finds")
    parser.add_argument("phases", nargs="*", metavar="phase", help=", ".join(p.__name__ for p in PHASES))
    options = parser.parse_args()
    known = {phase.__name__: phase for phase in PHASES}
    unknown = [name for name in options.phases if name not in known]
    if unknown:
        parser.error(f"no phase is called {unknown[0]}; phases are {', '.join(known)}")
    options.out.mkdir(parents=True, exist_ok=True)
    v = Run(options.package.resolve(), options.out.resolve(), options.seconds)
    v.only = options.only
    v.ops = set(filter(None, options.ops.split(",")))
    for file in (v.package / "data").glob("*"):  # MNIST and texts
        shutil.copy(file, v.data / file.name)
    for phase in [known[name] for name in options.phases] or PHASES:
        try:
            phase(v)
        except Exception as fault:  # one phase must not cost the others their time on the machine
            v.row(phase.__name__, "the phase itself failed", repr(fault)[:300])
    print()
    for phase, what, value in v.rows:
        print(f"{phase:10} {what:45} {value}")
    (v.out / "results.json").write_text(json.dumps(v.rows, indent=1))


if __name__ == "__main__":
    main()
