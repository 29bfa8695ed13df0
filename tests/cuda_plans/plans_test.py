"""Plans every example for a GPU, where no driver and no library of CUDA is: bytes of memory, and
the kernels of each program with the largest workspace, as plans.json has them.

plans_test.py PLAIT            compares
plans_test.py PLAIT --renew    writes plans.json, after an intended change
"""

import argparse
import gzip
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
EXAMPLES = FOLDER.parents[1] / "examples"
STORED = FOLDER / "plans.json"

# Beside each file as it is. Ranks are planned for a backend of the host: NCCL is not here.
VARIANTS = {
    "mnist_mlp": [["precision.tf32=true"], ["precision.compute=bf16"]],
    "gpt2": [["precision.compute=bf16"], ["precision.compute=bf16", "precision.master=false"]],
    "shakespeare": [["precision.compute=f16"]],
}
OMITTED = {"layer_plugin": "its layers come with a plugin of its own",
           "lora": "it extends the experiment of an imported model"}


def write_images(folder, name, samples):
    """MNIST's files, of zeros."""
    with gzip.open(folder / f"{name}-images-idx3-ubyte.gz", "wb", 1) as file:
        file.write(struct.pack(">4i", 0x803, samples, 28, 28))
        for _ in range(samples):
            file.write(bytes(28 * 28))
    with gzip.open(folder / f"{name}-labels-idx1-ubyte.gz", "wb", 1) as file:
        file.write(struct.pack(">2i", 0x801, samples) + bytes(samples))


def write_tokens(folder, name, tokens):
    """One document of zeros, as .bin and .idx of u16."""
    (folder / f"{name}.bin").write_bytes(bytes(2 * tokens))
    index = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 1, 2)
    (folder / f"{name}.idx").write_bytes(index + struct.pack("<iqqq", tokens, 0, 0, 1))


def make_data(folder):
    """What the examples read, of zeros."""
    write_images(folder, "train", 60000)
    write_images(folder, "t10k", 10000)
    write_tokens(folder, "train", 400000)
    write_tokens(folder, "shakespeare", 1115394)


def figures(plan):
    """What is stored of a plan."""
    programs = {}
    for program in plan["programs"]:
        kernels = {}
        for call in program["kernels"]:
            if "kernel" in call:
                name = call["op"] + "/" + call["kernel"]
                kernels[name] = max(kernels.get(name, 0), call["workspace_bytes"])
        programs[program["name"]] = {"transient": program["transient_bytes"],
                                     "workspace": dict(sorted(kernels.items()))}
    memory = {name: size for name, size in plan["memory"].items()
              if name not in ("dataset", "prefetch", "checkpoint_copy", "total")}  # of the host
    return {"parameters": plan["parameter_count"], "device memory": memory, "programs": programs}


def plan_of(plait, file, words, data):
    command = [plait, "plan", file.name, "run.device=cuda", *words, "--json", "--data", str(data)]
    if "[tokenizer]" in file.read_text():
        command.append("~tokenizer")  # its files are not in the tree
    done = subprocess.run(command, cwd=file.parent, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(" ".join(command) + " failed:\n" + done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def all_plans(plait):
    plans = {}
    with tempfile.TemporaryDirectory() as data:
        make_data(pathlib.Path(data))
        for file in sorted(EXAMPLES.glob("*/*.toml")):
            if file.parent.name in OMITTED:
                continue
            variants = VARIANTS.get(file.parent.name, []) if file.name == "experiment.toml" else []
            for words in [[], *variants]:
                name = " ".join([f"{file.parent.name}/{file.name}", *words])
                plans[name] = figures(plan_of(plait, file, words, data))
    return plans


def differences(stored, found, where=""):
    """Lines that say where two trees of numbers differ."""
    if isinstance(stored, dict) and isinstance(found, dict):
        lines = []
        for key in sorted({*stored, *found}):
            lines += differences(stored.get(key, "nothing"), found.get(key, "nothing"),
                                 f"{where}: {key}" if where else key)
        return lines
    return [] if stored == found else [f"{where}: found {found}, expected {stored}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plait")
    parser.add_argument("--renew", action="store_true")
    given = parser.parse_args()
    os.environ.pop("LD_LIBRARY_PATH", None)
    found = all_plans(given.plait)
    if given.renew:
        STORED.write_text(json.dumps(found, indent=1) + "\n")
        return
    lines = differences(json.loads(STORED.read_text()), found)
    if lines:
        more = f"\n... and {len(lines) - 40} more" if len(lines) > 40 else ""
        sys.exit("\n".join(lines[:40]) + more +
                 f"\nAfter an intended change: {pathlib.Path(__file__).name} PLAIT --renew")
    print(f"{len(found)} plans are as stored")


main()
