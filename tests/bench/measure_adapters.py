"""LoRA beside a frozen GPT-2 124M: tokens/s and memory, beside the library peft on PyTorch, and with a base of 4 bits."""

import os

from bench_common import Contestant
from measure_language import MODELS, memory, token_file, torch_peers
from measure_speed import note_cpus, train

RANK = 16
NAME = "GPT-2 124M, B4 T256"
ADAPTERS = (f'model.adapters=[{{type="lora", match=["model.h*.attn.*.weight", "model.h*.mlp.*.weight"], '
            f"rank={RANK}, alpha={RANK}}}]")
SPEED, MEMORY = 1.2, 0.6  # of the peer's best and least
FROZEN = {"f32": "master", "bf16": "compute"}


def adapters(bench):
    kept, bench.rounds = bench.rounds, 3
    try:
        for dtype in FROZEN:
            beside_peft(bench, dtype)
    finally:
        bench.rounds = kept


def contestant(bench, model, threads, seconds, dtype, frozen):
    data = [f"data.train.path={token_file(bench, model['vocabulary'])}", f"data.train.length={model['length']}"]
    return train(bench, f"plait, frozen {frozen}", model["file"], threads, seconds, *data, f"batch.global={model['batch']}",
                 f"precision.compute={dtype}", f"precision.frozen={frozen}", ADAPTERS)


def beside_peft(bench, dtype):
    threads, seconds = len(os.sched_getaffinity(0)), 3 * bench.seconds
    model = MODELS[NAME]
    label, tokens = f"LoRA {RANK} of {NAME}, {dtype}", model["batch"] * model["length"]
    plait = contestant(bench, model, threads, seconds, dtype, FROZEN[dtype])
    numbers = contestant(bench, model, threads, seconds, dtype, "nf4")
    peers = torch_peers(bench, model, dtype, threads, seconds, "--lora", RANK)
    bench.alternate([plait, numbers, *peers], label)
    rate = tokens * plait.median("steps_per_s")
    best = max(peers, key=lambda p: p.median("tokens_per_s")) if peers else None
    if best:
        bench.against(label, rate, "tokens/s", f"peft, {best.name} ({best.about['variant']})", best.median("tokens_per_s"), SPEED)
    else:
        bench.row(label, rate, "tokens/s")
    note_cpus(bench, label, [plait, *peers], threads)
    memory(bench, label, plait, peers, MEMORY)
    bench.row(f"{label}, base of nf4", tokens * numbers.median("steps_per_s"), "tokens/s", f"frozen {FROZEN[dtype]}", rate,
              tokens * numbers.median("steps_per_s") / rate)
    memory(bench, f"{label}, base of nf4", numbers, peers, MEMORY)
