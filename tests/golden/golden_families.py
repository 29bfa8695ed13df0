"""Golden transformers: tiny models of every family, as Hugging Face's library computes them in float64.

Of each family: 2 blocks, width 32, vocabulary 96, parameters that avoid every default, and one batch of
2 x 24 tokens. Initial values of the library would hide mistakes (a wrong theta moves logits by 1e-4), so
all are drawn anew; they are exact in bf16. Attention is the library's own plain code ("eager").

`families.safetensors` holds `ids` and `labels` (2,24; shifted: position t has the token of t + 1, or -100)
and of each FAMILY, in Plait's names and layouts (q, k, v and gate, up apart, (out, in)):
`FAMILY/NAME` bf16, `FAMILY.grad/NAME` f32 (computed in f64), `FAMILY.logits` f32 (2,24,96), `FAMILY.loss` f64 ().

Of each SCALING of rotary positions, 8 pairs of channels: `rope.SCALING/frequency` f32 (8) and `rope.SCALING/amplitude` f64 ().

    python golden_families.py [--check]      needs transformers, beside requirements.txt
"""

import argparse
import pathlib

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

FILE = pathlib.Path(__file__).parent / "families.safetensors"
BASE = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=64, rms_norm_eps=1e-4, bos_token_id=None, eos_token_id=None, pad_token_id=None,
            rope_parameters=dict(rope_theta=500.0, rope_type="default"))
LLAMA3 = dict(rope_theta=500.0, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)
GEMMA = dict(head_dim=16, sliding_window=8, query_pre_attn_scalar=24, tie_word_embeddings=True)

FAMILIES = {
    "gpt2": (transformers.GPT2Config, dict(
        vocab_size=96, n_embd=32, n_layer=2, n_head=4, n_positions=64, layer_norm_epsilon=1e-4, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, bos_token_id=None, eos_token_id=None)),
    "llama": (transformers.LlamaConfig, BASE | dict(rope_parameters=LLAMA3)),
    "mistral": (transformers.MistralConfig, BASE | dict(head_dim=16, sliding_window=8)),
    "qwen2": (transformers.Qwen2Config, BASE | dict(tie_word_embeddings=True)),
    "qwen3": (transformers.Qwen3Config, BASE | dict(head_dim=16)),
    "gemma2": (transformers.Gemma2Config, BASE | GEMMA | dict(attn_logit_softcapping=2.0, final_logit_softcapping=5.0)),
    "gemma3": (transformers.Gemma3TextConfig, BASE | GEMMA | dict(
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters=dict(sliding_attention=dict(rope_theta=500.0, rope_type="default"),
                             full_attention=dict(rope_theta=5000.0, rope_type="default")))),
    "phi3": (transformers.Phi3Config, BASE | dict(
        rope_parameters=dict(rope_theta=500.0, rope_type="default", partial_rotary_factor=0.5))),
    "olmo2": (transformers.Olmo2Config, BASE),
}


def longrope(original):
    """Phi-3 whose angles are others beyond `original` tokens. The library reads this key beside the rotary parameters, too."""
    parameters = dict(rope_type="longrope", rope_theta=500.0, factor=4.0, original_max_position_embeddings=original,
                      short_factor=[1.0, 1.25, 1.5, 1.75], long_factor=[1.5, 3.0, 5.0, 8.0])
    return transformers.Phi3Config, BASE | dict(original_max_position_embeddings=original, rope_parameters=parameters)


# Samples of 24 tokens, the longest that have short factors, and the shortest that have long ones.
BY_LENGTH = {"phi3_short": longrope(24), "phi3_long": longrope(23)}

# Four experts, of which each token has two; two of the families make the weights of the two add up to 1.
EXPERTS = {
    "mixtral": (transformers.MixtralConfig, BASE | dict(num_local_experts=4, num_experts_per_tok=2)),
    "qwen3_moe": (transformers.Qwen3MoeConfig, BASE | dict(
        head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, norm_topk_prob=True)),
    "olmoe": (transformers.OlmoeConfig, BASE | dict(num_key_value_heads=4, num_experts=4, num_experts_per_tok=2)),
}

YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=64)
SCALINGS = {  # name: (parameters, tokens of a sample)
    "none": (None, 64),
    "linear": (dict(rope_type="linear", rope_theta=500.0, factor=4.0), 64),
    "llama3": (dict(LLAMA3, original_max_position_embeddings=64), 64),
    "yarn": (YARN, 64),
    "yarn_mscale": (dict(YARN, beta_fast=16.0, beta_slow=2.0, mscale=0.7, mscale_all_dim=1.3), 64),
    "longrope_short": (None, 64),
    "longrope_long": (None, 65),
}
LONGROPE = dict(rope_type="longrope", rope_theta=500.0, factor=4.0, original_max_position_embeddings=64,
                short_factor=[1 + 0.125 * i for i in range(8)], long_factor=[1 + 0.5 * i for i in range(8)])


def scalings():
    """Pairs (name of a scaling, (frequencies, amplitude)), as the library computes them; "none" is in no table of it."""
    for name, (parameters, tokens) in SCALINGS.items():
        if name == "none":
            yield name, (1.0 / 500.0 ** (torch.arange(0, 16, 2).float() / 16), 1.0)
            continue
        parameters = parameters or LONGROPE
        config = transformers.LlamaConfig(**BASE | dict(head_dim=16, max_position_embeddings=256, rope_parameters=parameters))
        yield name, ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config, "cpu", seq_len=tokens)


