"""Losses of 100 steps of training, of the tiny models of golden_families, beside Hugging Face's library.

    python check_curves.py PLAIT [--only FAMILY...]        needs transformers, beside requirements.txt

Each model learns the same 4 x 48 tokens in every step, three times other ones, by AdamW with clipping:
in plait in f32 and with `precision.compute = "bf16"`, in the library in float64, and with autocast to bf16.
The error of a curve is its distance to the curve of float64, relative to the loss. In f32 it must be
within 1e-5 in the first 20 steps: training amplifies what is rounded, later ones are only told,
beside the library's in f32. In bf16 its mean over all steps must be within twice autocast's.
"""

import argparse
import copy
import json
import pathlib
import sys
import tempfile

import torch
import transformers
from check_hf import T, batch_of, run
from golden_families import FAMILIES, model_of

STEPS = 100
EXACT, EXACT_STEPS = 1e-5, 20  # error of a loss in f32, relative, and for how many steps
SAMPLES = 4
SEEDS = (1, 2, 3)  # of the tokens
ADAMW = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)


def library_curve(model, ids, dtype=None):
    """Losses before each step; `dtype`: of autocast."""
    x, y = batch_of(ids)
    optimizer = torch.optim.AdamW(model.parameters(), **ADAMW)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
            logits = model(input_ids=x, use_cache=False).logits
        logits = logits.float() if dtype else logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses, dtype=torch.float64)


def plait_curve(plait, folder, precision):
    run(folder, plait, "run", "in/experiment.toml", "--data", ".", f"run.steps={STEPS}",
        f"batch.global={SAMPLES}", f"batch.micro={SAMPLES}", f"data.train.length={T}",
        "~optimizer", "optimizer.type=adamw", f"optimizer.learning_rate={ADAMW['lr']}",
        f"optimizer.beta1={ADAMW['betas'][0]}", f"optimizer.beta2={ADAMW['betas'][1]}",
        f"optimizer.eps={ADAMW['eps']}", f"optimizer.weight_decay={ADAMW['weight_decay']}",
        "optimizer.clip_grad_norm=1", "run.log_every=1", "run.out=runs", f"run.name={precision}",
        f"precision.compute={precision}")
    path, = (folder / "runs" / precision).iterdir()
    lines = map(json.loads, (path / "metrics.ndjson").read_text().splitlines())
    return torch.tensor([line["loss"] for line in lines if "loss" in line], dtype=torch.float64)


def prepare(plait, model, config, seed, folder):
    """The model imported as in/, and train.bin with the ids that are returned."""
    model.save_pretrained(folder / "model")
    alphabet = "".join(chr(ord("0") + i) for i in range(config.vocab_size))
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, config.vocab_size, (SAMPLES * T + 1,), generator=draw).tolist()
    (folder / "t.txt").write_text("".join(alphabet[i] for i in ids))
    (folder / "alphabet.txt").write_text(alphabet)
    run(folder, plait, "data", "tokenize", "t.txt", "--tokenizer", "chars", "--option",
        "path=alphabet.txt", "--out", "train")
    run(folder, plait, "import", "hf", "model", "in")
    return ids


def told(errors):
    return f"{errors.mean():.1e}, {errors.max():.1e}"


def curve_errors(plait, family, seed, folder):
    """Of plait and of the library, in f32 and in bf16: the error of each step."""
    model, config = model_of(family)
    model = model.float().train()
    ids = prepare(plait, model, config, seed, folder)
    exact = library_curve(copy.deepcopy(model).double(), ids)
    curves = {
        "f32": plait_curve(plait, folder, "f32"),
        "library": library_curve(copy.deepcopy(model), ids),
        "bf16": plait_curve(plait, folder, "bf16"),
        "autocast": library_curve(copy.deepcopy(model), ids, torch.bfloat16),
    }
    assert all(len(curve) == STEPS for curve in curves.values())
    return {name: (curve - exact).abs() / exact for name, curve in curves.items()}


def check(plait, family):
    """Whether the curves are near enough; prints their errors."""
    parts = []
    for seed in SEEDS:
        with tempfile.TemporaryDirectory() as scratch:
            parts.append(curve_errors(plait, family, seed, pathlib.Path(scratch)))
    errors = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    first = max(part["f32"][:EXACT_STEPS].max().item() for part in parts)
    f32, library, bf16, autocast = errors.values()
    good = first < EXACT and bf16.mean() < 2 * autocast.mean()
    print(
        f"{family}: {'ok' if good else 'FAILED'}; largest error of {EXACT_STEPS} steps in f32 "
        f"{first:.1e}; of all steps mean, largest in f32 {told(f32)} (library {told(library)}), "
        f"in bf16 {told(bf16)} (autocast {told(autocast)})",
        flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plait", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--only", nargs="*", default=list(FAMILIES), choices=list(FAMILIES))
    a = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    failed = 0
    for family in a.only:
        failed += not check(a.plait, family)
    print(f"{len(a.only)} families, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
