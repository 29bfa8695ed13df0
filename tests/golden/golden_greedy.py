"""Greedy continuations and sampling steps, as Hugging Face's library has them.

    python golden_greedy.py [--check]        needs transformers, beside requirements.txt

`greedy.json` holds of each family of golden_families.py prompts of 8, 1 and 40 ids and what the library's `generate`
appends to them: 32 ids, or as many as its 64 positions leave. The model is in float64; the ids are those of whole texts without a
cache, too. `margin` is the least distance between the two greatest logits. Seeds of prompts are such that it is at least 0.01, so
rounding cannot change an id: a difference is a fault.

`sampling.json` holds rows of logits, how a token is to be drawn, and the ids that may be drawn with their probabilities, after the steps that
`generate` chooses for such settings. `seen` are the ids of the sequence so far, `banned` the end ids of one that is too short to end.
"""

import argparse
import json
import pathlib
import sys

import torch
import transformers
from golden_families import BY_LENGTH, EXPERTS, FAMILIES, model_of

FOLDER = pathlib.Path(__file__).parent
LENGTH, VOCABULARY = 64, 96
SEEDS = dict(gpt2=6, llama=20, mistral=35, qwen2=11, qwen3=14, gemma2=37, gemma3=19, phi3=9, olmo2=30,
             phi3_short=0, phi3_long=0, mixtral=16, qwen3_moe=8, olmoe=14)  # of 8 ids
LEAST = 0.01


def prompt(n, seed):
    return torch.randint(0, VOCABULARY, (1, n), generator=torch.Generator().manual_seed(seed))


def margin_of(model, ids, n):
    """The least margin of the ids behind the first n, each of which must be the greatest logit of the text before it."""
    with torch.no_grad():
        each = [model(input_ids=ids[:, :length], use_cache=False).logits[0, -1] for length in range(n, ids.shape[1])]
    logits = torch.stack(each)
    two = logits.topk(2)
    assert torch.equal(two.indices[:, 0], ids[0, n:]), "cached and uncached ids differ"
    return (two.values[:, 0] - two.values[:, 1]).min().item()


def continuation(model, n, seed):
    ids, new = prompt(n, seed), min(32, LENGTH - n)
    with torch.no_grad():
        whole = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=new, pad_token_id=0)
    assert whole.shape[1] == n + new
    return {"seed": seed, "prompt": ids[0].tolist(), "ids": whole[0, n:].tolist(), "margin": round(margin_of(model, whole, n), 4)}


def first_clear(model, n):
    """Of the first seed whose margin is large enough."""
    return next(c for c in (continuation(model, n, seed) for seed in range(200)) if c["margin"] >= LEAST)


def greedy():
    made = {}
    for family in FAMILIES | BY_LENGTH | EXPERTS:
        model, _ = model_of(family)
        made[family] = [continuation(model, 8, SEEDS[family]), first_clear(model, 1), first_clear(model, 40)]
        assert all(c["margin"] >= LEAST for c in made[family]), family
    return made


CASES = [  # settings in the words of the library
    {},
    {"temperature": 0.7},
    {"top_k": 5},
    {"top_k": 7, "tie": True},
    {"top_p": 0.8},
    {"min_p": 0.1},
    {"repetition_penalty": 1.3},
    {"repetition_penalty": 0.8, "temperature": 1.5},
    {"temperature": 1.8, "top_k": 20, "top_p": 0.9},
    {"temperature": 0.6, "top_p": 0.95, "min_p": 0.05},
    {"repetition_penalty": 1.2, "temperature": 1.3, "top_k": 25, "top_p": 0.85, "min_p": 0.08},
    {"repetition_penalty": 1.5, "min_new_tokens": 5, "top_k": 6},
    {"min_new_tokens": 5, "temperature": 2.0, "top_p": 0.5},
    {"top_p": 0.01},
    {"top_k": 1, "temperature": 1.7},
]


def sampling():
    model, _ = model_of("gpt2")
    made = []
    for seed, case in enumerate(CASES):
        generator = torch.Generator().manual_seed(seed)
        logits = (2 * torch.randn(VOCABULARY, generator=generator)).bfloat16().float()
        settings = dict(case)
        if settings.pop("tie", False):
            order = logits.argsort(descending=True)
            logits[order[4:10]] = logits[order[6]].item()  # the last of 7 has equals on both sides
        seen = torch.randint(0, VOCABULARY, (1, 12), generator=generator)
        seen[0, :3] = logits.topk(3).indices  # ids that matter, one of them twice
        seen[0, 3] = seen[0, 0]
        banned = logits.topk(2).indices.tolist() if "min_new_tokens" in settings else []
        config = transformers.GenerationConfig(do_sample=True, **({"top_k": 0} | settings), eos_token_id=banned or None)
        model._prepare_special_tokens(config, kwargs_has_attention_mask=True, device="cpu")
        steps = model._get_logits_processor(generation_config=config, input_ids_seq_length=12, device="cpu",
                                            logits_processor=transformers.LogitsProcessorList())
        probabilities = steps(seen, logits[None].clone()).softmax(-1)[0]
        kept = probabilities.nonzero().flatten()
        settings.pop("min_new_tokens", None)
        made.append({"settings": settings, "steps": [type(s).__name__ for s in steps], "seen": seen[0].tolist(), "banned": banned,
                     "logits": logits.tolist(), "kept": kept.tolist(), "probabilities": [round(p, 8) for p in probabilities[kept].tolist()]})
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    differ = 0
    for name, made in {"greedy.json": greedy(), "sampling.json": sampling()}.items():
        text = json.dumps(made, separators=(",", ":")).replace("]},", "]},\n").replace("},{", "},\n{").replace("}],", "}],\n") + "\n"
        if not check:
            (FOLDER / name).write_text(text)
        elif (FOLDER / name).read_text() != text:
            print(f"{name} DIFFERS", file=sys.stderr)
            differ = 1
    return differ


if __name__ == "__main__":
    sys.exit(main())
