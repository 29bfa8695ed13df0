"""Random models of every family, made by Hugging Face's library, through plait and back.

    python check_hf.py PLAIT [--models N] [--seed S]        needs transformers, beside requirements.txt

Each model (f32; sizes, heads, windows, scalings, caps, biases, ties drawn anew) is saved by the library, imported, evaluated
on tokens, continued and exported. The loss must be the library's to 2e-5; so must the greedy ids of three prompts be, until the two
greatest logits are closer than 1e-5 in float64; every gradient must be that of float64 to 1e-4 of its parameter's largest; the export must load in the library with nothing missing and nothing unexpected, and hold
equal tensors.
"""

import argparse
import copy
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import torch
import transformers

T = 48  # tokens of a sample
GRADIENTS = 1e-4  # error of a gradient in f32, in units of its parameter's largest
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
    return transformers.Olmo2Config(**common, **rotary, **bias)


FAMILIES = ("gpt2", "llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3_text", "phi3", "olmo2")


def model_of(config, seed):
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    generator = torch.Generator().manual_seed(seed)
    for name, p in sorted(model.named_parameters()):
        drawn = torch.randn(p.shape, generator=generator)
        scale = 0.1 if p.dim() == 1 else 0.18 if any(w in name for w in ("wte", "wpe", "embed")) else p.shape[-1] ** -0.5
        p.data.copy_(drawn * scale + (p.data if p.dim() == 1 else 0))
    return model


def run(folder, *words):
    done = subprocess.run([*map(str, words)], cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def batch_of(ids):
    """Every sample of T tokens, and the token behind each."""
    samples = [ids[i:i + T + 1] for i in range(0, len(ids) - T, T)]
    return torch.tensor([s[:-1] for s in samples]), torch.tensor([s[1:] for s in samples])


def loss_of(model, ids):
    """The mean over labels."""
    x, y = batch_of(ids)
    with torch.no_grad():
        logits = model(input_ids=x).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1).double(), y.flatten()).item(), len(x)


def greedy_of(model, prompt):
    """The ids that follow, computed without a cache in float64, and the margins of their logits."""
    ids, margins = list(prompt), []
    for _ in range(NEW):
        with torch.no_grad():
            best = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].topk(2)
        ids.append(best.indices[0].item())
        margins.append((best.values[0] - best.values[1]).item())
    return ids[len(prompt):], margins


def check_greedy(plait, model, ids, folder):
    """Two slots for three prompts, so that one is used twice; chunks that divide no prompt. Returns the number of ids compared."""
    prompts = [ids[i * T:i * T + n] for i, n in enumerate(PROMPTS)]
    words = [w for p in prompts for w in ("--ids", ",".join(map(str, p)))]
    lines = run(folder, plait, "generate", "in/experiment.toml", *words, "--temperature", "0", "--max-tokens", NEW, "--slots", 2,
                "--length", 64, "--json", "generate.chunk=7").splitlines()
    found = {r["sequence"]: r["ids"] for r in map(json.loads, lines) if r.get("event") == "sequence"}
    assert sorted(found) == [0, 1, 2], found
    exact, compared = copy.deepcopy(model).double(), 0
    for i, p in enumerate(prompts):
        expected, margins = greedy_of(exact, p)
        assert len(found[i]) == NEW, found[i]
        first = next((k for k in range(NEW) if found[i][k] != expected[k]), NEW)
        assert first == NEW or margins[first] < 1e-5, f"prompt {i}: id {first} of {found[i]}, expected {expected}, margin {margins[first]}"
        compared += first
    return compared


def check_gradients(plait, model, ids, folder, sizes):
    """A step of SGD whose rate is so large that the new weights are the gradients, times the rate. Returns the largest error found,
    in units of the parameter's largest gradient."""
    rate, worst = 2.0**20, 0.0
    run(folder, plait, "run", "in/experiment.toml", "--data", ".", "run.steps=1", *sizes, "~optimizer", "optimizer.type=sgd",
        f"optimizer.learning_rate={rate}", "run.out=runs", "run.name=g", "guard.nonfinite_limit=1")
    path, = (folder / "runs/g").iterdir()
    run(folder, plait, "export", "hf", path, "gradients")
    moved = transformers.AutoModelForCausalLM.from_pretrained(folder / "gradients", dtype=torch.float32)
    exact = copy.deepcopy(model).double()
    x, y = batch_of(ids)
    torch.nn.functional.cross_entropy(exact(input_ids=x).logits.flatten(0, 1), y.flatten()).backward()
    for (name, before), (other, after) in zip(exact.named_parameters(), moved.named_parameters(), strict=True):
        assert name == other, (name, other)
        found, expected = (before.detach() - after.detach().double()) / rate, before.grad
        scale = expected.abs().max().item()
        error = (found - expected).abs().max().item() / max(scale, 1e-6)
        assert error < GRADIENTS, f"gradient of {name}: off by {error:.1e} of its largest, {scale:.1e}"
        worst = max(worst, error)
    return worst


def check(plait, family, seed, folder):
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
    expected, samples = loss_of(model, ids)
    sizes = (f"batch.global={samples}", f"batch.micro={samples}", f"data.train.length={T}")
    run(folder, plait, "run", "in/experiment.toml", "--data", ".", "run.steps=1", *sizes, "optimizer.learning_rate=0", "run.out=runs", "run.name=m")
    path, = (folder / "runs/m").iterdir()
    found = json.loads((path / "metrics.ndjson").read_text().splitlines()[0])["loss"]
    assert abs(found - expected) <= 2e-5 * expected, (found, expected)
    compared = check_greedy(plait, model, ids, folder)
    gradients = check_gradients(plait, model, ids, folder, sizes)
    run(folder, plait, "export", "hf", path, "back")
    again, info = transformers.AutoModelForCausalLM.from_pretrained(folder / "back", output_loading_info=True, dtype=torch.float32,
                                                                    attn_implementation="eager")
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    for (name, a), (other, b) in zip(model.state_dict().items(), again.state_dict().items(), strict=True):
        assert name == other and torch.equal(a, b), name
    assert abs(loss_of(again, ids)[0] - expected) < 1e-9
    return compared, gradients


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("plait", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--models", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    faults, compared, worst = 0, 0, 0.0
    for i in range(a.models):
        family, seed = FAMILIES[i % len(FAMILIES)], a.seed + i
        with tempfile.TemporaryDirectory() as scratch:
            try:
                n, error = check(a.plait, family, seed, pathlib.Path(scratch))
                compared, worst = compared + n, max(worst, error)
            except (AssertionError, SystemExit) as e:
                faults += 1
                print(f"{family}, seed {seed}: {e}", file=sys.stderr)
    print(f"{a.models} models, {compared} greedy ids, gradients within {worst:.1e} of each parameter's largest, {faults} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
