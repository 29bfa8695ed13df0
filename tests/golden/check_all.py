#!/usr/bin/env python3
"""Every check against the libraries that define what is right; each line tells how one ended.

    python check_all.py PLAIT [--quick] [--only NAME...]

Needs ../bench/peers/requirements.txt, requirements_chat.txt, requirements_peft.txt,
requirements_tokenizers.txt and Pillow. With --quick the random models and texts are few.
"""

import argparse
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent


def commands(plait, quick):
    """Of each its name and words: values made again, then plait beside the libraries."""
    again = {
        name: [f"{name}.py", "--check"]
        for name in ("make_golden", "golden_families", "golden_greedy", "golden_hf", "golden_hf_defaults",
                     "golden_tokenizers", "golden_chat", "golden_images", "golden_float8",
                     "golden_nf4", "golden_datasets", "golden_peft", "golden_peft_files",
                     "golden_peft_defaults", "golden_prompts")
    }
    return again | {
        "check_hf": ["check_hf.py", plait, *(["--models", "9"] if quick else [])],
        "check_peft": ["check_peft.py", plait, *(["--models", "9"] if quick else [])],
        "check_curves": ["check_curves.py", plait, *(["--only", "gpt2", "llama"] if quick else [])],
        "check_tokenizers": ["check_tokenizers.py", plait, *(["--texts", "2000"] if quick else [])]
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plait", type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="*", default=[])
    a = parser.parse_args()
    failed = 0
    for name, words in commands(a.plait, a.quick).items():
        if a.only and name not in a.only:
            continue
        start = time.monotonic()
        done = subprocess.run([sys.executable, *words], cwd=HERE, capture_output=True, text=True)
        said = (done.stdout + done.stderr).strip().splitlines()
        failed += done.returncode != 0
        print(
            f"{name}: {'ok' if done.returncode == 0 else f'FAILED ({done.returncode})'}, "
            f"{time.monotonic() - start:.0f} s",
            flush=True)
        for line in said[-1:] if done.returncode == 0 else said[-20:]:
            print(f"    {line}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
