"""Folders of models as Hugging Face's library writes them: the tiny models of golden_families.py.

    python golden_hf.py [--check]        needs transformers, beside requirements.txt

Writes hf/FAMILY/ with config.json and model.safetensors (bf16); qwen3 and mixtral in shards with their index. Logits of the
batch `ids` are in families.safetensors. With --check the files are made again and compared byte by byte, config.json
by its keys and values without the version of the library.
"""

import argparse
import json
import pathlib
import tempfile

import torch
from golden_families import EXPERTS, FAMILIES, model_of

FOLDER = pathlib.Path(__file__).parent / "hf"
SHARDS = ("qwen3", "mixtral")  # some experts of a block in one file, some in another


def make(to):
    for family in FAMILIES | EXPERTS:
        model, _ = model_of(family)
        model.to(torch.bfloat16).save_pretrained(to / family, max_shard_size="40KB" if family in SHARDS else "1GB")
        (to / family / "generation_config.json").unlink(missing_ok=True)


def content(path):
    """What has to be equal: any version of the library writes its own into config.json."""
    if path.name != "config.json":
        return path.read_bytes()
    return {key: value for key, value in json.loads(path.read_text()).items() if key != "transformers_version"}


def check(made):
    for folder in sorted(made.iterdir()):
        names = sorted(path.name for path in folder.iterdir())
        assert names == sorted(path.name for path in (FOLDER / folder.name).iterdir()), folder.name
        differ = [name for name in names if content(folder / name) != content(FOLDER / folder.name / name)]
        assert not differ, (folder.name, differ)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        with tempfile.TemporaryDirectory() as scratch:
            make(pathlib.Path(scratch))
            check(pathlib.Path(scratch))
    else:
        make(FOLDER)
