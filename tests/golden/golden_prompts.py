"""Golden virtual tokens: prompt tuning and prefix tuning of the library PEFT over the tiny GPT-2 of
golden_families.py, 20 steps of AdamW in float64.

    python golden_prompts.py [--check]        needs requirements_peft.txt

Case NAME of prompts.safetensors holds `init.PARAMETER` and `final.PARAMETER`, PARAMETER being
Plait's full name; `losses` (20), each before its update; `logits` (2,20,96) behind the virtual
tokens, after the last one. Case `batch` has `ids` and `labels` (2,20), of the tokens behind
the virtual ones.
"""

import pathlib
import sys

import torch
import torch.nn.functional as F
from golden_data import Golden, Inputs, write_or_check
from golden_families import batch, model_of
from peft import PrefixTuningConfig, PromptTuningConfig, get_peft_model

N, T, STEPS = 4, 20, 20  # virtual tokens, tokens behind them
ADAMW = dict(lr=0.05, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.05)


def soft_prompt(weight, layers):
    return {"model.embed.weight.soft_prompt.vectors": weight}


def prefix(weight, layers):
    """A row of the library's table: keys and values of each layer in turn."""
    parts = weight.chunk(2 * layers, dim=1)
    return {f"model.h{i // 2}.attn.{'kv'[i % 2]}.weight.prefix.vectors": part
            for i, part in enumerate(parts)}


CASES = {
    "soft_prompt": (PromptTuningConfig, soft_prompt, ["model.embed.weight"]),
    "prefix": (PrefixTuningConfig, prefix, ["model.h*.attn.k.weight", "model.h*.attn.v.weight"]),
}


def make():
    golden = Golden()
    ids, labels = (x[:, :T] for x in batch())
    golden.add("batch", {"adamw": dict(ADAMW, betas=list(ADAMW["betas"]))},
               {"ids": ids, "labels": labels})
    for case, (config, split, match) in CASES.items():
        base, of_base = model_of("gpt2")
        model = get_peft_model(base, config(task_type="CAUSAL_LM", num_virtual_tokens=N)).double()
        weight, = (p for p in model.parameters() if p.requires_grad)
        weight.data = torch.tensor(Inputs(11).normal(*weight.shape, scale=0.5))
        named = lambda when: {f"{when}.{name}": part.detach().clone().contiguous()
                              for name, part in split(weight, of_base.n_layer).items()}
        tensors, losses = named("init"), []
        optimizer = torch.optim.AdamW([weight], **ADAMW)
        logits = lambda: model(input_ids=ids).logits[:, -T:]
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = F.cross_entropy(logits().flatten(0, 1), labels.flatten(), ignore_index=-100)
            loss.backward()
            losses.append(loss.item())
            optimizer.step()
        tensors |= named("final")
        tensors["losses"] = torch.tensor(losses, dtype=torch.float64)
        tensors["logits"] = logits().detach()
        golden.add(case, {"adapter": dict(type=case, match=match, n_tokens=N)}, tensors)
    return golden


if __name__ == "__main__":
    sys.exit(write_or_check(make, pathlib.Path(__file__).resolve().parent / "prompts.safetensors", __doc__.splitlines()[0]))
