"""Random models of every family, made by Hugging Face's library, through plait and back.

    python check_hf.py PLAIT [--models N] [--seed S]        needs transformers, beside requirements.txt

Each model (f32; sizes, heads, windows, scalings, caps, biases, ties drawn anew) is saved by the library, imported, evaluated
on tokens, continued and exported. All logits must be those of the library in float64 to 1e-4; the
loss that a run tells, to 2e-6; every gradient, to 1e-5 of its parameter's largest, or to the error
of the library in f32, if that is greater; the greedy ids of three prompts must be equal, until the
two greatest logits are closer than 1e-5. With config.json
as version 4 of the library wrote it, the import must be the same. The export must load in the
library with nothing missing and nothing unexpected, hold equal tensors, and continue the prompts as
before.
"""

import argparse
import copy
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import torch
import transformers
from plait_abi import Plait

T = 48  # tokens of a sample
LOGITS = 1e-4  # error of a logit in f32; they have a standard deviation near 1
LOSS = 2e-6
GRADIENTS = 1e-5  # error of a gradient in f32, in units of its parameter's largest
PROMPTS, NEW = (20, 33, 17), 24  # ids of prompts, and behind each; two of them grow beyond 32, where factors of longrope may change


def rope(r, d, positions, share=False):
    kind = r.choice(["default", "longrope"] if share else ["default", "default", "linear", "llama3", "yarn"])
    p = dict(rope_type=kind, rope_theta=r.choice([500.0, 10000.0, 1e6]))
    part = r.choice([0.5, 1.0]) if share else 1.0
    if share:
        p["partial_rotary_factor"] = part
    if kind == "linear":
        p["factor"] = r.choice([2.0, 3.5])
    elif kind == "llama3":
        p |= dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=r.choice([2.0, 4.0]), original_max_position_embeddings=16)
    elif kind == "yarn":
        p |= dict(factor=4.0, original_max_position_embeddings=16)
        if r.random() < 0.5:
            p |= dict(beta_fast=16.0, beta_slow=2.0)
    elif kind == "longrope":
        pairs = int(d * part) // 2
        p |= dict(short_factor=[1 + 0.125 * i for i in range(pairs)], long_factor=[1 + 0.5 * i for i in range(pairs)],
                  original_max_position_embeddings=r.choice([16, 32, 64]))
    return p


