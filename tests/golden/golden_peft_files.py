"""Adapters as Hugging Face's library PEFT writes them, over the tiny models of golden_families.py.

    python golden_peft_files.py [--check]        needs requirements_peft.txt

Writes peft/NAME/ with adapter_config.json and adapter_model.safetensors (f32, drawn values), and
peft_files.safetensors: `NAME.logits` f32 (2,24,96), those of the model with the adapter for the
batch `ids` of families.safetensors, computed in float64; virtual tokens stand in place of the first
ids. NAME begins with the family, whose folder
in hf/ is the base. With --check the files are made again: tensors are compared byte by byte, logits
to 1e-6, configurations by keys and values without the version of the library.
"""

import argparse
import json
import pathlib
import tempfile

import torch
from golden_families import batch, model_of
from peft import (AdaLoraConfig, IA3Config, LoraConfig, PrefixTuningConfig, PromptTuningConfig,
                  VeraConfig, get_peft_model)
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).parent
FILE = "peft_files.safetensors"
CASES = {
    # One module holds q, k and v; ranks and factors by pattern; (in, out) weights.
    "gpt2_lora":
    LoraConfig(target_modules=["c_attn", "c_proj"],
               r=4,
               lora_alpha=12,
               fan_in_fan_out=True,
               lora_dropout=0.1,
               rank_pattern={"mlp.c_proj": 2},
               alpha_pattern={"mlp.c_proj": 3}),
    "gpt2_tables":
    LoraConfig(target_modules=["wte", "c_fc"],
               r=3,
               lora_alpha=5,
               fan_in_fan_out=True,
               use_rslora=True),
    "llama_lora":
    LoraConfig(target_modules=["q_proj", "v_proj", "down_proj", "lm_head"],
               r=2,
               lora_alpha=7,
               use_rslora=True),
    # Magnitudes; of GPT-2 three parameters share a vector.
    "gpt2_dora":
    LoraConfig(target_modules=["c_attn", "mlp.c_fc"], r=3, fan_in_fan_out=True, use_dora=True),
    "llama_dora":
    LoraConfig(target_modules=["q_proj", "v_proj", "down_proj"],
               r=2,
               use_dora=True,
               rank_pattern={"down_proj": 4},
               alpha_pattern={"v_proj": 6}),
    # One block alone, chosen by a regular expression.
    "qwen3_lora":
    LoraConfig(target_modules=r".*layers\.1\.(self_attn\.[qk]_proj|mlp\.up_proj)", r=2),
    "phi3_lora":
    LoraConfig(target_modules=["qkv_proj", "gate_up_proj", "o_proj"], r=3),
    # Of the attention of a model with experts.
    "mixtral_lora":
    LoraConfig(target_modules=["q_proj", "v_proj", "o_proj"], r=2, lora_alpha=5),
    # Biases of the base learn as well: of the changed modules, or all, norms included.
    "gpt2_biases":
    LoraConfig(target_modules=["c_attn", "mlp.c_fc"], r=2, fan_in_fan_out=True, bias="lora_only"),
    "gpt2_allbiases":
    LoraConfig(target_modules=["c_attn", "mlp.c_fc"], r=2, fan_in_fan_out=True, bias="all"),
    # Whole modules learn as well: the head, and all norms, whose paths end in "norm".
    "llama_saved":
    LoraConfig(target_modules=["q_proj", "down_proj"], r=2, modules_to_save=["lm_head", "norm"]),
    "gpt2_saved":
    LoraConfig(target_modules=["mlp.c_fc"],
               r=2,
               fan_in_fan_out=True,
               bias="lora_only",
               modules_to_save=["0.attn.c_attn", "ln_f"]),
    # A module that is saved with all biases stands in the file three times.
    "gpt2_savedbiases":
    LoraConfig(target_modules=["mlp.c_fc"], r=2, fan_in_fan_out=True, bias="all", modules_to_save=["ln_f"]),
    # Before ranks have gone, and behind that: those in RANKS are left.
    "llama_adalora":
    AdaLoraConfig(target_modules=["q_proj", "down_proj"],
                  init_r=4,
                  target_r=2,
                  lora_alpha=6,
                  tinit=3,
                  tfinal=5,
                  deltaT=2,
                  beta1=0.8,
                  orth_reg_weight=0.25,
                  total_step=40),
    "llama_pruned":
    AdaLoraConfig(target_modules=["q_proj", "v_proj", "down_proj"],
                  init_r=4,
                  target_r=2,
                  lora_alpha=6,
                  total_step=40),
    "gpt2_adalora":
    AdaLoraConfig(target_modules=["c_attn", "mlp.c_proj"],
                  init_r=3,
                  target_r=2,
                  lora_dropout=0.1,
                  fan_in_fan_out=True,
                  total_step=40),
    "gpt2_prompt":
    PromptTuningConfig(num_virtual_tokens=4),
    "gpt2_prefix":
    PrefixTuningConfig(num_virtual_tokens=4),
    # Of a module that holds q, k and v, and of products of other sizes.
    "gpt2_vera":
    VeraConfig(target_modules=["c_attn", "mlp.c_proj"], r=3, fan_in_fan_out=True),
    "llama_vera":
    VeraConfig(target_modules=["q_proj", "v_proj", "down_proj"], r=3, vera_dropout=0.1),
    "llama_ia3":
    IA3Config(target_modules=["k_proj", "v_proj", "down_proj"], feedforward_modules=["down_proj"]),
    "gpt2_ia3":
    IA3Config(target_modules=["c_attn", "mlp.c_proj"],
              feedforward_modules=["mlp.c_proj"],
              fan_in_fan_out=True),
}


