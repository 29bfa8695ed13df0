"""Adapters of Hugging Face's library PEFT over random models, through plait and back.

    python check_peft.py PLAIT [--models N] [--seed S]        needs requirements_peft.txt

Each model and its family are drawn as by check_hf.py, and an adapter (LoRA with ranks and factors
by pattern, rank-stabilised or not, on products, the embedding and the head, beside biases and whole
modules that learn as well; DoRA; AdaLoRA, some ranks of which have gone; IA3; VeRA; or prompt and
prefix tuning) is drawn and saved by the library. plait imports both: all logits must be
the library's in float64 to 1e-4, or to four times its own error in f32, if that is greater. Both
train the adapter for 20 steps of AdamW on the same tokens, unless it is AdaLoRA or changes a module
that joins several parameters: in f32 each loss must be the library's in float64 to 1e-5, likewise. plait
exports it, and one of its own on q and v, LoRA, PiSSA or VeRA: the library loads each with nothing
missing and nothing unexpected, and its logits must equal plait's likewise, to 1e-5 of the
largest one.
"""

import argparse
import copy
import json
import pathlib
import random
import sys
import tempfile
import warnings

import torch
import transformers
from check_hf import FAMILIES, LOGITS, OF_EXPERTS, T, batch_of, config_of, load, model_of, run
from peft import (AdaLoraConfig, IA3Config, LoraConfig, PeftModel, PrefixTuningConfig, PromptTuningConfig,
                  VeraConfig, get_peft_model)
from plait_abi import Plait

BACK = 1e-5  # of the largest logit; both compute in f32
LOSS, STEPS = 1e-5, 20
JOINED = {"c_attn", "qkv_proj", "gate_up_proj"}
ADAMW = dict(lr=0.01, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.05)
OWN = """
[[model.adapters]]
type = "{}"
match = ["model.h*.attn.q.weight", "model.h*.attn.v.weight"]
rank = 2
"""


def modules_of(family):
    """Of products: those of attention, and of the MLP the last one apart."""
    if family == "gpt2":
        return ["c_attn", "attn.c_proj", "c_fc"], "mlp.c_proj"
    if family == "phi3":
        return ["qkv_proj", "o_proj", "gate_up_proj"], "down_proj"
    if family in OF_EXPERTS:  # whose weights no adapter changes
        return ["q_proj", "k_proj", "v_proj"], "o_proj"
    return ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj"], "down_proj"


def adapter_of(family, r, tied):
    names, last = modules_of(family)
    chosen = r.sample(names, r.randrange(1, len(names) + 1)) + r.choice([[], [last]])
    common = dict(task_type="CAUSAL_LM", fan_in_fan_out=family == "gpt2")
    kind = r.random()
    if kind < 0.2:
        return IA3Config(target_modules=chosen,
                         feedforward_modules=[n for n in chosen if n == last],
                         **common)
    if kind < 0.4:
        return VeraConfig(target_modules=chosen, r=r.choice([2, 5]), **common)
    # The library and plait differ in what is in front of what, there.
    if kind < 0.55 and not family.startswith("gemma"):
        virtual = dict(task_type="CAUSAL_LM", num_virtual_tokens=r.choice([1, 4]))
        prefix = family == "gpt2" and r.random() < 0.5
        return (PrefixTuningConfig if prefix else PromptTuningConfig)(**virtual)
    if kind < 0.7:
        return AdaLoraConfig(target_modules=chosen,
                             init_r=r.choice([2, 5]),
                             target_r=2,
                             lora_alpha=r.choice([3, 8]),
                             total_step=2 * STEPS,
                             **common)
    patterned = r.choice(chosen)
    # A tied head would be changed with the embedding that it shares.
    more = r.choice([[], ["wte" if family == "gpt2" else "embed_tokens"],
                     [] if tied else ["lm_head"]])
    return LoraConfig(target_modules=chosen + more,
                      r=r.choice([1, 2, 4]),
                      lora_alpha=r.choice([1, 3, 8]),
                      use_rslora=r.random() < 0.5,
                      use_dora=not more and r.random() < 0.5,
                      bias=r.choice(["none", "lora_only", "all"]),
                      modules_to_save=r.choice([
                          None, ["ln_f" if family == "gpt2" else "model.norm"] +
                          ([] if tied or "lm_head" in more else ["lm_head"])
                      ]),
                      lora_dropout=r.choice([0.0, 0.1]),
                      rank_pattern=r.choice([{}, {
                          patterned: 3
                      }]),
                      alpha_pattern=r.choice([{}, {
                          patterned: 7
                      }]),
                      **common)