def config_of(family, r):
    """A configuration of the library's class."""
    d = r.choice([8, 16])
    kv = r.choice([1, 2])
    heads = kv * r.choice([1, 2, 3])
    width, blocks, vocabulary = d * heads, r.choice([1, 2, 3, 7]), r.choice([50, 96, 101])
    none = dict(bos_token_id=None, eos_token_id=None)
    if family == "gpt2":
        return transformers.GPT2Config(vocab_size=vocabulary, n_embd=width, n_layer=blocks, n_head=heads, n_positions=64, **none,
                                       n_inner=r.choice([None, 40]), activation_function=r.choice(["gelu_new", "gelu", "relu"]),
                                       resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    gemma = family.startswith("gemma")
    common = dict(vocab_size=vocabulary, hidden_size=width, intermediate_size=r.choice([24, 40]), num_hidden_layers=blocks,
                  num_attention_heads=heads, num_key_value_heads=kv, max_position_embeddings=64, pad_token_id=None, **none,
                  rms_norm_eps=r.choice([1e-5, 1e-6]), tie_word_embeddings=r.random() < 0.5)
    own = {} if family == "phi3" else dict(head_dim=r.choice([d, 8]))
    head = own.get("head_dim", d)
    activation = r.choice(["gelu_pytorch_tanh", "gelu"] if gemma else ["silu", "gelu"])
    common |= {"hidden_activation" if gemma else "hidden_act": activation}
    rotary = dict(rope_parameters=rope(r, head, 64, family == "phi3"))
    bias = dict(attention_bias=r.random() < 0.5)
    window = r.choice([None, 8, 20])
    if family == "llama":
        return transformers.LlamaConfig(**common, **own, **rotary, **bias, mlp_bias=r.random() < 0.5)
    if family == "mistral":
        return transformers.MistralConfig(**common, **own, **rotary, sliding_window=window)
    if family in ("qwen2", "qwen3"):
        kind = transformers.Qwen2Config if family == "qwen2" else transformers.Qwen3Config
        return kind(**common, **rotary, **(own | bias if family == "qwen3" else {}), use_sliding_window=window is not None,
                    sliding_window=window, max_window_layers=r.randrange(blocks + 1))
    if family == "gemma2":
        return transformers.Gemma2Config(**common, **own, **rotary, **bias, sliding_window=window or 8,
                                         query_pre_attn_scalar=r.choice([16, 24]), attn_logit_softcapping=r.choice([None, 2.0]),
                                         final_logit_softcapping=r.choice([None, 5.0]))
    if family == "gemma3_text":
        both = dict(sliding_attention=dict(rope_type="default", rope_theta=r.choice([500.0, 10000.0])),
                    full_attention=rotary["rope_parameters"])
        return transformers.Gemma3TextConfig(**common, **own, **bias, rope_parameters=both, sliding_window=window or 8,
                                             query_pre_attn_scalar=r.choice([16, 24]))
    if family == "phi3":
        return transformers.Phi3Config(**common, **rotary, original_max_position_embeddings=rotary["rope_parameters"].get(
            "original_max_position_embeddings", 64), sliding_window=window, resid_pdrop=0.0)
    if family in OF_EXPERTS:
        return config_of_experts(family, r, common, own, rotary, bias, window)
    return transformers.Olmo2Config(**common, **rotary, **bias)


def config_of_experts(family, r, common, own, rotary, bias, window):
    chosen = r.choice([1, 2, 3])
    common |= dict(num_experts_per_tok=chosen)
    experts, norm = r.choice([chosen, 4, 11]), dict(norm_topk_prob=r.random() < 0.5)
    if family == "mixtral":
        return transformers.MixtralConfig(**common, **own, **rotary, num_local_experts=experts, sliding_window=window)
    if family == "olmoe":
        return transformers.OlmoeConfig(**common, **rotary, **bias, **norm, num_experts=experts,
                                        clip_qkv=r.choice([None, 1.5]))
    dense = r.choice([{}, {}, dict(decoder_sparse_step=2), dict(mlp_only_layers=[0, 2])])
    return transformers.Qwen3MoeConfig(**common, **own, **rotary, **bias, **norm, **dense, num_experts=experts,
                                       moe_intermediate_size=r.choice([16, 32]), use_sliding_window=window is not None,
                                       sliding_window=window)


FAMILIES = ("gpt2", "llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3_text", "phi3", "olmo2", "mixtral", "qwen3_moe", "olmoe")
OF_EXPERTS = FAMILIES[-3:]


def model_of(config, seed):
    config._attn_implementation = config._experts_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    generator = torch.Generator().manual_seed(seed)
    for name, p in sorted(model.named_parameters()):
        drawn = torch.randn(p.shape, generator=generator)
        scale = 0.1 if p.dim() == 1 else 0.18 if any(w in name for w in ("wte", "wpe", "embed")) else p.shape[-1] ** -0.5
        p.data.copy_(drawn * scale + (p.data if p.dim() == 1 else 0))
    return model


def load(folder, **more):
    """A model in f32 by the library's plain code."""
    return transformers.AutoModelForCausalLM.from_pretrained(folder,
                                                             dtype=torch.float32,
                                                             attn_implementation="eager",
                                                             experts_implementation="eager",
                                                             **more)


def run(folder, *words):
    done = subprocess.run([*map(str, words)], cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def batch_of(ids):
    """Every sample of T tokens, and the token behind each."""
    samples = [ids[i:i + T + 1] for i in range(0, len(ids) - T, T)]
    return torch.tensor([s[:-1] for s in samples]), torch.tensor([s[1:] for s in samples])


def logits_of(model, ids):
    with torch.no_grad():
        return model(input_ids=batch_of(ids)[0]).logits


def loss_of(logits, ids):
    """The mean over labels."""
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1),
                                             batch_of(ids)[1].flatten()).item()


def greedy_of(model, prompt):
    """The ids that follow, computed without a cache in float64, and the margins of their logits."""
    ids, margins = list(prompt), []
    for _ in range(NEW):
        with torch.no_grad():
            best = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].topk(2)
        ids.append(best.indices[0].item())
        margins.append((best.values[0] - best.values[1]).item())
    return ids[len(prompt):], margins


