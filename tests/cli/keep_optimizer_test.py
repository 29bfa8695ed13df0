"""checkpoint.keep_optimizer: older checkpoints without the optimizer's states, as every verb takes them."""

import unittest

from support import TINY, RankCase

GRID = ["topology.data=2", "topology.tensor=2", "topology.zero=1", "model.layers[0].parallel=column", "model.layers[3].parallel=row"]
KEYS = ["-q", "run.steps=12", "checkpoint.every=3", "checkpoint.keep=9", "checkpoint.keep_optimizer=2"]
ADAPTER = """
[[model.adapters]]
type = "lora"
match = ["model.linear*.weight"]
rank = 2
"""


def step(run, n):
    return f"{run}/ckpt/step-{n:010}"


class KeepOptimizer(RankCase):
    def listed(self, place):
        return {c["step"]: c for c in self.expect(0, "checkpoint", "ls", place, "--json").records[0]["checkpoints"]}

    def test_listed_and_verified(self):
        for run, words in (("one", []), ("grid", GRID)):
            self.expect(0, "run", "t.toml", "--run-dir", run, *KEYS, *words)
            found = self.listed(run)
            self.assertEqual({n: (c["state"], c["parameters"], c["states"], c["states_left_out"]) for n, c in found.items()},
                             {**{n: ("complete", 4, 8, False) for n in (12, 9)}, **{n: ("complete", 4, 0, True) for n in (6, 3)}})
            self.assertLess(found[6]["bytes"], found[9]["bytes"] - 8 * 195)
            self.assertFalse(list((self.folder / step(run, 6)).glob("*optimizer*")))
            lines = {line.split()[0]: line for line in self.expect(0, "checkpoint", "ls", run).out.splitlines() if "step-" in line}
            for n in found:
                self.assertEqual("optimizer states left out" in lines[f"step-{n:010}"], n < 9, lines)
            self.assertIn("latest", lines["step-0000000012"])
            done = self.expect(0, "checkpoint", "verify", run)
            self.assertEqual(done.out.count(", optimizer states left out\n"), 2)
            self.assertIn(f"{step(run, 3)}: intact, 4 tensors, ", done.out)
            records = self.expect(0, "checkpoint", "verify", run, "--json").records[:-1]
            self.assertEqual([r["states_left_out"] for r in records], [False, False, True, True])
            one = self.expect(0, "checkpoint", "ls", step(run, 6))
            self.assertIn("optimizer states left out", one.out)
            self.assertNotIn("model.linear1.weight.m ", one.out)

    def test_it_serves_for_all_but_continuing(self):
        self.expect(0, "run", "t.toml", "--run-dir", "all", *KEYS[:-1])
        self.expect(0, "run", "t.toml", "--run-dir", "some", *KEYS)
        old = step("some", 6)
        diff = self.expect(1, "checkpoint", "diff", step("all", 6), old, "--json").records[-1]
        self.assertEqual((diff["state"], diff["changed"], len(diff["only_a"]), diff["only_b"]), ([], [], 8, []))
        self.expect(0, "checkpoint", "diff", step("all", 6), old, "--only", "parameters")
        loss = [self.expect(0, "eval", "t.toml", "--checkpoint", step(run, 6), "--json").records[-1]["loss"] for run in ("all", "some")]
        self.assertEqual(loss[0], loss[1])
        for run in ("all", "some"):
            self.expect(0, "export", step(run, 6), f"{run}.safetensors")
        self.assertEqual((self.folder / "all.safetensors").read_bytes(), (self.folder / "some.safetensors").read_bytes())
        self.expect(0, "checkpoint", "convert", old, "again")
        self.assertIn("optimizer states left out", self.expect(0, "checkpoint", "ls", "again").out)
        self.expect(0, "predict", "some", "--checkpoint", old, "--to", "p.csv")
        self.expect(0, "run", "t.toml", f"model.load={old}", "run.steps=1", "--run-dir", "loaded", "-q")

    def test_a_run_that_would_continue_is_told_from_what(self):
        self.expect(0, "run", "t.toml", "--run-dir", "r", *KEYS)
        old = step("r", 6)
        told = self.fails(2, ["run", "t.toml", "--run-dir", "next", f"run.from={old}", "run.steps=15"],
                          f"{old}' lacks optimizer states (left out by checkpoint.keep_optimizer, or by the command that wrote it), "
                          "so no run can continue from it exactly; start a new run with run.from = \"",
                          f"{step('r', 12)}\", the newest one that has them, or with model.load = \"", f"{old}\", its weights alone")
        self.assertFalse((self.folder / "next").exists())
        # What it says works.
        path = told.err.split('run.from = "')[1].split('"')[0]
        self.expect(0, "run", "t.toml", "--run-dir", "next", f"run.from={path}", "run.steps=15", "-q")
        # Resumed with the newest ones gone, there is none that could continue.
        for n in (12, 9):
            (self.folder / step("r", n) / "MANIFEST.json").unlink()
        told = self.fails(2, ["run", "t.toml", "--run-dir", "r", "--resume", "must", "run.steps=15"],
                          f"'{old}' lacks optimizer states", f"start a new run with model.load = \"{old}\"")
        self.assertNotIn("run.from", told.err)
        self.assertEqual(sorted(self.listed("r")), [3, 6, 9, 12])

    def test_the_best_one_is_evaluated(self):
        self.expect(0, "run", "t.toml", "--run-dir", "r", "-q", "run.steps=12", "evaluate.every=3", "checkpoint.best=loss",
                    "checkpoint.keep=1", "checkpoint.keep_optimizer=1", "optimizer.learning_rate=1.0")
        best = (self.folder / "r/ckpt/best").read_text().strip()
        found = {c["name"]: c for c in self.listed("r").values()}
        self.assertEqual(found[best]["states_left_out"], best != "step-0000000012")
        self.assertLess(best, "step-0000000012")  # else the test shows nothing
        self.assertIn("best, optimizer states left out", self.expect(0, "checkpoint", "ls", "r").out)
        self.expect(0, "eval", "t.toml", "--checkpoint", "r/ckpt/best")
        self.fails(2, ["run", "t.toml", "run.from=r/ckpt/best", "--run-dir", "next"], "the newest one that has them")

    def test_adapters_and_a_merge(self):
        self.write("lora.toml", TINY + ADAPTER)
        self.expect(0, "run", "lora.toml", "--run-dir", "r", *KEYS)
        old = step("r", 6)
        found = self.expect(0, "adapters", "ls", old, "--json").records[-1]["checkpoints"]
        self.assertEqual([a["name"] for a in found[0]["adapters"]], ["lora"])
        self.expect(0, "merge", "lora.toml", "--from", old, "--to", "alone")
        before = self.expect(0, "eval", "lora.toml", "--checkpoint", old, "--json").records[-1]["loss"]
        after = self.expect(0, "eval", "alone", "--json").records[-1]["loss"]
        self.assertAlmostEqual(after, before, delta=1e-5 * before)
        self.expect(0, "adapters", "rm", old, "lora", "--to", "bare")
        self.assertTrue(self.listed("bare")[6]["states_left_out"])

    def test_the_key_is_checked(self):
        self.fails(2, ["check", "t.toml", "checkpoint.keep_optimizer=-1"], "keep_optimizer")
        self.expect(0, "run", "t.toml", "--run-dir", "r", "run.steps=4", "-q", "checkpoint.every=1", "checkpoint.keep=3",
                    "checkpoint.keep_optimizer=5")
        self.assertEqual({n: c["states"] for n, c in self.listed("r").items()}, {4: 8, 3: 8, 2: 8})


if __name__ == "__main__":
    unittest.main()
