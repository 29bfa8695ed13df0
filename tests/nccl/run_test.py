"""Trains on emulated GPUs with ranks as processes, over NCCL and by way of host memory: the losses are those of one rank on the CPU.

run_test.py PLAIT"""

import os
import re
import subprocess
import sys
import tempfile

EXPERIMENT = """
[run]
name = "gpus"
steps = 6
seed = 3
[batch]
global = 16
[data.train]
type = "synthetic"
[[model.layers]]
type = "linear"
out = 32
[[model.layers]]
type = "relu"
[[model.layers]]
type = "linear"
out = 8
[loss]
type = "cross_entropy"
[optimizer]
type = "adamw"
learning_rate = 0.01
"""
LAYOUTS = [
    ["topology.data=2"],
    ["topology.data=2", "topology.zero=3"],
    ["topology.pipeline=2", "batch.accumulation=2"],
    ["topology.data=2", "topology.backend=shm"],
    ["topology.data=2", "topology.pipeline=2", "batch.accumulation=2", "topology.backend=gloo"],
]


def run(plait, folder, overrides, **env):
    done = subprocess.run([plait, "run", "experiment.toml", *overrides], cwd=folder, capture_output=True, text=True, timeout=120,
                          env={**os.environ, **env})
    return done.returncode, done.stdout + done.stderr


def run_ranks(plait, folder, overrides, variables):
    """Two ranks, each with environment variables of its own. Their exit codes and output."""
    rendezvous = tempfile.mkdtemp(dir=folder)
    ranks = []
    for rank, own in enumerate(variables):
        env = {"PLAIT_RANK": str(rank), "PLAIT_WORLD_SIZE": "2", "PLAIT_LOCAL_RANK": str(rank),
               "PLAIT_LOCAL_WORLD_SIZE": "2", "PLAIT_RENDEZVOUS": f"file:{rendezvous}/meet", **own}
        ranks.append(subprocess.Popen(
            [plait, "run", "experiment.toml", "run.device=cuda", "topology.data=2", *overrides],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, **env}))
    texts = [rank.communicate(timeout=120)[0] for rank in ranks]
    return [rank.returncode for rank in ranks], texts


def check_identity(plait, folder):
    """Ranks with other versions of a library end before their first collective, both named."""
    for variable, value, versions in [
            ("LT_VERSION", "130205", ("cuBLASLt 13.1.0", "cuBLASLt 13.2.5")),
            ("NVRTC_MINOR", "98", (".99'", ".98'")),
            ("ARCHITECTURE", "100", ("sm_90", "sm_100"))]:
        ranks = [{}, {"PLAIT_CUDA_EMULATOR_" + variable: value}]
        codes, texts = run_ranks(plait, folder, [], ranks)
        for code, text in zip(codes, texts):
            named = "the ranks' devices differ: rank 0 has 'Emulated GPU" in text
            expect(code != 0 and named and all(v in text for v in versions), text)


def check_tuning(plait, folder):
    """Ranks that would measure other times take the same algorithms, those that rank 0 finds
    fastest. Later runs find them in its cache."""
    counts = {"PLAIT_CUDA_EMULATOR_LT_COUNTS": "1"}
    slow = ["02", "01"]  # the fastest algorithm is 1 for rank 0 and 2 for rank 1
    caches = [tempfile.mkdtemp(dir=folder) for _ in slow]
    seen = []
    for _ in range(2):
        ranks = [{**counts, "PLAIT_CUDA_EMULATOR_LT_SLOW": digits, "XDG_CACHE_HOME": cache}
                 for digits, cache in zip(slow, caches)]
        codes, texts = run_ranks(plait, folder, ["precision.tune=true"], ranks)
        expect(codes == [0, 0], "\n".join(texts))
        found = [re.search(r"runs of each algorithm: (\d+) (\d+) (\d+)", text) for text in texts]
        expect(all(found), "\n".join(texts))
        seen.append([[int(n) for n in one.groups()] for one in found])
    measured, cached = seen
    expect(all(n > 0 for n in measured[0]), f"rank 0 measures every algorithm, found {measured}")
    for counted in (measured[1], *cached):
        expect(counted[1] > 0 and counted[0] == counted[2] == 0, f"not algorithm 1 alone: {seen}")
    codes, texts = run_ranks(plait, folder, [], [counts, counts])
    first_alone = all(re.search(r"runs of each algorithm: [1-9]\d* 0 0", text) for text in texts)
    expect(codes == [0, 0] and first_alone, "\n".join(texts))


def losses(text):
    line = re.search(r"^loss +(.*)$", text, re.M)
    if not line:
        sys.exit("no losses in:\n" + text)
    return [float(v) for v in re.findall(r"\d+\.\d+", line[1])]


def expect(condition, text):
    if not condition:
        sys.exit(text)


def main():
    plait = sys.argv[1]
    gloo = "comm-gloo" in subprocess.run([plait, "env"], capture_output=True, text=True, check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "experiment.toml"), "w", encoding="utf-8") as file:
            file.write(EXPERIMENT)
        code, text = run(plait, folder, ["run.device=cpu"])
        expect(code == 0, text)
        wanted = losses(text)
        for overrides in LAYOUTS:
            if "topology.backend=gloo" in overrides and not gloo:
                continue
            code, text = run(plait, folder, ["run.device=cuda", *overrides])
            expect(code == 0, f"{overrides}:\n{text}")
            got = losses(text)
            near = len(got) == len(wanted) and all(abs(a - b) < 2e-4 for a, b in zip(got, wanted))
            expect(near, f"{overrides}: losses {got}, expected {wanted}")
            expect(("NCCL 2." in text) == ("topology.backend" not in " ".join(overrides)), f"{overrides}: another backend:\n{text}")
        check_identity(plait, folder)
        check_tuning(plait, folder)
        code, text = run(plait, folder, ["run.device=cuda", "topology.data=2"], PLAIT_CUDA_EMULATOR_GPUS="1")
        expect(code != 0 and "are on the same GPU, expected a GPU for each rank" in text, text)
        code, text = run(plait, folder, ["run.device=cuda", "topology.data=2"], PLAIT_NCCL_EMULATOR="version=21000")
        expect(code == 0 and "pass over backend 'nccl'" in text and losses(text), text)
        for overrides in LAYOUTS[:4]:  # the same bits, call by call
            steps = []
            for graphs in ("true", "false"):
                words = ["run.device=cuda", "--json", f"device.graphs={graphs}", *overrides]
                code, text = run(plait, folder, words)
                expect(code == 0, f"{words}:\n{text}")
                figures = r'"event":"step".*?"loss":([^,]+),.*?"grad_norm":([^,]+)'
                steps.append(re.findall(figures, text))
            with_graphs, without = steps
            expect(len(without) == 6 and with_graphs == without,
                   f"{overrides}: with graphs {with_graphs}, without {without}")
        code, text = run(plait, folder, ["run.device=cuda", "topology.data=2", "topology.timeout=2"], PLAIT_NCCL_EMULATOR="hang=1:6")
        expect(code != 0 and re.search(r"\[nccl\] group 'data.0': \w+ of .* has not ended 2 s", text), text)


main()