def check_logits(abi, logits, ids, folder):
    """All of them, by a prediction through the C ABI. Returns the largest error."""
    x = batch_of(ids)[0].to(torch.int32).numpy()
    overrides = (f"batch.global={len(x)}", f"batch.eval={len(x)}", f"data.train.length={T}",
                 f"data.train.path={folder}/train.bin")
    found = torch.from_numpy(
        abi.predict(folder / "in/experiment.toml", overrides, "tokens", x, tuple(logits.shape)))
    error = (found.double() - logits).abs().max().item()
    deviation = logits.std().item()
    assert error < LOGITS, f"logits: off by {error:.1e}, their deviation is {deviation:.2f}"
    return error


def check_greedy(plait, exact, ids, folder):
    """Two slots for three prompts, so that one is used twice; chunks that divide no prompt. Returns
    each prompt with as many ids as must follow it."""
    prompts = [ids[i * T:i * T + n] for i, n in enumerate(PROMPTS)]
    words = [w for p in prompts for w in ("--ids", ",".join(map(str, p)))]
    lines = run(folder, plait, "generate", "in/experiment.toml", *words, "--temperature", "0", "--max-tokens", NEW, "--slots", 2,
                "--length", 64, "--json", "generate.chunk=7").splitlines()
    found = {r["sequence"]: r["ids"] for r in map(json.loads, lines) if r.get("event") == "sequence"}
    assert sorted(found) == [0, 1, 2], found
    certain = []
    for i, p in enumerate(prompts):
        expected, margins = greedy_of(exact, p)
        assert len(found[i]) == NEW, found[i]
        first = next((k for k in range(NEW) if found[i][k] != expected[k]), NEW)
        assert first == NEW or margins[first] < 1e-5, f"prompt {i}: id {first} of {found[i]}, expected {expected}, margin {margins[first]}"
        certain.append((p, found[i][:next((k for k in range(first) if margins[k] < 1e-5), first)]))
    return certain


def gradients_of(model, ids):
    x, y = batch_of(ids)
    model.zero_grad()
    logits = model(input_ids=x).logits
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten()).backward()
    return {name: p.grad for name, p in model.named_parameters()}


def check_gradients(plait, model, exact, ids, folder, sizes):
    """A step of SGD whose rate is so large that the new weights are the gradients, times the rate.
    Returns the largest error found, in units of the parameter's largest gradient."""
    rate, worst = 2.0**20, 0.0
    run(folder, plait, "run", "in/experiment.toml", "--data", ".", "run.steps=1", *sizes,
        "~optimizer", "optimizer.type=sgd", f"optimizer.learning_rate={rate}", "run.out=runs",
        "run.name=g", "guard.nonfinite_limit=1")
    path, = (folder / "runs/g").iterdir()
    run(folder, plait, "export", "hf", path, "gradients")
    moved = load(folder / "gradients")
    expected, rounded = gradients_of(exact, ids), gradients_of(model, ids)
    before, after = dict(exact.named_parameters()), dict(moved.named_parameters())
    assert before.keys() == after.keys(), before.keys() ^ after.keys()
    for name, gradient in expected.items():
        scale = max(gradient.abs().max().item(), 1e-6)
        found = (before[name].detach() - after[name].detach().double()) / rate
        error = (found - gradient).abs().max().item() / scale
        most = max(GRADIENTS, (rounded[name].double() - gradient).abs().max().item() / scale)
        assert error < most, f"gradient of {name}: off by {error:.1e} of its largest, {scale:.1e}"
        worst = max(worst, error)
    return worst


def older_config(config, r):
    """config.json as version 4 of the library wrote it: rotary positions by keys of the model."""
    config = dict(config, torch_dtype=config["dtype"], transformers_version="4.46.0")
    del config["dtype"]
    if "rope_parameters" not in config:
        return config
    rope = config.pop("rope_parameters")
    if "full_attention" in rope:
        config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = rope["full_attention"]
    scaling = {
        key: value
        for key, value in rope.items() if key not in ("rope_theta", "partial_rotary_factor")
    }
    config["rope_theta"] = rope["rope_theta"]
    if "partial_rotary_factor" in rope:
        config["partial_rotary_factor"] = rope["partial_rotary_factor"]
    kind = scaling.pop("rope_type")
    # The library forgets the older name of this key in a Gemma 3, which came when it was gone.
    name = "rope_type" if "rope_local_base_freq" in config else r.choice(["rope_type", "type"])
    config["rope_scaling"] = None if kind == "default" else {name: kind, **scaling}
    return config