# Which of the first ranks of a module are left: what its path ends in, and their numbers.
RANKS = {"0.self_attn.q_proj": [0, 2], "1.self_attn.q_proj": [3], "1.self_attn.v_proj": []}


def prune(model, config):
    """As the library's allocator leaves a model: values are 0, and rank_pattern says which."""
    config.rank_pattern = {}
    for name, e in model.base_model.model.named_parameters():
        if "lora_E" not in name:
            continue
        left = next((ids for end, ids in RANKS.items() if end in name), range(len(e)))
        mask = [i in left for i in range(len(e))]
        e.data[[not one for one in mask]] = 0
        config.rank_pattern[name] = mask


def adapted(name):
    """The library's model in float64; the adapter's values are exact in f32."""
    base, _ = model_of(name.split("_")[0])
    config = CASES[name]
    config.task_type = "CAUSAL_LM"
    model = get_peft_model(base, config).eval()
    generator = torch.Generator().manual_seed(4321)
    for own, p in sorted(model.named_parameters()):
        if p.requires_grad and "ranknum" not in own:
            drawn = 0.2 * torch.randn(p.shape, generator=generator)
            p.data.copy_(drawn + 1 if "ia3" in own or "vera_lambda" in own else p.data *
                         (1 + drawn) if "magnitude" in own else p.data + drawn if "lora_" not in
                         own and "prompt" not in own else drawn)
    if "pruned" in name:
        prune(model, model.peft_config["default"])
    return model


def make(to):
    ids, _ = batch()
    logits = {}
    for name in CASES:
        model = adapted(name)
        with torch.no_grad():
            # Virtual tokens stand in front.
            behind = ids[:, getattr(CASES[name], "num_virtual_tokens", 0):]
            logits[f"{name}.logits"] = model(input_ids=behind).logits.float().contiguous()
        folder = to / "peft" / name
        model.float().save_pretrained(folder)
        (folder / "README.md").unlink(missing_ok=True)
        path = folder / "adapter_config.json"
        config = json.loads(path.read_text())
        config["base_model_name_or_path"] = None
        for key in ("target_modules", "feedforward_modules"):  # sets
            if isinstance(config.get(key), list):
                config[key].sort()
        path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    save_file(logits, to / FILE)


def without_version(path):
    config = json.loads(path.read_text())
    config.pop("peft_version", None)
    return config


def check(made):
    for name in CASES:
        new, old = made / "peft" / name, HERE / "peft" / name
        assert without_version(new / "adapter_config.json") == without_version(
            old / "adapter_config.json"), name
        weights = "adapter_model.safetensors"
        assert (new / weights).read_bytes() == (old / weights).read_bytes(), name
    new, old = load_file(made / FILE), load_file(HERE / FILE)
    assert new.keys() == old.keys()
    for name, values in new.items():
        error = (values - old[name]).abs().max().item()
        assert error < 1e-6, (name, error)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        with tempfile.TemporaryDirectory() as scratch:
            make(pathlib.Path(scratch))
            check(pathlib.Path(scratch))
    else:
        make(HERE)
