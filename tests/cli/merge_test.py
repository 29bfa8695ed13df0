"""plait merge: a checkpoint of the model alone, which evaluates as the model with its adapters did."""

import json
import shutil
import unittest

from support import TINY, RankCase

ADAPTERS = """
[[optimizer.groups]]
match = ["*.lora.b"]
learning_rate = 0.1
[[model.adapters]]
type = "lora"
match = ["model.linear*.weight"]
rank = 2
[[model.adapters]]
type = "dora"
match = ["model.linear1.weight"]
rank = 2
"""
BOTTLENECK = """
[[model.adapters]]
type = "bottleneck"
name = "narrow"
match = ["model.linear1"]
"""


class Merge(RankCase):
    def setUp(self):
        super().setUp()
        self.write("lora.toml", TINY + ADAPTERS)

    def evaluated(self, *words):
        return self.expect(0, "eval", *words, "--json").records[-1]

    def test_the_model_alone_evaluates_as_with_its_adapters(self):
        self.expect(0, "run", "lora.toml", "--run-dir", "run", "-q", "run.steps=20")
        before = self.evaluated("run")
        done = self.expect(0, "merge", "run", "--to", "new/alone", "--json").records[-1]
        self.assertEqual(done["checkpoint"], "new/alone/ckpt/step-0000000020")
        after = self.evaluated("new/alone")
        self.assertEqual((after["step"], after["samples"]), (20, before["samples"]))
        self.assertAlmostEqual(after["loss"], before["loss"], delta=1e-5 * before["loss"])
        # It is one of the experiment without adapters.
        self.assertEqual(self.evaluated("t.toml", "--checkpoint", "new/alone")["loss"], after["loss"])
        text = (self.folder / "new/alone/run.toml").read_text()
        self.assertNotIn("\n[[model.adapters]]", text)
        self.assertNotIn("lora.b", text)
        manifest = json.loads((self.folder / done["checkpoint"] / "MANIFEST.json").read_text())
        self.assertEqual(sorted(t["name"] for t in manifest["tensors"]),
                         [f"model.linear{i}.{part}" for i in (1, 2) for part in ("bias", "weight")])
        self.expect(0, "export", "new/alone", "alone.safetensors")
        self.expect(0, "run", "t.toml", "model.load=new/alone", "run.steps=1", "--run-dir", "on")
        # The run is as it was, and an adapter can start beside the new weights.
        self.assertEqual(self.evaluated("run")["loss"], before["loss"])
        self.expect(0, "run", "lora.toml", "model.load=new/alone", "run.steps=1", "--run-dir", "more")
        self.assertFalse(list(self.folder.glob("new/.*")))

    def test_names_a_command_that_works(self):
        self.expect(0, "run", "lora.toml", "--run-dir", "run", "-q", "run.steps=1")
        self.assertIn("for instance: plait eval alone", self.expect(0, "merge", "run", "--to", "alone").out)
        self.write("no-eval.toml", (TINY + ADAPTERS).replace("[data.eval]", "[data.other]"))
        self.expect(0, "run", "no-eval.toml", "--run-dir", "second", "-q", "run.steps=1")
        told = self.expect(0, "merge", "second", "--to", "two").out
        self.assertIn("for instance: plait export two model.safetensors", told)
        self.expect(0, "export", "two", "model.safetensors")

    def test_of_a_checkpoint_that_needs_its_base(self):
        self.expect(0, "run", "t.toml", "--run-dir", "base", "-q", "run.steps=2")
        self.expect(0, "run", "lora.toml", "--run-dir", "run", "-q", "run.steps=20",
                    "model.load=base", "checkpoint.save=trained")
        before = self.evaluated("run")
        self.fails(2, ("check", "lora.toml", "checkpoint.save=trained"),
                   "leaves out the frozen parameters, 'model.linear1.weight' among them")
        self.expect(0, "merge", "run", "--to", "alone")
        shutil.rmtree(self.folder / "base")
        after = self.evaluated("alone")
        self.assertAlmostEqual(after["loss"], before["loss"], delta=1e-5 * before["loss"])

    def test_a_run_of_several_ranks(self):
        self.expect(0, "run", "lora.toml", "--run-dir", "run", "-q", "run.steps=5", "topology.tensor=2",
                    "topology.data=2", "topology.zero=3")
        before = self.evaluated("run", "--one-rank")
        self.expect(0, "merge", "lora.toml", "--from", "run", "--to", "alone")
        after = self.evaluated("t.toml", "--checkpoint", "alone")
        self.assertAlmostEqual(after["loss"], before["loss"], delta=1e-5 * before["loss"])

    def test_one_of_several_adapters(self):
        self.expect(0, "run", "lora.toml", "--run-dir", "run", "-q", "run.steps=20")
        self.expect(0, "adapters", "rm", "run", "dora", "--to", "lora-only")
        expected = self.evaluated("lora-only")
        told = self.expect(0, "merge", "run", "--adapter", "lora", "--to", "alone").out
        self.assertIn("the model of step 20, adapter lora merged; for instance: plait eval alone",
                      told)
        self.assertAlmostEqual(self.evaluated("alone")["loss"], expected["loss"],
                               delta=1e-5 * expected["loss"])
        self.expect(0, "export", "alone", "alone.safetensors")
        self.fails(2, ("merge", "run", "--adapter", "lore", "--to", "other"),
                   "model has no adapter 'lore' (did you mean 'lora'?); there are: lora, dora")
        self.fails(2, ("merge", "run", "--model", "model", "--to", "other"),
                   "--model requires --adapter")

    def test_one_that_samples_choose(self):
        parts = ", ".join('{type = "synthetic", samples = 100, shape = [8], classes = 3, '
                          f"first = {first}}}" for first in (0, 100))
        data = f'{{type = "blend", parts = [{parts}], part_field = "adapter"}}'
        own = '{type = "synthetic", samples = 100, shape = [8], classes = 3, first = 100}'
        self.write("two.toml", TINY + ADAPTERS)
        self.expect(0, "run", "two.toml", "data.train=" + data, "data.eval=" + data, "-q",
                    "model.adapter_field=adapter", "--run-dir", "run", "run.steps=20")
        self.fails(2, ("merge", "run", "--to", "alone"), "each sample of 'model' takes an adapter",
                   "plait merge --adapter NAME")
        self.expect(0, "merge", "run", "--adapter", "dora", "--to", "alone")
        text = (self.folder / "alone/run.toml").read_text()
        self.assertNotIn('adapter_field = "adapter"', text)
        # Half of the samples took it before.
        before, alone = self.evaluated("run"), self.evaluated("alone", f"data.eval={own}")
        self.assertAlmostEqual(alone["loss"], before["metrics"]["loss.dora"],
                               delta=1e-5 * alone["loss"])
        self.expect(0, "export", "alone", "alone.safetensors")

    def test_needs_no_data(self):
        rows = "".join(f"{i % 7},{i % 5},{i % 3}\n" for i in range(64))
        self.write("a.csv", "x,y,kind\n" + rows)
        data = 'type = "csv"\npath = "a.csv"\ntarget = "kind"\ntarget_type = "class"\n'
        text = ("[run]\nepochs = 2\n[batch]\nglobal = 16\n[data.train]\n" + data + "[data.eval]\n" +
                data + TINY[TINY.index("[model]"):] +
                'schedule = {type = "cosine", warmup_steps = 2}\n' + ADAPTERS)
        self.write("csv.toml", text)
        auto = 'data.train.normalize="auto"'
        self.expect(0, "run", "csv.toml", "--run-dir", "run", "-q", auto)
        before = self.evaluated("run")
        (self.folder / "a.csv").rename(self.folder / "b.csv")
        self.expect(0, "merge", "csv.toml", "--from", "run", "--to", "alone", auto)
        self.expect(0, "merge", "run", "--to", "another")
        self.fails(2, ("eval", "alone"), "file", "a.csv' not found")
        (self.folder / "b.csv").rename(self.folder / "a.csv")
        for merged in ("alone", "another"):
            text = (self.folder / merged / "run.toml").read_text()
            self.assertIn("fields = []\n", text)
            self.assertRegex(text, r"(?m)^epochs = 2\b")
            self.assertNotRegex(text, r"(?m)^steps = [1-9]")
            self.assertAlmostEqual(self.evaluated(merged)["loss"] / before["loss"], 1, places=5)

    def test_fields_in_place_of_data(self):
        # Shapes are all that a plan needs of data; samples are refused where there are none.
        fields = ['data.train.fields=["x: input f32 [8]", "label: target i32 []"]',
                  'data.eval.fields=["x: input f32 [8]", "label: target i32 []"]']
        csv = TINY.replace('type = "synthetic"\nsamples = 200\nshape = [8]\nclasses = 3\n',
                           'type = "csv"\npath = "no.csv"\n')
        self.write("no.toml", csv)
        self.fails(2, ("plan", "no.toml"), "file 'no.csv' not found")
        there, = self.expect(0, "plan", "t.toml", "--json").records
        planned, = self.expect(0, "plan", "no.toml", *fields, "--json").records
        self.assertEqual(planned["parameter_count"], there["parameter_count"])
        self.fails(1, ("run", "no.toml", *fields), "[data.train] has no samples")
        self.fails(2, ("check", "no.toml", 'data.train.fields=["x input f32"]'), "data.train",
                   'expected a field as "x: input f32 [28,28]"')

    def test_messages(self):
        self.expect(0, "run", "lora.toml", "--run-dir", "run", "-q", "run.steps=1")
        self.fails(2, ("merge", "lora.toml", "--to", "alone"), "plait merge needs --from DIR")
        self.fails(2, ("merge", "lora.toml", "--from", "rum", "--to", "alone"), "--from 'rum' does not exist")
        self.fails(2, ("merge", "run", "--to", "run"), "'run' exists; choose another name, or remove this folder")
        self.expect(0, "merge", "run", "--to", "merged")
        self.fails(2, ("merge", "run", "--to", "merged", "--yes"), "'merged' exists; choose another name")
        self.assertFalse(list(self.folder.glob(".merged*")))
        self.expect(0, "run", "t.toml", "--run-dir", "plain", "-q", "run.steps=1")
        self.fails(2, ("merge", "plain", "--to", "alone"), "the experiment has no adapters")
        self.write("narrow.toml", TINY + BOTTLENECK)
        self.expect(0, "run", "narrow.toml", "--run-dir", "narrow", "-q", "run.steps=1")
        self.fails(2, ("merge", "narrow", "--to", "alone"), "adapter 'narrow' (model.adapters[0])",
                   "method 'bottleneck' cannot be merged: it has no rule that writes")
        self.assertFalse((self.folder / "alone").exists())
        self.assertFalse(list(self.folder.glob(".alone*")))


if __name__ == "__main__":
    unittest.main()