def drawn(model, seed):
    generator = torch.Generator().manual_seed(seed)
    for name, p in sorted(model.named_parameters()):
        if p.requires_grad and "ranknum" not in name:
            value = 0.2 * torch.randn(p.shape, generator=generator)
            own = "lora_" not in name and "vera_" not in name and "prompt" not in name
            p.data.copy_(value + 1 if "ia3" in name or "lambda_d" in name else p.data *
                         (1 + value) if "magnitude" in name else p.data + value if own else value)
    return model


def pruned(model, r):
    """Some values of AdaLoRA are 0, and rank_pattern says which, as behind the library's choice."""
    config = model.peft_config["default"]
    config.rank_pattern = {}
    for name, e in model.base_model.model.named_parameters():
        if "lora_E" in name:
            left = [r.random() < 0.7 for _ in range(len(e))]
            e.data[[not one for one in left]] = 0
            config.rank_pattern[name] = left
    if not any(map(any, config.rank_pattern.values())):
        config.rank_pattern = None
    return model


def library_losses(model, ids):
    """Before each of the steps; without dropout."""
    x, y = batch_of(ids)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer, losses = torch.optim.AdamW(parameters, **ADAMW), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        logits = model(input_ids=x, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses, dtype=torch.float64)


def predicted(abi, experiment, folder, ids, shape, *overrides):
    x = batch_of(ids)[0].to(torch.int32).numpy()
    overrides += (f"batch.global={len(x)}", f"batch.eval={len(x)}", f"data.train.length={T}",
                  f"data.train.path={folder}/train.bin")
    return torch.from_numpy(abi.predict(experiment, overrides, "tokens", x, tuple(shape)))


def trained(plait, experiment, name, ids, folder):
    """The run, and its losses."""
    n = experiment.read_text().count("[[model.adapters]]")
    text = experiment.read_text()
    samples = len(batch_of(ids)[0])
    run(folder, plait, "run", experiment, "--data", ".", f"run.steps={STEPS}",
        f"batch.global={samples}", f"batch.micro={samples}", f"data.train.length={T}",
        "~optimizer", "optimizer.type=adamw", f"optimizer.learning_rate={ADAMW['lr']}",
        f"optimizer.beta1={ADAMW['betas'][0]}", f"optimizer.beta2={ADAMW['betas'][1]}",
        f"optimizer.eps={ADAMW['eps']}", f"optimizer.weight_decay={ADAMW['weight_decay']}",
        "run.log_every=1", "checkpoint.save=" + ("all" if "train = [" in text else "trained"), "run.out=runs", f"run.name={name}",
        *(f"model.adapters[{i}].dropout=0.0" for i in range(n) if "dropout = " in text))
    path, = (folder / "runs" / name).iterdir()
    lines = map(json.loads, (path / "metrics.ndjson").read_text().splitlines())
    return path, torch.tensor([line["loss"] for line in lines if "loss" in line],
                              dtype=torch.float64)[:STEPS]


def check_steps(theirs, ours, ids):
    """The largest error of a loss, relative. theirs: the adapted model in f32."""
    exact = library_losses(copy.deepcopy(theirs).double(), ids)
    rounded = library_losses(theirs, ids)
    error = ((ours - exact).abs() / exact).max().item()
    most = max(LOSS, 4 * ((rounded - exact).abs() / exact).max().item())
    assert error < most, f"losses of {STEPS} steps are off by {error:.1e}, of {most:.1e} at most"
    return error


def behind(model, ids):
    """Logits; virtual tokens stand in place of the first ids."""
    n = getattr(model.active_peft_config, "num_virtual_tokens", 0)
    with torch.no_grad():
        return model(input_ids=batch_of(ids)[0][:, n:]).logits


