"""Checkpoints that earlier engines wrote (tests/golden/checkpoints) are read as they were meant, and newer ones are refused."""

import json
import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from ranks import environment
from support import Case, ROOT

KEPT = ROOT / "tests/golden/checkpoints"
VERSIONS = sorted(path for path in KEPT.glob("v*"))
GRID = ["topology.data=2", "topology.tensor=2", "topology.zero=1", "model.layers[0].parallel=column", "model.layers[3].parallel=row"]


class Kept(Case):
    def setUp(self):
        super().setUp()
        (self.folder / "own").mkdir(mode=0o700)

    def environment(self):
        return environment(XDG_RUNTIME_DIR=str(self.folder / "own"))

    def resumed(self, kept, run, *words):
        """The losses of a run that continues from a checkpoint, by step."""
        shutil.copytree(kept, self.folder / run / "ckpt/step-0000000005")
        done = self.expect(0, "run", KEPT / "experiment.toml", "--run-dir", run, "--resume", "must", *words)
        self.assertIn("continues from", done.err)
        lines = [json.loads(line) for line in (self.folder / run / "metrics.ndjson").read_text().splitlines()]
        return {str(line["step"]): line["loss"] for line in lines if "loss" in line and "event" not in line}, done.err

    def test_every_format_is_resumed_on_any_ranks(self):
        self.assertTrue(VERSIONS)
        for version in VERSIONS:
            expected = json.loads((version / "losses.json").read_text())
            self.assertEqual(set(expected), {"one", "grid"})
            for name, losses in expected.items():
                self.expect(0, "checkpoint", "verify", version / name)
                for layout, words in (("one", []), ("grid", GRID)):
                    found, told = self.resumed(version / name, f"{version.name}-{name}-{layout}", *words)
                    self.assertEqual(sorted(found, key=int), ["6", "7", "8", "9", "10"])
                    for step, loss in losses.items():
                        # Another machine's exp and log may round otherwise, and so do sums of several ranks.
                        self.assertAlmostEqual(found[step], loss, delta=2e-6, msg=f"{version.name}/{name} on {layout}, step {step}")
                    if layout == name:
                        self.assertNotIn("differ from", told)  # no setting has another name or value than then

    def test_the_state_besides_tensors_is_continued(self):
        """A step that learns nothing cannot be a better one: what was the best, and how long ago, comes from the checkpoint."""
        for version in VERSIONS:
            kept = version / "one"
            self.resumed(kept, version.name, "optimizer.learning_rate=0", "run.steps=6", "evaluate.every=1")
            found = self.expect(1, "checkpoint", "diff", kept, version.name, "--json").records[-1]
            state = {c["key"]: (c["a"], c["b"]) for c in found["state"]}
            gain = int(state.pop("evaluations_without_gain")[0])
            self.assertEqual(state, {"step": ("5", "6"), "samples": ("80", "96"), "updates": ("5", "6"), "random step": ("5", "6"),
                                     "position in train": ("5", "6")})
            self.assertIn({"key": "evaluations_without_gain", "a": str(gain), "b": str(gain + 1)}, found["state"])
            self.assertEqual({c["key"] for c in found["settings"]} & {"run.seed", "batch.global"}, set())
            before, after = (self.expect(0, "checkpoint", "ls", place, "--json").records[0]["checkpoints"][0]
                             for place in (kept, f"{version.name}/ckpt/step-0000000006"))
            self.assertEqual(before["best"], after["best"])
            self.assertGreater(after["best"]["step"], 0)

    def test_every_format_is_read_by_each_verb(self):
        for version in VERSIONS:
            for name in ("one", "grid"):
                kept = version / name
                one = self.expect(0, "checkpoint", "ls", kept, "--json").records[0]["checkpoints"][0]
                self.assertEqual((one["state"], one["step"], len(one["tensors"])), ("complete", 5, 12))
                self.expect(0, "check", kept / "run.toml")
                out = f"{version.name}-{name}"
                self.expect(0, "checkpoint", "convert", kept, out)
                self.expect(0, "checkpoint", "diff", kept, out)
                self.expect(0, "export", kept, out + ".safetensors")
                done = self.expect(0, "eval", KEPT / "experiment.toml", "--checkpoint", out, "--json")
                again = self.expect(0, "eval", KEPT / "experiment.toml", "--checkpoint", kept, "--json")
                self.assertEqual(done.records[-1]["loss"], again.records[-1]["loss"])

    def test_a_newer_format_is_refused_by_name(self):
        shutil.copytree(VERSIONS[0] / "one", self.folder / "r/ckpt/step-0000000005")
        shutil.copy(KEPT / "future/MANIFEST.json", self.folder / "r/ckpt/step-0000000005/MANIFEST.json")
        text = "has format version 1000, this engine reads up to"
        for words in (["run", KEPT / "experiment.toml", "--run-dir", "r", "--resume", "must"], ["checkpoint", "verify", "r"],
                      ["checkpoint", "convert", "r", "x"], ["checkpoint", "diff", "r", "r"], ["export", "r", "x"],
                      ["eval", KEPT / "experiment.toml", "--checkpoint", "r"]):
            self.fails(3, words, text, "use the engine that wrote it or a newer one")
        self.assertFalse((self.folder / "x").exists())
        others = self.expect(3, "checkpoint", "verify", "r", KEPT / "future", VERSIONS[0] / "one")
        self.assertIn("one: intact", others.out)
        self.assertEqual(others.out.count("not verified, its format is newer"), 2)
        records = self.expect(3, "checkpoint", "verify", "r", "--json").records
        self.assertEqual([r.get("state") for r in records if r["event"] == "checkpoint"].count("newer_format"), 1)
        self.assertIn(text, self.expect(0, "checkpoint", "ls", "r").out)


if __name__ == "__main__":
    unittest.main()