def check_older(plait, logits, ids, folder, r):
    """The library must read the older config.json as the same model, and so must plait."""
    shutil.copytree(folder / "model", folder / "older")
    path = folder / "older/config.json"
    path.write_text(json.dumps(older_config(json.loads(path.read_text()), r), indent=2))
    model = load(folder / "older")
    assert torch.equal(logits_of(model.double(), ids),
                       logits), "the library reads the older config.json as another model"
    run(folder, plait, "import", "hf", "older", "old")
    new, old = ((folder / name / "experiment.toml").read_text().split("[model]")[1]
                for name in ("in", "old"))
    assert new == old, f"the older config.json is another model:\n{old}\nexpected:\n{new}"


def check_export(plait, model, path, certain, ids, folder):
    run(folder, plait, "export", "hf", path, "back")
    again, info = load(folder / "back", output_loading_info=True)
    assert not any(info[key]
                   for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    for (name, a), (other, b) in zip(model.state_dict().items(),
                                     again.state_dict().items(),
                                     strict=True):
        assert name == other and torch.equal(a, b), name
    assert torch.equal(logits_of(again, ids), logits_of(model, ids))
    for prompt, expected in certain:
        if expected:
            # The cache would have keys of other angles once a text outgrows the limit of longrope.
            found = again.generate(torch.tensor([prompt]),
                                   do_sample=False,
                                   max_new_tokens=len(expected),
                                   use_cache=False)[0].tolist()
            assert found == prompt + expected, (
                f"generate of the export: {found[len(prompt):]}, expected {expected}")


def check(plait, abi, family, seed, folder):
    """Returns the number of greedy ids, and the largest errors of logits, loss and gradients."""
    r = random.Random(seed)
    config = config_of(family, r)
    model = model_of(config, seed)
    model.save_pretrained(folder / "model", max_shard_size=r.choice(["20KB", "1GB"]))
    alphabet = "".join(chr(ord("0") + i) for i in range(config.vocab_size))
    ids = [r.randrange(len(alphabet)) for _ in range(4 * T + 1)]
    (folder / "t.txt").write_text("".join(alphabet[i] for i in ids))
    (folder / "alphabet.txt").write_text(alphabet)
    run(folder, plait, "data", "tokenize", "t.txt", "--tokenizer", "chars", "--option", "path=alphabet.txt", "--out", "train")
    run(folder, plait, "import", "hf", "model", "in")
    exact = copy.deepcopy(model).double()
    logits = logits_of(exact, ids)
    expected, samples = loss_of(logits, ids), len(logits)
    sizes = (f"batch.global={samples}", f"batch.micro={samples}", f"data.train.length={T}")
    run(folder, plait, "run", "in/experiment.toml", "--data", ".", "run.steps=1", *sizes, "optimizer.learning_rate=0", "run.out=runs", "run.name=m")
    path, = (folder / "runs/m").iterdir()
    loss = abs(json.loads((path / "metrics.ndjson").read_text().splitlines()[0])["loss"] - expected)
    assert loss < LOSS, f"loss: off by {loss:.1e}, expected {expected}"
    errors = check_logits(abi, logits, ids,
                          folder), loss, check_gradients(plait, model, exact, ids, folder, sizes)
    certain = check_greedy(plait, exact, ids, folder)
    check_older(plait, logits, ids, folder, r)
    check_export(plait, model, path, certain, ids, folder)
    return sum(len(new) for _, new in certain), errors


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("plait", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--models", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    abi = Plait(a.plait)
    faults, compared, worst = 0, 0, (0.0, 0.0, 0.0)
    for i in range(a.models):
        family, seed = FAMILIES[i % len(FAMILIES)], a.seed + i
        with tempfile.TemporaryDirectory() as scratch:
            try:
                n, errors = check(a.plait, abi, family, seed, pathlib.Path(scratch))
                compared, worst = compared + n, tuple(map(max, worst, errors))
            except (AssertionError, SystemExit) as e:
                faults += 1
                print(f"{family}, seed {seed}: {e}", file=sys.stderr)
    print(
        f"{a.models} models, {compared} greedy ids; largest errors: logits {worst[0]:.1e}, "
        f"loss {worst[1]:.1e}, gradients {worst[2]:.1e} "
        f"of each parameter's largest; {faults} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
