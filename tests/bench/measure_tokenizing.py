"""Text to token ids on one core, beside the library tokenizers, which also trains what is measured."""

import os

from bench_common import Contestant, Failed

LEAST = 1.0  # times the library's rate
MANNERS = ("gpt2", "llama3", "llama2", "t5")


def tokenizing(bench):
    if not bench.peer_python:
        bench.notes.append("tokenizing: the tokenizers are trained by the peer, so it needs the peers' environment")
        return
    folder = bench.build / "bench" / "tokenizing"
    beside = [bench.data.parent / name / "input.txt" for name in ("tinyshakespeare", "war-and-peace")]
    prose = [word for path in beside if path.exists() for word in ("--prose", path)]
    (made,) = bench.once(bench.peer("tokenize_hf.py", "--make", folder, *prose))
    core = ["taskset", "-c", min(os.sched_getaffinity(0))]
    rounds, bench.rounds = bench.rounds, 3
    for manner in MANNERS:
        for text in made["texts"]:
            files = (folder / f"{manner}.json", folder / f"{text}.txt")
            label, seconds = f"tokenizing {text}, {manner}'s manner, one core", bench.seconds / 2
            plait = Contestant("plait", [*core, bench.program("tokenize"), *files, seconds])
            peer = Contestant("tokenizers", [*core, *bench.peer("tokenize_hf.py", *files, "--seconds", seconds)], {"TOKENIZERS_PARALLELISM": "false"})
            if (plait.about["ids"], plait.about["sum"]) != (peer.about["ids"], peer.about["sum"]):
                raise Failed(f"[bench] {label}: the ids differ, {plait.about['ids']} of Plait, {peer.about['ids']} of the library; see {folder}")
            bench.alternate([plait, peer], label)
            name = f"tokenizers {peer.about['tokenizers']}"
            bench.against(label, plait.median("mb_per_s"), "MB/s", name, peer.median("mb_per_s"), LEAST)
    bench.rounds = rounds
