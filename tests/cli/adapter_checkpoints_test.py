"""plait adapters: the adapters of checkpoints, listed, added and removed."""

import shutil
import unittest

from support import TINY, RankCase

LORA = """
[[model.adapters]]
type = "lora"
name = "poems"
match = ["model.linear*.weight"]
rank = 2
"""
DORA = """
[[optimizer.groups]]
match = ["*.code.b"]
learning_rate = 0.1
[[model.adapters]]
type = "dora"
name = "code"
match = ["model.linear1.weight"]
rank = 3
"""


class AdapterCheckpoints(RankCase):
    def setUp(self):
        super().setUp()
        self.write("poems.toml", TINY + LORA)
        self.write("code.toml", TINY + DORA)
        for name, steps in (("poems", 6), ("code", 4)):
            self.expect(0, "run", f"{name}.toml", "--run-dir", name, "-q", f"run.steps={steps}")

    def names(self, place):
        found = self.expect(0, "adapters", "ls", place, "--json").records[-1]["checkpoints"]
        return [a["name"] for a in found[0]["adapters"]]

    def test_runs_without_adapters(self):
        """A line for each, however many checkpoints it has."""
        self.write("plain.toml", TINY)
        for name in ("a", "b"):
            self.expect(0, "run", "plain.toml", "--run-dir", f"runs/{name}", "-q", "run.steps=6", "checkpoint.every=2")
        self.expect(0, "run", "poems.toml", "--run-dir", "runs/c", "-q", "run.steps=4", "checkpoint.every=2")
        self.assertEqual(self.expect(0, "adapters", "ls", "runs/a").out, "runs/a/ckpt: no adapters in 2 checkpoints\n")
        self.assertEqual(self.expect(0, "adapters", "ls", "runs/a/ckpt/step-0000000006").out, "runs/a/ckpt/step-0000000006: no adapters\n")
        out = self.expect(0, "adapters", "ls").out
        self.assertTrue(out.startswith("runs/a/ckpt: no adapters in 2 checkpoints\nruns/b/ckpt: no adapters in 2 checkpoints\nruns/c/ckpt/step-0000000004\n"), out)
        self.assertEqual(out.count("lora, "), 2)
        self.assertEqual(len(self.expect(0, "adapters", "ls", "--json").records[-1]["checkpoints"]), 6)

    def test_there_and_back(self):
        out = self.expect(0, "adapters", "ls", "poems").out
        self.assertIn("lora, alpha 8.0", out)
        self.assertIn("poems changes model.linear1.weight, model.linear2.weight", out)
        done = self.expect(0, "adapters", "add", "poems", "code", "--from", "code", "--to",
                           "new/both", "--json").records[-1]
        self.assertEqual(done["written"], "new/both/ckpt/step-0000000006")
        self.assertEqual(self.names("new/both"), ["poems", "code"])
        self.expect(0, "eval", "new/both")
        # It goes on where the first run was.
        self.expect(0, "run", "new/both", "--run-dir", "new/both", "--resume", "must", "-q",
                    "run.steps=8")
        self.expect(0, "adapters", "rm", "new/both", "code", "--to", "new/poems")
        self.assertEqual(self.names("new/poems"), ["poems"])
        text = (self.folder / "new/poems/run.toml").read_text()
        self.assertNotIn('name = "code"', text)
        self.expect(0, "run", "new/poems", "--run-dir", "new/poems", "--resume", "must", "-q",
                    "run.steps=9")
        # As it was: the same numbers.
        self.expect(0, "adapters", "add", "poems", "code", "--from", "code", "--to", "again")
        self.expect(0, "adapters", "rm", "again", "code", "--to", "back")
        loss = lambda run: self.expect(0, "eval", run, "--json").records[-1]["loss"]
        self.assertEqual(loss("back"), loss("poems"))
        self.assertFalse(list(self.folder.glob("new/.*")))

    def test_of_one_without_optimizer_states(self):
        self.expect(0, "checkpoint", "convert", "code", "bare", "--no-optimizer")
        added = self.expect(0, "adapters", "add", "poems", "code", "--from", "bare", "--to", "both")
        self.assertIn("has no optimizer states, because the checkpoint of the added adapter has none", added.err)
        added = self.expect(0, "adapters", "add", "poems", "code", "--from", "code", "--to", "whole")
        self.assertNotIn("optimizer states", added.err)
        one = self.expect(0, "checkpoint", "ls", "both", "--json").records[-1]["checkpoints"][0]
        self.assertEqual((one["states"], one["states_left_out"]), (0, True))
        self.expect(0, "checkpoint", "verify", "both")
        self.expect(0, "eval", "both")
        self.fails(2, ("run", "both", "--run-dir", "both", "--resume", "must", "run.steps=8"),
                   "lacks optimizer states")

    def test_what_cannot_be_read_is_named(self):
        step = self.folder / "poems/ckpt/step-0000000006"
        copy = self.folder / "poems/ckpt/step-0000000003"
        shutil.copytree(step, copy)
        (copy / "MANIFEST.json").write_text("{}")
        listed = self.expect(0, "adapters", "ls", "poems", "--json").records[-1]
        self.assertEqual([c["path"] for c in listed["checkpoints"]], ["poems/ckpt/step-0000000006"])
        self.assertEqual([c["path"] for c in listed["left_out"]], ["poems/ckpt/step-0000000003"])
        said = self.expect(0, "adapters", "ls", "poems", "-q")
        self.assertIn("poems changes model.linear1.weight", said.out)
        self.assertIn("[adapters] 'poems/ckpt/step-0000000003' is left out: ", said.err)
        self.assertIn("the manifest is truncated", said.err)

    def test_mistakes(self):
        add = ("adapters", "add", "poems")
        self.fails(2, (*add, "poems", "--from", "code", "--to", "x"),
                   "has an adapter 'poems' already; choose another name")
        self.fails(2, (*add, "code", "--from", "nowhere", "--to", "x"),
                   "--from 'nowhere' does not exist")
        self.fails(2, (*add, "code", "--from", "code", "--to", "code"), "'code' exists; choose another name, or remove this folder")
        self.fails(2, ("adapters", "rm", "poems", "poem", "--to", "x"),
                   "has no adapter 'poem' (did you mean 'poems'?); there are: poems")
        self.expect(0, "run", "code.toml", "--run-dir", "seed", "-q", "run.steps=1", "run.seed=9")
        self.fails(2, (*add, "code", "--from", "seed", "--to", "x"), "has another base than",
                   "has other values")
        self.assertFalse((self.folder / "x").exists())


if __name__ == "__main__":
    unittest.main()
