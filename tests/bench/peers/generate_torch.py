#!/usr/bin/env python3
"""Speed of GPT-2 124M through `generate` of the library transformers, tuned: prints one JSON line.

    generate_torch.py [--dtype f32|bf16] [--mode eager|compile] [--threads 2] [--prompt 256] [--tokens 64] [--rounds 3]

Random weights, greedy, one sequence. eager: the growing cache that `generate` takes by itself; compile: its static cache, with
which it compiles the step of a token. `first_s` is a call for one token, `tokens_per_s` the rate of those behind it.
"""

import argparse
import statistics
import time

from peer_common import import_torch, peak_mib, report, tune_process


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--mode", choices=("eager", "compile"), default="eager")
    for name, value in dict(threads=2, prompt=256, tokens=64, rounds=3).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    o = parser.parse_args()
    tune_process(o.threads)
    torch = import_torch(o.threads)
    import transformers

    torch.manual_seed(0)
    shape = dict(vocab_size=50304, bos_token_id=None, eos_token_id=None, pad_token_id=0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape, attn_implementation="sdpa")).eval()
    model = model.to(torch.bfloat16 if o.dtype == "bf16" else torch.float32)
    ids = torch.randint(0, 50304, (1, o.prompt))
    cache = dict(cache_implementation="static") if o.mode == "compile" else {}

    def seconds(tokens):
        start = time.perf_counter()
        model.generate(ids, do_sample=False, max_new_tokens=tokens, min_new_tokens=tokens, **cache)
        return time.perf_counter() - start

    rounds = []
    with torch.inference_mode():
        seconds(o.tokens)
        seconds(1)
        for _ in range(o.rounds):
            first = seconds(1)
            rounds.append(dict(first_s=round(first, 4), tokens_per_s=round((o.tokens - 1) / (seconds(o.tokens) - first), 2)))
    best = max(rounds, key=lambda r: r["tokens_per_s"])["tokens_per_s"]
    figures = dict(mode=o.mode, dtype=o.dtype, threads=o.threads, torch=torch.__version__, transformers=transformers.__version__)
    median = statistics.median(r["tokens_per_s"] for r in rounds)
    report(**figures, first_s=min(r["first_s"] for r in rounds), tokens_per_s=best, median=median, runs=rounds, peak_mib=peak_mib())


if __name__ == "__main__":
    main()
