"""plait sweep: several values of some keys, a few runs at a time, resumable, one table at the end; plait run --until."""

import json
import os
import signal
import subprocess
import time
import unittest

from support import Case, PLAIT, TIME, TINY

RATES = "optimizer.learning_rate=0.001,0.01,0.1"


class Sweep(Case):
    def setUp(self):
        super().setUp()
        self.write("t.toml", TINY)

    def sweep(self, *words, code=0):
        outcome = self.expect(code, "sweep", "t.toml", *words, "--json")
        return outcome.records[:-1], outcome.records[-1]

    def test_grid(self):
        trials, done = self.sweep(RATES, "model.layers[0].out=4,8", "run.log_every=1")
        self.assertEqual(sorted(t["trial"] for t in trials), list(range(6)))
        self.assertEqual({tuple(t["overrides"]) for t in trials},
                         {(f"optimizer.learning_rate={r}", f"model.layers[0].out={o}") for r in ("0.001", "0.01", "0.1") for o in (4, 8)})
        values = [t["value"] for t in done["trials"]]
        self.assertEqual(values, sorted(values))
        self.assertEqual({(t["state"], t["step"]) for t in done["trials"]}, {("done", 40)})
        # Each is the run that plait run makes.
        first = done["trials"][0]
        self.expect(0, "run", "t.toml", *first["overrides"], "run.log_every=1", "--run-dir", "alone", "-q")
        alone, = self.expect(0, "status", "alone", "--json").records
        self.assertEqual(alone["values"]["eval/loss"], first["value"])
        # The same command finds all of it done.
        again, table = self.sweep(RATES, "model.layers[0].out=4,8", "run.log_every=1")
        self.assertEqual((again, table), ([], done))
        self.fails(2, ["sweep", "t.toml", RATES], "holds another sweep", "--dir")
        text = self.expect(0, "sweep", "t.toml", RATES, "--dir", "s", "--metric", "eval/accuracy", "--maximize", "run.seed=3").out.splitlines()
        self.assertEqual(text[0], "3 trials of t.toml in s")
        self.assertEqual(text[4].split(), ["trial", "optimizer.learning_rate", "eval/accuracy", "loss", "step", "state"])
        accuracies = [float(line.split()[2]) for line in text[5:8]]
        self.assertEqual(accuracies, sorted(accuracies, reverse=True))
        self.assertEqual(len(self.expect(0, "runs", "s").out.splitlines()), 4)

    def test_halving(self):
        trials, done = self.sweep(RATES, "run.seed=1,2", "--halving", "evaluate.every=5", "--dir", "h")
        self.assertEqual(len(done["trials"]), 6)
        steps = sorted(t["step"] for t in done["trials"])
        self.assertEqual(steps, [5, 5, 5, 10, 20, 40])
        self.assertEqual(done["trials"][0]["step"], 40)
        # A run that was halted and resumed is the run that was not.
        best = done["trials"][0]
        self.expect(0, "run", "t.toml", *best["overrides"], "evaluate.every=5", "--run-dir", "alone", "-q")
        alone, = self.expect(0, "status", "alone", "--json").records
        self.assertEqual(alone["values"]["eval/loss"], best["value"])

    def test_random(self):
        _, done = self.sweep(RATES, "run.seed=1,2,3", "--random", "2", "--jobs", "1")
        self.assertEqual(len(done["trials"]), 2)

    def test_mistakes(self):
        self.fails(2, ["sweep", "t.toml", "run.seed=1"], "no key has several values; write key=A,B")
        self.fails(2, ["sweep", "t.toml", "optimizer.learning_rat=1,2"], "unknown key", "learning_rate")
        self.fails(2, ["sweep", "t.toml", "run.seed=1,x"], "run.seed")  # before any trial starts
        self.fails(2, ["sweep", "t.toml", "run.seed=1,2", "run.steps=0"], "run.steps")
        self.assertFalse((self.folder / "runs").exists())
        # One that fails stands in the table, and the others run.
        self.write("d.csv", "x,y\n" + "1,0\n" * 30 + "nan,1\n" * 30)
        trials, done = self.sweep("run.seed=1,2", "optimizer.learning_rate=1e30", "optimizer.type=\"sgd\"", "guard.nonfinite_limit=1", "--dir", "f", code=1)
        self.assertEqual({t["state"] for t in done["trials"]}, {"aborted"})
        self.assertEqual({t["code"] for t in trials}, {5})

    def test_interrupted(self):
        words = ["sweep", "t.toml", "run.seed=1,2,3", "run.steps=2000000", "run.log_every=100", "--dir", "i", "--jobs", "2"]
        sweep = subprocess.Popen([PLAIT, *words], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 60
        while len(list((self.folder / "i").glob("*/metrics.ndjson"))) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(0.3)
        sweep.send_signal(signal.SIGINT)
        out, err = sweep.communicate(timeout=TIME)
        self.assertEqual(sweep.returncode, 4, out + err)
        self.assertIn("stopped on request; the same command goes on: ", err)
        self.assertEqual(out.count("interrupted"), 2)
        self.assertFalse((self.folder / "i/0002").exists())
        for name in ("0000", "0001"):
            self.assertTrue(any((self.folder / "i" / name / "ckpt").glob("step-*")))

    def test_until(self):
        out = self.expect(0, "run", "t.toml", "--until", "7", "--run-dir", "r").out
        self.assertIn("stopped after step 7, as --until asks; to resume: plait run t.toml --run-dir r --resume must", out)
        self.assertEqual(self.expect(0, "status", "r", "--json").records[0]["step"], 7)
        self.expect(0, "run", "t.toml", "--run-dir", "r", "--resume", "must", "--until", "100", "-q")
        self.assertEqual(self.expect(0, "status", "r", "--json").records[0]["state"], "done")
        ranks = self.expect(0, "run", "t.toml", "topology.data=2", "--until", "7", "--run-dir", "two", "-q")
        self.assertEqual(ranks.err, "")
        self.assertIn(self.expect(0, "status", "two", "--json").records[0]["step"], (7, 8))


if __name__ == "__main__":
    unittest.main()