def check_export(plait, abi, experiment, path, name, ids, shape, folder):
    """Exports a run; the largest error beside the library."""
    run(folder, plait, "export", "peft", path, f"{name}-out")
    n = experiment.read_text().count("[[model.adapters]]")
    # What learned of the base itself is in the checkpoint of all.
    own = "train = [" in experiment.read_text()
    loads = [f"model.load={path}"] if own else []
    loads += [f"model.adapters[{i}].load=" + ('""' if own else str(path)) for i in range(n)]
    ours = predicted(abi, experiment, folder, ids, shape, *loads)
    base = load(folder / "model")
    with warnings.catch_warnings():  # of keys that are missing
        warnings.filterwarnings("error", message=".*(missing|unexpected).*")
        tuned = PeftModel.from_pretrained(base, folder / f"{name}-out").eval()
    rounded = behind(tuned, ids)
    exact = behind(tuned.double(), ids)
    ours = ours[:, -exact.shape[1]:]
    largest = exact.abs().max().item()
    error = (ours.double() - exact).abs().max().item() / largest
    most = max(BACK, 4 * (rounded.double() - exact).abs().max().item() / largest)
    assert error < most, (f"{name}: logits of the export are off by {error:.1e} of the largest, "
                          f"expected less than {most:.1e}")
    return error


def check(plait, abi, family, seed, folder):
    r = random.Random(seed)
    config = config_of(family, r)
    model_of(config, seed).save_pretrained(folder / "model")
    alphabet = "".join(chr(ord("0") + i) for i in range(config.vocab_size))
    ids = [r.randrange(len(alphabet)) for _ in range(4 * T + 1)]
    (folder / "t.txt").write_text("".join(alphabet[i] for i in ids))
    (folder / "alphabet.txt").write_text(alphabet)
    run(folder, plait, "data", "tokenize", "t.txt", "--tokenizer", "chars", "--option",
        "path=alphabet.txt", "--out", "train")
    adapter = adapter_of(family, r, config.tie_word_embeddings)
    theirs = drawn(get_peft_model(model_of(config, seed), adapter), seed + 1).eval()
    if isinstance(adapter, AdaLoraConfig) and r.random() < 0.7:
        pruned(theirs, r)
    theirs.save_pretrained(folder / "adapter")
    run(folder, plait, "import", "hf", "model", "in")
    run(folder, plait, "import", "peft", "adapter", "ad", "--option", "base=in")
    virtual = getattr(adapter, "num_virtual_tokens", 0)
    trainable = copy.deepcopy(theirs)
    rounded = behind(theirs, ids)
    expected = behind(theirs.double(), ids)
    shape = (len(expected), T, expected.shape[2])
    ours = predicted(abi, folder / "ad/experiment.toml", folder, ids,
                     shape)[:, -expected.shape[1]:]
    error = (ours.double() - expected).abs().max().item()
    most = max(LOGITS, 4 * (rounded.double() - expected).abs().max().item())
    assert error < most, f"logits of the import are off by {error:.1e}; {adapter}"
    own = OWN.format(r.choice(["lora", "pissa", "vera"]))
    (folder / "in/own.toml").write_text('extends = ["experiment.toml"]\n' + own)
    back, steps = [], 0.0
    for path, name in (("ad/experiment.toml", "trained"), ("in/own.toml", "own")):
        at, losses = trained(plait, folder / path, name, ids, folder)
        # Labels of placeholders count for plait alone; parts of a joined module share a factor in
        # the library, and learn one each in plait.
        joined = isinstance(adapter, AdaLoraConfig) or not isinstance(adapter, IA3Config) and not virtual and JOINED & set(
                adapter.target_modules)
        # After some steps a rounded router chooses another expert where two are as likely.
        if name == "trained" and not virtual and not joined and family not in OF_EXPERTS:
            steps = check_steps(trainable, losses, ids)
        back.append(check_export(plait, abi, folder / path, at, name, ids, shape, folder))
    return error, max(back), steps


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("plait", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--models", type=int, default=18)
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    abi = Plait(a.plait)
    faults, worst = 0, (0.0, 0.0, 0.0)
    for i in range(a.models):
        family, seed = FAMILIES[i % len(FAMILIES)], a.seed + i
        with tempfile.TemporaryDirectory() as scratch:
            try:
                worst = tuple(
                    map(max, worst, check(a.plait, abi, family, seed, pathlib.Path(scratch))))
            except (AssertionError, SystemExit, Warning) as e:
                faults += 1
                print(f"{family}, seed {seed}: {e}", file=sys.stderr)
    print(f"{a.models} adapters; largest errors: logits of imports {worst[0]:.1e}, "
          f"of exports {worst[1]:.1e} of the largest logit, losses of {STEPS} steps "
          f"{worst[2]:.1e}; {faults} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