def model_of(family):
    kind, values = (FAMILIES | BY_LENGTH | EXPERTS)[family]
    config = kind(**values)
    config._attn_implementation = config._experts_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    generator = torch.Generator().manual_seed(1234)
    for name, p in sorted(model.named_parameters()):
        r = torch.randn(p.shape, generator=generator)
        if p.dim() == 1:
            value = 0.1 * r if name.endswith("bias") else p + 0.2 * r
        elif any(word in name for word in ("wte", "wpe", "embed")):
            value = 0.18 * r
        else:
            value = r * p.shape[-2 if ".c_" in name else -1] ** -0.5
        p.data.copy_(value.bfloat16())
    return model.double(), config


def batch():
    ids = torch.randint(0, 96, (2, 24), generator=torch.Generator().manual_seed(7))
    labels = torch.randint(0, 96, (2, 24), generator=torch.Generator().manual_seed(8))
    labels[0, :5] = -100
    return ids, labels


def plait_names(family, config, name, t):
    """Pairs (Plait's name, tensor) of one tensor of the library, a parameter or its gradient."""
    for prefix in ("transformer.", "model."):
        name = name.removeprefix(prefix)
    top = {"wte.weight": "embed.weight", "wpe.weight": "positions.weight", "embed_tokens.weight": "embed.weight",
           "ln_f.weight": "norm.gain", "ln_f.bias": "norm.bias", "norm.weight": "norm.gain", "lm_head.weight": "head.weight"}
    if name in top:
        return [(top[name], t)]
    _, index, rest = name.split(".", 2)
    module, kind = rest.rsplit(".", 1)
    if module == "mlp.experts":  # (experts, rows, columns)
        names = ("gate", "up") if kind == "gate_up_proj" else ("down",)
        return [(f"h{index}.mlp.{n}.weight", part) for n, part in zip(names, t.chunk(len(names), 1))]
    if module.endswith("c_attn") or module.endswith("c_proj") or module.endswith("c_fc"):
        t = t.T if t.dim() == 2 else t  # Conv1D stores (in, out)
    d = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    heads, groups = config.num_attention_heads * d, (getattr(config, "num_key_value_heads", None) or config.num_attention_heads) * d
    split = {"attn.c_attn": (("attn.q", "attn.k", "attn.v"), (heads, heads, heads)),
             "self_attn.qkv_proj": (("attn.q", "attn.k", "attn.v"), (heads, groups, groups)),
             "mlp.gate_up_proj": (("mlp.gate", "mlp.up"), (t.shape[0] // 2,) * 2)}
    if module in split:
        names, sizes = split[module]
        return [(f"h{index}.{n}.{kind}", part) for n, part in zip(names, t.split(sizes))]
    gemma, olmo = family.startswith("gemma"), family == "olmo2"
    one = {"ln_1": "attn_norm", "ln_2": "mlp_norm", "attn.c_proj": "attn.out", "mlp.c_fc": "mlp.up", "mlp.c_proj": "mlp.down",
           "input_layernorm": "attn_norm", "self_attn.o_proj": "attn.out", "pre_feedforward_layernorm": "mlp_norm",
           "post_attention_layernorm": "attn_post_norm" if gemma or olmo else "mlp_norm",
           "post_feedforward_layernorm": "mlp_post_norm"}
    one |= {f"self_attn.{c}_proj": f"attn.{c}" for c in "qkv"} | {f"self_attn.{c}_norm": f"attn.{c}_norm" for c in "qk"}
    one |= {f"mlp.{c}_proj": f"mlp.{c}" for c in ("gate", "up", "down")}
    one["mlp.gate"] = "mlp.router"
    norm = one[module].endswith("norm")
    return [(f"h{index}.{one[module]}.{'gain' if norm and kind == 'weight' else kind}", t)]


def make():
    ids, labels = batch()
    shifted = torch.cat([labels[:, 1:], torch.full((2, 1), -100)], 1)
    tensors = {"ids": ids.int(), "labels": shifted.int()}
    for name, (frequency, amplitude) in scalings():
        tensors[f"rope.{name}/frequency"] = frequency.float()
        tensors[f"rope.{name}/amplitude"] = torch.tensor(amplitude, dtype=torch.float64)
    for family in FAMILIES | BY_LENGTH | EXPERTS:
        model, config = model_of(family)
        out = model(input_ids=ids, labels=labels)
        out.loss.backward()
        tensors[f"{family}.loss"] = out.loss.detach()
        tensors[f"{family}.logits"] = out.logits.detach().float()
        for name, p in model.named_parameters():
            for ours, part in plait_names(family, config, name, p.detach()):
                tensors[f"{family}/{ours}"] = part.bfloat16().contiguous()
            for ours, part in plait_names(family, config, name, p.grad):
                tensors[f"{family}.grad/{ours}"] = part.float().contiguous()
    return tensors


def check(made):
    """To 2e-6: the library rounds its cosines to f32 whatever the model's type, and their last digit is the processor's."""
    stored = load_file(FILE)
    assert stored.keys() == made.keys(), stored.keys() ^ made.keys()
    for name, value in made.items():
        torch.testing.assert_close(stored[name], value, rtol=1e-5, atol=2e-6, msg=lambda m: f"{name}: {m}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        check(make())
    else:
        save_file(make(), FILE, metadata={"transformers": transformers.__version__})
