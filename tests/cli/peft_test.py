"""Adapters in files: files of the library PEFT in and out, checkpoints of what was trained."""

import json
import shutil
import unittest

from support import ROOT, TINY, RankCase

GOLDEN = ROOT / "tests/golden"
TEXT = "it is a truth that an adapter in possession of a base must be in want of a run. " * 10
TOKENIZER = json.dumps(
    {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})
LORA = """
[[model.adapters]]
type = "lora"
match = ["model.linear*.weight"]
rank = 2
"""


class Files(RankCase):
    """Adapters of the library over a tiny GPT-2."""

    def setUp(self):
        super().setUp()
        self.expect(0, "import", "hf", GOLDEN / "hf/gpt2", "base")

    def import_peft(self, name, out, *options):
        return self.expect(0, "import", "peft", GOLDEN / "peft" / name, out, "--option",
                           "base=base", *options)

    def generated(self, experiment, *words, ids="1,2,3"):
        done = self.expect(0, "generate", experiment, "--ids", ids, "--temperature", "0",
                           "--max-tokens", "8", "--length", "32", "--json", *words)
        return done.event("sequence")["ids"]

    def trained(self, experiment, *overrides):
        self.write("t.txt", TEXT)
        self.expect(0, "data", "tokenize", "t.txt", "--tokenizer", "chars", "--option",
                    "path=t.txt", "--out", "train", "--yes")
        self.expect(0, "run", experiment, "--data", ".", "--run-dir", "run", "-q", "run.steps=3",
                    "batch.global=2", "data.train.length=16", "optimizer.learning_rate=0.01",
                    *overrides)

    def test_there_and_back(self):
        done = self.import_peft("gpt2_lora", "in")
        self.assertIn("plait check in/experiment.toml", done.out)
        self.assertEqual(sorted(p.name for p in (self.folder / "in").iterdir()),
                         ["experiment.toml", "weights.map.json"])
        ids = self.generated("in/experiment.toml")
        self.assertNotEqual(ids, self.generated("base/experiment.toml"))
        self.trained("in/experiment.toml")
        out = self.expect(0, "export", "peft", "run", "out").out
        self.assertIn("out/adapter_model.safetensors", out)
        config = json.loads((self.folder / "out/adapter_config.json").read_text())
        self.assertEqual((config["peft_type"], config["lora_dropout"], config["fan_in_fan_out"]),
                         ("LORA", 0.1, True))
        self.assertEqual((config["task_type"], config["inference_mode"]), ("CAUSAL_LM", True))
        self.assertEqual(config["base_model_name_or_path"], str(GOLDEN / "hf/gpt2"))
        self.expect(0, "import", "peft", "out", "again", "--option", "base=base")
        trained = self.generated("in/experiment.toml", "--checkpoint", "run")
        self.assertNotEqual(trained, ids)
        self.assertEqual(self.generated("again/experiment.toml"), trained)
        self.assertEqual(self.generated("run"), trained)  # not with what it began with
        self.fails(2, ("export", "hf", "run", "no"), "the model has adapters", "plait merge RUN",
                   "plait export peft")
        self.assertFalse((self.folder / "no").exists())

    def test_a_soft_prompt(self):
        self.import_peft("gpt2_prompt", "in")
        self.assertIn("n_tokens = 4", (self.folder / "in/experiment.toml").read_text())
        first = self.generated("in/experiment.toml")
        # Placeholders may be of any id, and written by hand.
        self.assertEqual(self.generated("in/experiment.toml", "--placeholders", "0",
                                        ids="9,8,7,6,1,2,3"), first)
        self.assertEqual(self.generated("in/experiment.toml", "--placeholders", "4"), first)
        self.assertNotEqual(self.generated("in/experiment.toml", "--placeholders", "0"), first)
        told = self.expect(0, "generate", "in/experiment.toml", "--ids", "1,2,3", "--length", "32",
                           "--max-tokens", "1")
        self.assertIn("4 placeholders in front of each prompt, for the vectors of adapter",
                      told.err)
        self.assertIn("1 token in", told.err)
        self.trained("in/experiment.toml", "optimizer.learning_rate=0.5")
        trained = self.generated("in/experiment.toml", "--checkpoint", "run")
        self.assertNotEqual(trained, first)
        self.expect(0, "export", "peft", "run", "out")
        config = json.loads((self.folder / "out/adapter_config.json").read_text())
        self.assertEqual((config["peft_type"], config["num_virtual_tokens"], config["token_dim"]),
                         ("PROMPT_TUNING", 4, 32))
        self.expect(0, "import", "peft", "out", "again", "--option", "base=base")
        self.assertEqual(self.generated("again/experiment.toml"), trained)

    def test_an_adapter_is_no_model(self):
        self.fails(2, ("import", "hf", GOLDEN / "peft/gpt2_lora", "x"), "has an adapter of the library PEFT",
                   "plait import peft")

    def test_text_in_place_of_placeholders(self):
        self.import_peft("gpt2_prompt", "in")
        self.write("t.txt", TEXT)
        self.expect(0, "data", "tokenize", "t.txt", "--tokenizer", "chars", "--option",
                    "path=t.txt", "--out", "train")
        checked = self.expect(0, "check", "in/experiment.toml", "--data", ".", "batch.global=2",
                              "data.train.length=16")
        self.assertIn("puts its vectors in place of the first 4 tokens of each sample, and "
                      "[data.train] has no placeholders: the text there is lost", checked.err)

    def test_data_beside_the_base(self):
        """A path belongs to the file that gives it: the base has its data in its own folder."""
        self.write("t.txt", TEXT)
        self.expect(0, "data", "tokenize", "t.txt", "--tokenizer", "chars", "--option",
                    "path=t.txt", "--out", "base/train")
        told = self.import_peft("gpt2_lora", "in").out
        self.assertIn("to train: plait run in/experiment.toml", told)
        self.expect(0, "check", "in", "data.train.length=16")
        self.write("own.toml", 'extends = ["base/experiment.toml"]\n')
        self.expect(0, "check", "own.toml", "data.train.length=16")
        # Written out, it names no base.
        bound = self.expect(0, "bind", "in/experiment.toml").out
        self.assertIn(f'path = "{self.folder.resolve()}/base/train.bin"', bound)
        (self.folder / "base/train.bin").unlink()
        self.fails(2, ("check", "in"), "file 'train.bin' not found in", "base, ")

    def test_the_tokenizer_goes_along(self):
        shutil.copytree(GOLDEN / "hf/gpt2", self.folder / "theirs")
        self.write("theirs/tokenizer.json", TOKENIZER)
        self.expect(0, "import", "hf", "theirs", "spoken")
        done = self.expect(0, "import", "peft", GOLDEN / "peft/gpt2_lora", "in", "--option",
                           "base=spoken")
        self.assertNotIn("tokenizer", done.out + done.err)
        self.assertIn('type = "hf"', (self.folder / "in/experiment.toml").read_text())
        self.trained("in/experiment.toml")
        self.assertIn("for instance: plait generate alone --prompt TEXT",
                      self.expect(0, "merge", "run", "--to", "alone").out)
        self.expect(0, "export", "hf", "alone", "out")
        self.assertEqual((self.folder / "out/tokenizer.json").read_text(), TOKENIZER)
        self.assertNotIn("lora", (self.folder / "out/config.json").read_text())
        self.fails(2, ("export", "peft", "alone", "no"), "has no adapters")

    def test_names(self):
        self.import_peft("gpt2_ia3", "in", "--option", "adapter=poet")
        text = (self.folder / "in/experiment.toml").read_text()
        self.assertIn('name = "poet"', text)
        self.assertIn('on = "input"', text)
        # Another name is another parameter.
        self.write("in/other.toml", text.replace('name = "poet"', 'name = "other"'))
        self.fails(
            2, ("generate", "in/other.toml", "--ids", "1", "--max-tokens", "1", "--length", "32"),
            "in/weights.map.json' (model.adapters[", "has no tensor 'model.h0.",
            "name the adapter as it was named there")

    def test_weights_of_an_adapter_from_a_run(self):
        self.import_peft("gpt2_lora", "in")
        self.trained("in/experiment.toml", "checkpoint.save=trained")
        ids = self.generated("in/experiment.toml", "--checkpoint", "run")
        text = (self.folder / "in/experiment.toml").read_text()
        self.write("in/tuned.toml",
                   text.replace('load = "weights.map.json"', f'load = "{self.folder}/run"'))
        self.assertEqual(self.generated("in/tuned.toml"), ids)

    def test_a_format_does_not_write_a_part_of_a_model(self):
        self.trained("base/experiment.toml", 'model.train=["model.h1.*"]',
                     "checkpoint.save=trained")
        self.fails(2, ("export", "hf", "run", "no"),
                   "holds what was trained, and not 'model.embed.weight'",
                   'checkpoint.save = "all"')
        self.assertFalse((self.folder / "no").exists())

    def test_an_unknown_type_ends_as_other_faults_of_a_file(self):
        shutil.copytree(GOLDEN / "peft/gpt2_ia3", self.folder / "peft")
        path = self.folder / "peft/adapter_config.json"
        config = json.loads(path.read_text())
        path.write_text(json.dumps(config | {"peft_type": "LOHA"}))
        self.fails(2, ("import", "peft", "peft", "in", "--option", "base=base"),
                   "key 'peft_type': unknown type 'LOHA'; known are ADALORA, IA3, LORA (DoRA too), "
                   "PREFIX_TUNING, PROMPT_TUNING, VERA")
        path.write_text("{")
        self.fails(2, ("import", "peft", "peft", "in", "--option", "base=base"), "not valid JSON")
        self.assertFalse((self.folder / "in").exists())

    def test_unknown_keys_are_a_warning(self):
        shutil.copytree(GOLDEN / "peft/gpt2_ia3", self.folder / "peft")
        path = self.folder / "peft/adapter_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"of_tomorrow": 1}))
        done = self.expect(0, "import", "peft", "peft", "in", "--option", "base=base")
        self.assertIn("has keys that are not known and have no effect here: 'of_tomorrow'",
                      done.err)


