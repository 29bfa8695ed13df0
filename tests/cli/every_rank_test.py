"""plait plan --every-rank: all ranks of a job match and finish, on layouts of all kinds; the fullest rank; a row per stage."""

import re
import unittest

from support import Case, TINY

# Column and row shards, extents that two or three ranks do not divide, layers for four stages.
MODEL = TINY.replace("global = 16", "global = 24").replace("steps = 40", "steps = 4")
MODEL = re.sub(r"layers = .*", """layers = [{type = "linear", name = "a", out = 18, parallel = "column"}, {type = "relu"},
  {type = "linear", out = 18, parallel = "row"}, {type = "layer_norm"}, {type = "dropout", p = 0.1},
  {type = "linear", out = 18, parallel = "column"}, {type = "gelu"}, {type = "linear", out = 7, parallel = "row"}, {type = "linear", out = 3}]""", MODEL)

LAYOUTS = (
    *(f"topology.data=3 topology.zero={zero} batch.accumulation=2" for zero in range(4)),
    *(f"topology.data=2 topology.tensor=2 topology.zero={zero} topology.bucket_mib=0.001" for zero in range(4)),
    "topology.tensor=2", "topology.tensor=3 topology.sequence=true", "topology.tensor=2 topology.sequence=true topology.data=2 topology.zero=1",
    "topology.pipeline=2", "topology.pipeline=4 topology.schedule=gpipe batch.accumulation=4",
    "topology.pipeline=3 topology.schedule=zero_bubble batch.accumulation=6",
    "topology.pipeline=2 topology.schedule=interleaved topology.virtual_stages=2 batch.accumulation=4",
    "topology.pipeline=3 topology.schedule=interleaved topology.virtual_stages=3 batch.accumulation=3",
    "topology.pipeline=2 topology.data=2 topology.tensor=2 topology.sequence=true batch.accumulation=3 topology.recompute=stage",
    *(f"topology.pipeline=2 topology.data=2 topology.tensor=3 topology.zero={zero} batch.accumulation=2" for zero in range(4)),
)


class EveryRank(Case):
    def setUp(self):
        super().setUp()
        self.write("t.toml", MODEL)

    def job(self, *words):
        return self.expect(0, "plan", "t.toml", *words, "--every-rank", "--json").records[0]

    def test_layouts(self):
        for layout in LAYOUTS:
            with self.subTest(layout):
                job = self.job(*layout.split())
                grid = job["topology"]
                self.assertEqual(grid["ranks"], grid["pipeline"] * grid["data"] * grid["tensor"])
                self.assertEqual(job["planned_ranks"], grid["pipeline"] * grid["tensor"])
                self.assertEqual(len(job["stages"]), grid["pipeline"])
                self.assertEqual(sum(stage["ranks"] for stage in job["stages"]), grid["ranks"])
                self.assertGreater(job["calls_per_step"]["collectives"], 0)
                self.assertEqual(job["calls_per_step"]["messages"] > 0, grid["pipeline"] > 1)

    def test_figures(self):
        """Those of the rows are what the plans of these ranks say; the fullest is the fullest."""
        layout = ("topology.pipeline=2", "topology.data=2", "topology.tensor=3", "topology.zero=1", "batch.accumulation=4",
                  "checkpoint.every=2")
        job = self.job(*layout)
        plans = [self.expect(0, "plan", "t.toml", *layout, "--rank", rank, "--json").records[0] for rank in range(12)]
        self.assertEqual(job["fullest"]["memory"]["arena"], max(plan["memory"]["arena"] for plan in plans))
        for p, stage in enumerate(job["stages"]):
            plan = plans[stage["rank"]]
            self.assertEqual((stage["pipeline"], stage["stages"], stage["ranks"]), (p, [p], 6))
            self.assertEqual(stage["memory"], plan["memory"])
            self.assertEqual(stage["memory"]["arena"], max(plan["memory"]["arena"] for plan in plans[6 * p:6 * p + 6]))
            for key in ("flops_per_step", "sent_bytes_per_step"):
                self.assertEqual(stage[key], plan[key])
            self.assertEqual(stage["idle_share"], plan["pipeline"]["idle"][p])
        # Each micro-batch goes there and back, on six pipelines.
        self.assertEqual(job["calls_per_step"]["messages"], 4 * 2 * 6)

    def test_text(self):
        out = self.expect(0, "plan", "t.toml", "topology.pipeline=2", "topology.data=2", "batch.accumulation=4", "--every-rank").out
        self.assertRegex(out, r"4 ranks, 2 planned: collectives and messages of all ranks match and finish; \d+ and \d+ in a step")
        self.assertRegex(out, r"fullest rank: \d  \(pipeline \d, data 0, tensor 0\)")
        rows = [line.split() for line in out[out.index("\nstages"):].splitlines()[2:]]
        self.assertEqual([row[0] for row in rows], ["stage", "0", "1"])
        alone = self.expect(0, "plan", "t.toml", "--every-rank").out
        self.assertIn("1 rank, 1 planned", alone)

    def test_refused(self):
        for option in (["--rank", "1"], ["--picture", "out.svg"], ["--ir"]):
            self.fails(2, ["plan", "t.toml", "topology.pipeline=2", "--every-rank", *option], "--every-rank", option[0])
        self.fails(2, ["plan", "t.toml", "topology.tensor=5", "batch.global=1000000007", "batch.micro=3", "--every-rank"], "batch")


if __name__ == "__main__":
    unittest.main()
