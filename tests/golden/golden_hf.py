"""Folders of models as Hugging Face's library writes them: the tiny models of golden_families.py.

    python golden_hf.py [--check]        needs transformers, beside requirements.txt

Writes hf/FAMILY/ with config.json and model.safetensors (bf16); qwen3 in shards with their index. Logits of the
batch `ids` are in families.safetensors. With --check the files are made again and compared byte by byte.
"""

import filecmp
import pathlib
import sys
import tempfile

import torch
from golden_families import FAMILIES, model_of

FOLDER = pathlib.Path(__file__).parent / "hf"


def make(to):
    for family in FAMILIES:
        model, _ = model_of(family)
        model.to(torch.bfloat16).save_pretrained(to / family, max_shard_size="40KB" if family == "qwen3" else "1GB")
        (to / family / "generation_config.json").unlink(missing_ok=True)


def check(made):
    for folder in sorted(made.iterdir()):
        names = sorted(path.name for path in folder.iterdir())
        assert names == sorted(path.name for path in (FOLDER / folder.name).iterdir()), folder.name
        _, differ, missing = filecmp.cmpfiles(folder, FOLDER / folder.name, names, shallow=False)
        assert not differ and not missing, (folder.name, differ, missing)


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        with tempfile.TemporaryDirectory() as scratch:
            make(pathlib.Path(scratch))
            check(pathlib.Path(scratch))
    else:
        make(FOLDER)
