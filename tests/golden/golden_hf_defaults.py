"""What Hugging Face's library takes for a key that a config.json leaves out, for each family and key.

    python golden_hf_defaults.py [--check]        needs transformers, beside requirements.txt

Writes hf_defaults.json: a list of cases. Each is the config.json of hf/FAMILY with the keys of `set` (null: without the key), and with `key`
left out, which then has `value` in the library; `other` is another value of the key, with which the model is another one. With --check the
cases are made again and compared.
"""

import json
import pathlib
import sys

from transformers import AutoConfig

import case_file

HERE = pathlib.Path(__file__).parent
FILE = HERE / "hf_defaults.json"
ROPE = {"rope_parameters": None}
WINDOW = {"sliding_window": 8, "use_sliding_window": True, "layer_types": None}
EVERYWHERE = ("gpt2", "llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "olmo2", "mixtral", "qwen3_moe", "olmoe")
ROTATING = EVERYWHERE[1:]
CASES = (  # the key, the families that read it, what is set before
    ("layer_norm_epsilon", ("gpt2",), {}),
    ("rms_norm_eps", ROTATING, {}),
    ("tie_word_embeddings", EVERYWHERE, {}),
    ("activation_function", ("gpt2",), {}),
    ("hidden_activation", ("gemma2", "gemma3"), {}),
    ("hidden_act", tuple(f for f in ROTATING if f not in ("gemma2", "gemma3")), {}),
    ("n_inner", ("gpt2",), {}),
    ("attn_pdrop", ("gpt2",), {}),
    ("resid_pdrop", ("gpt2", "phi3"), {}),
    ("embd_pdrop", ("gpt2", "phi3"), {}),
    ("attention_dropout", ROTATING, {}),
    ("attention_bias", ("llama", "qwen3", "gemma2", "gemma3", "olmo2", "qwen3_moe", "olmoe"), {}),
    ("mlp_bias", ("llama",), {}),
    ("rope_theta", ROTATING, ROPE),
    ("rope_local_base_freq", ("gemma3",), ROPE),
    ("sliding_window", ("mistral", "phi3", "gemma2", "gemma3", "mixtral"), {}),
    ("sliding_window", ("qwen2", "qwen3", "qwen3_moe"), {"use_sliding_window": True, "layer_types": None, "max_window_layers": 0}),
    ("use_sliding_window", ("qwen2", "qwen3", "qwen3_moe"), {"sliding_window": 8, "layer_types": None, "max_window_layers": 0}),
    ("max_window_layers", ("qwen2", "qwen3"), WINDOW),
    ("sliding_window_pattern", ("gemma3",), {"layer_types": None, "_sliding_window_pattern": None}),
    ("query_pre_attn_scalar", ("gemma2", "gemma3"), {}),
    ("attn_logit_softcapping", ("gemma2",), {}),
    ("final_logit_softcapping", ("gemma2", "gemma3"), {}),
    ("clip_qkv", ("olmoe",), {}),
    ("num_local_experts", ("mixtral", "qwen3_moe"), {}),
    ("num_experts", ("olmoe",), {}),
    ("num_experts_per_tok", ("mixtral", "qwen3_moe", "olmoe"), {}),
    ("norm_topk_prob", ("qwen3_moe", "olmoe"), {}),
    ("router_aux_loss_coef", ("mixtral", "qwen3_moe", "olmoe"), {"output_router_logits": True}),
    ("output_router_logits", ("mixtral", "qwen3_moe", "olmoe"), {"router_aux_loss_coef": 0.25}),
    ("decoder_sparse_step", ("qwen3_moe",), {}),
    ("moe_intermediate_size", ("qwen3_moe",), {}),
    ("num_key_value_heads", ROTATING, {}),
    ("head_dim", ("llama", "mistral", "qwen3", "gemma2", "gemma3", "mixtral"), {}),
)


def default_of(config, key):
    """The value that the library has for a key that the config.json does not have."""
    made = AutoConfig.for_model(**config)
    rope = getattr(made, "rope_parameters", None) or {}
    if key == "rope_theta":
        return rope.get("full_attention", rope)["rope_theta"]
    if key == "rope_local_base_freq":
        return rope["sliding_attention"]["rope_theta"]
    if key == "sliding_window_pattern":
        return made._sliding_window_pattern
    if key == "n_inner":
        return made.n_inner or 4 * made.n_embd
    return getattr(made, key)


def other_than(key, value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return "gelu" if value != "gelu" else "silu"
    if key.endswith(("pdrop", "dropout")):
        return 0.25
    if isinstance(value, int):
        return 1 if value != 1 else 2
    if value is None:
        return 4 if key == "head_dim" else 8
    return 2 * value if value else 0.5


def cases():
    found = []
    for key, families, changes in CASES:
        for family in families:
            config = json.loads((HERE / "hf" / family / "config.json").read_text())
            for name, value in changes.items():
                config.pop(name, None)
                if value is not None:
                    config[name] = value
            config.pop(key, None)
            config.pop("transformers_version")
            value = default_of(config, key)
            found.append({"family": family, "key": key, "set": changes, "value": value, "other": other_than(key, value)})
    return found


if __name__ == "__main__":
    sys.exit(case_file.main(FILE, cases, __doc__))