class TrainedAlone(RankCase):
    """checkpoint.save = "trained"."""

    def setUp(self):
        super().setUp()
        self.write("t.toml", TINY)
        self.write("lora.toml", TINY + LORA)
        self.expect(0, "run", "t.toml", "--run-dir", "base", "-q", "run.steps=5")

    def run_lora(self, *words):
        return self.expect(0, "run", "lora.toml", "model.load=base", "checkpoint.save=trained",
                           "--run-dir", "run", *words)

    def tensors(self, run):
        checkpoint = next((self.folder / run / "ckpt").glob("step-*"))
        return json.loads((checkpoint / "MANIFEST.json").read_text())

    def losses(self, run):
        """Of each step; behind the last one of a run there is an evaluation."""
        lines = [
            json.loads(line)
            for line in (self.folder / run / "metrics.ndjson").read_text().splitlines()
        ]
        return {
            line["step"]: line["loss"]
            for line in reversed(lines) if "loss" in line and "step" in line
        }

    def test_holds_what_was_trained_and_names_its_base(self):
        self.run_lora("-q", "run.steps=4")
        manifest = self.tensors("run")
        self.assertEqual(len(manifest["tensors"]), 4 * 3)  # parameters, and two states of each
        base, = manifest["bases"]
        self.assertIn("/base", base["path"])
        self.assertEqual(len(base["parameters"]), 4)
        plan = self.expect(0, "plan", "lora.toml", "model.load=base", "checkpoint.save=trained",
                           "--json").records[-1]
        self.assertEqual(plan["checkpoint_bytes"], 4 * 86 * 3)
        whole = self.expect(0, "plan", "lora.toml", "model.load=base", "--json").records[-1]
        self.assertEqual(whole["checkpoint_bytes"], 4 * (86 * 3 + 195))

    def test_resumes_as_one_with_all_does(self):
        overrides = ("-q", "model.load=base", "run.steps=8")
        self.expect(0, "run", "lora.toml", "--run-dir", "one", *overrides)
        self.run_lora("-q", "run.steps=4")
        self.run_lora("-q", "run.steps=8", "--resume", "must")
        one, resumed = (self.losses(run) for run in ("one", "run"))
        self.assertEqual(sorted(one), list(range(1, 9)))
        self.assertEqual(one, resumed)
        self.assertEqual(
            self.expect(0, "eval", "one").out.split("loss")[1:],
            self.expect(0, "eval", "run").out.split("loss")[1:])

    def test_layouts(self):
        """Replicas that share it all, and another layout that resumes."""
        self.run_lora("-q", "run.steps=4", "topology.data=2", "topology.zero=3",
                      "topology.backend=shm")
        self.assertEqual(len(self.tensors("run")["tensors"]), 12)
        self.run_lora("-q", "run.steps=6", "--resume", "must")

    def test_a_base_that_is_gone_or_another_one(self):
        self.run_lora("-q", "run.steps=4")
        self.fails(2, ("run", "lora.toml", "model.load=nowhere", "--run-dir", "run", "--resume",
                       "must", "run.steps=6"), "model.load names 'nowhere', which does not exist")
        self.fails(2, ("eval", "lora.toml", "--checkpoint", "run"),
                   "holds what was trained, beside the weights",
                   "model.load names none; set model.load to these weights")
        self.expect(0, "run", "t.toml", "--run-dir", "other", "-q", "run.steps=6")
        self.fails(2, ("eval", "lora.toml", "model.load=other", "--checkpoint", "run"),
                   "with the hash ",
                   "other weights; set model.load to those that it was trained beside")
        self.fails(2, ("run", "lora.toml", "checkpoint.save=trained"),
                   "model.load: names no weights", "set checkpoint.save = \"all\"")
        self.fails(2, ("run", "t.toml", "model.load=run", "run.steps=1"),
                   "it holds what was trained beside")


if __name__ == "__main__":
    unittest.main()
