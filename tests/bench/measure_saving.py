"""The cost of checkpoints: the time of a run that saves, compared with a run that doesn't."""

import json
import pathlib

from bench_common import Failed
from measure_parallel import rounds
from parallel.ranks import PlaitRun

EVERY = 10  # steps
BAR = 1.05  # of the time without


class WholeRun(PlaitRun):
    """The mean time from the end of one step to the end of another, with all that happens in between."""

    def measure(self, done):
        (metrics,) = pathlib.Path(self.folder).rglob("metrics.ndjson")
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
        ended = {line["step"]: line["elapsed_s"] for line in lines if "loss" in line}
        saves = sum(line.get("event") == "checkpoint" for line in lines)
        last = max(ended)
        return {"ms": 1e3 * (ended[last] - ended[self.skip]) / (last - self.skip), "saves": saves}


def saving(bench):
    if not (bench.build / "bin" / "plait").exists():
        bench.notes.append("saving: there is no plait in this build's bin/, so its figures are left out")
        return
    model, saves = bench.experiment("wide_ranks"), 1 if bench.quick else 3

    def run(name, *settings):
        # Half of the steps between two saves come before the first, half after the last: there is time for all to be written.
        return WholeRun(bench, name, model, saves * EVERY, EVERY // 2, *settings)

    never = run("never")
    behind = run("in the background", f"checkpoint.every={EVERY}")
    before = run("steps wait", f"checkpoint.every={EVERY}", "checkpoint.background=false")
    rounds(bench, [never, behind, before], "saving")
    if (behind.median("saves"), before.median("saves")) != (saves, saves):
        raise Failed(f"[bench] saving: expected {saves} checkpoints of each run, see the rounds")
    none = never.median("ms")
    for c, bar in ((behind, BAR), (before, None)):
        ratio = c.median("ms") / none
        label = f"wide MLP, a checkpoint every {EVERY} steps, {c.name}: step"
        met = None if bar is None else ratio <= bar
        bench.row(label, c.median("ms"), "ms", "without", none, ratio, f"<= {bar}" if bar else "", met)
