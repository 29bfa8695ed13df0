"""[[model.adapters]] from the command line: what is trained, started and resumed."""

import json
import shutil
import unittest

from support import TINY, RankCase

LORA = """
[[model.adapters]]
type = "lora"
match = ["model.linear*.weight"]
rank = 2
"""


class Adapters(RankCase):
    def setUp(self):
        super().setUp()
        self.write("lora.toml", TINY + LORA)

    def said(self, *words):
        done = self.expect(0, *words)
        return done.out + done.err

    def test_plan_tells_what_is_trained(self):
        plan = self.expect(0, "plan", "lora.toml", "--json").records[-1]
        self.assertEqual((plan["parameter_count"], plan["trained_count"]), (195 + 86, 86))
        self.assertIn("281 parameters, 86 of them trained", self.said("plan", "lora.toml"))

    def memory(self, *overrides):
        return self.expect(0, "plan", "lora.toml", "--json", *overrides).records[-1]["memory"]

    def test_replicas_divide_the_frozen_base(self):
        whole, divided = self.memory("topology.data=2"), self.memory("topology.data=2", "topology.zero=3")
        # Parts are whole cache lines of 64 bytes.
        self.assertLessEqual(divided["parameters"], whole["parameters"] / 2 + 64)

    def test_frozen_weights_of_16_bits_have_no_master(self):
        low = "precision.compute=bf16"
        master, alone = self.memory(low), self.memory(low, "precision.frozen=compute")
        frozen = 8 * 16 + 16 * 3  # the two weights
        # 4 bytes and a copy of 2 in the one case, 2 in the other; lines of 64 bytes.
        saved = sum(master[k] - alone[k] for k in ("parameters", "low_parameters"))
        self.assertAlmostEqual(saved, 4 * frozen, delta=2 * 64)

    def test_frozen_weights_as_numbers(self):
        frozen = 8 * 16 + 16 * 3
        for of, bytes_each in (("int8", 2), ("nf4", 1.5)):  # rows of 8 and 16: scales weigh much
            with self.subTest(of):
                master, numbers = self.memory(), self.memory("precision.frozen=" + of)
                self.assertLess(numbers["parameters"],
                                master["parameters"] - frozen * (4 - bytes_each) + 4 * 64)
                run = "run-" + of
                self.expect(0, "run", "lora.toml", "--run-dir", run, "-q", "run.steps=6",
                            "precision.frozen=" + of, "checkpoint.every=3")
                told = self.said("eval", run)
                # Continued, the same numbers are made again: the same bits.
                self.expect(0, "run", "lora.toml", "--run-dir", run + "-2", "-q", "run.steps=3",
                            "precision.frozen=" + of)
                self.expect(0, "run", "lora.toml", "--run-dir", run + "-2", "-q", "run.steps=6",
                            "--resume", "must", "precision.frozen=" + of)
                self.assertEqual(self.said("eval", run + "-2").split("loss")[-1],
                                 told.split("loss")[-1])
        self.fails(2, ("check", "lora.toml", "precision.frozen=nf4", "precision.products=fp8"),
                   'precision.frozen: is "nf4" with products = "fp8", expected master or compute')

    def test_fixed_matrices_are_not_trained(self):
        self.write("vera.toml", TINY + LORA.replace('"lora"', '"vera"'))
        words = ("vera.toml", "model.adapters[0].rank=4")
        plan = self.expect(0, "plan", *words, "--json").records[-1]
        fixed, trained = 4 * (8 + 16) + 4 * (16 + 3), (4 + 16) + (4 + 3)
        self.assertEqual((plan["parameter_count"], plan["trained_count"]),
                         (195 + fixed + trained, trained))
        # They are in the checkpoint: their initial values follow from the seed, which may change.
        self.expect(0, "run", *words, "--run-dir", "run", "-q", "run.steps=5")
        self.expect(0, "run", *words, "--run-dir", "run", "-q", "--resume", "must", "run.steps=6")

    def test_adapters_by_sample_have_figures_of_their_own(self):
        parts = ", ".join('{type = "synthetic", samples = 100, shape = [8], classes = 3, '
                          f'first = {first}}}' for first in (0, 100))
        data = f'{{type = "blend", parts = [{parts}], part_field = "adapter"}}'
        words = ("lora.toml", "data.train=" + data, "data.eval=" + data,
                 "model.adapter_field=adapter", 'model.adapters[0].names=["poems", "code"]')
        plan = self.expect(0, "plan", *words, "--json").records[-1]
        self.assertEqual(plan["adapters"], [
            {"model": "model", "name": name, "parameter_count": 86, "trained_count": 86,
             "bytes": 4 * 86, "trained_bytes": 4 * 86} for name in ("poems", "code")])
        self.assertIn("model.poems", self.said("plan", *words))
        self.expect(0, "run", *words, "--run-dir", "run", "-q", "run.steps=4", "run.log_every=1",
                    "checkpoint.best=loss.poems")
        lines = [json.loads(line)
                 for line in (self.folder / "run/metrics.ndjson").read_text().splitlines()]
        step = [line for line in lines if "event" not in line][-1]
        evaluation = [line for line in lines if line.get("event") == "evaluate"][-1]
        for name in ("poems", "code"):
            self.assertIn("grad_norm." + name, step)
            for line in step, evaluation:
                self.assertGreater(line["loss." + name], 0)
                self.assertIn("accuracy." + name, line)
        # Both have the same number of samples.
        self.assertAlmostEqual((evaluation["loss.poems"] + evaluation["loss.code"]) / 2,
                               evaluation["loss"], places=5)
        self.fails(2, ("run", *words, "run.steps=2", "--run-dir", "other",
                       "checkpoint.best=loss.poem"),
                   "there is no metric 'loss.poem' (did you mean 'loss.poems'?)")
        self.fails(2, ("check", *words, "model.adapter_field=parts"),
                   "model.adapter_field: [data.train] has no field 'parts'; it has: x, label, adapter")

    def by_sample(self, *words):
        parts = ", ".join('{type = "synthetic", samples = 100, shape = [8], classes = 3, '
                          f"first = {first}}}" for first in (0, 100))
        data = f'{{type = "blend", parts = [{parts}], part_field = "adapter"}}'
        self.expect(0, "run", "lora.toml", "data.train=" + data, "data.eval=" + data, "-q",
                    "model.adapter_field=adapter", 'model.adapters[0].names=["poems", "code"]',
                    "--run-dir", "run", "run.steps=30", "checkpoint.best=loss.poems", *words)

    def test_an_evaluation_by_one_adapter(self):
        self.by_sample()
        loss = lambda *words: self.expect(0, "eval", *words, "--json").records[-1]
        own = '{type = "synthetic", samples = 100, shape = [8], classes = 3, first = 100}'
        self.fails(2, ("merge", "run", "--to", "all"), "merge one of them: plait merge --adapter NAME")
        self.expect(0, "merge", "run", "--adapter", "code", "--to", "code")
        # Data with the field, and data that lack it.
        for data in ((), (f"data.eval={own}",)):
            with self.subTest(data):
                found = loss("run", "--adapter", "code", *data)
                self.assertAlmostEqual(found["loss"], loss("code", *data)["loss"], places=5)
                self.assertEqual(found["metrics"]["loss.code"], found["loss"])
                self.assertNotIn("loss.poems", found["metrics"])
        base = loss("run", "--adapter", "base")
        self.assertNotIn("loss.code", base["metrics"])
        self.assertEqual(loss("run", "evaluate.adapter=base")["loss"], base["loss"])
        self.assertNotEqual(base["loss"], loss("run", "--adapter", "poems")["loss"])
        ranks = loss("run", "--adapter", "code", "topology.data=2")
        self.assertAlmostEqual(ranks["loss"], loss("run", "--adapter", "code")["loss"], places=5)
        self.fails(2, ("eval", "run", "--adapter", "cod"),
                   "evaluate.adapter: 'model' has no adapter 'cod' (did you mean 'code'?)",
                   'there are: poems, code; and "base" for the model alone')
        self.fails(2, ("eval", "t.toml", "--checkpoint", "code", "--adapter", "code"),
                   "names 'code', and samples choose no adapters")
        self.expect(0, "adapters", "rm", "run", "code", "--to", "less")
        self.fails(1, ("eval", "less"), "field 'adapter' is 1 in the evaluation")
        self.expect(0, "eval", "less", "--adapter", "poems")

    def test_a_run_that_evaluates_one_adapter(self):
        self.by_sample("evaluate.adapter=code", "checkpoint.best=loss.code")
        self.assertEqual(self.expect(0, "eval", "run", "--json").records[-1]["metrics"].keys()
                         & {"loss.poems", "loss.code"}, {"loss.code"})
        self.assertIn("loss.poems", self.expect(0, "eval", "run", "evaluate.adapter=poems",
                                                "--json").records[-1]["metrics"])
        # Samples choose again where it is no more.
        self.expect(0, "adapters", "rm", "run", "code", "--to", "less")
        self.assertNotIn('adapter = "code"', (self.folder / "less/run.toml").read_text())
        self.expect(0, "check", "less")

    def test_predictions_by_one_adapter(self):
        self.by_sample()
        own = '{type = "synthetic", samples = 20, shape = [8], classes = 3, first = 100}'
        predicted = lambda *words: [json.loads(line) for line in self.expect(
            0, "predict", *words, "--format", "jsonl", f"data.host={own}", "--dataset",
            "host").out.splitlines()]
        self.expect(0, "merge", "run", "--adapter", "code", "--to", "code")
        found, expected = predicted("run", "--adapter", "code"), predicted("code")
        self.assertEqual(len(found), 20)
        for one, other in zip(found, expected):
            for a, b in zip(one["output"], other["output"]):
                self.assertAlmostEqual(a, b, places=4)
        self.assertNotEqual(found, predicted("run", "--adapter", "poems"))
        self.fails(2, ("predict", "run", f"data.host={own}", "--dataset", "host"),
                   "[data.host] has no field 'adapter', which the model reads",
                   "or let all samples take one adapter: --adapter NAME")

    def test_a_column_of_integers_chooses(self):
        rows = [f"{i % 7 - 3},{i % 5 - 2},{i % 3},{i % 3 - 1}" for i in range(60)]
        self.write("t.csv", "a,b,label,adapter\n" + "\n".join(rows) + "\n")
        data = '{type = "csv", path = "t.csv", target = ["label"], target_type = "i32"%s}'
        words = ("run", "lora.toml", "model.adapter_field=adapter", "-q", "run.steps=4",
                 'model.adapters[0].names=["poems", "code"]')
        of = lambda more: (f"data.train={data % more}", f"data.eval={data % more}")
        found = self.expect(0, *words, *of(', integers = ["adapter"]'), "--run-dir", "run")
        self.expect(0, "eval", "run")
        self.assertIn("loss.code", self.expect(0, "eval", "run", "--json").records[-1]["metrics"])
        self.fails(2, (*words, *of("")), "[data.train] has no field 'adapter'",
                   "'adapter' is a column of its field 'input': let the dataset make a field of "
                   "integers of it, as `integers` does")

    def test_a_run_whose_base_is_gone(self):
        self.expect(0, "run", "t.toml", "--run-dir", "base", "-q", "run.steps=1")
        self.expect(0, "run", "lora.toml", "model.load=base", "--run-dir", "tuned", "-q",
                    "run.steps=1")
        self.expect(0, "check", "tuned")
        shutil.rmtree(self.folder / "base")
        said = self.fails(2, ("check", "tuned"), "tuned/run.toml:",
                          f"model.load names '{self.folder}/base', which does not exist").out
        self.assertIn(": model.load: ", said)

    def test_a_refused_resume_leaves_the_run_as_it_was(self):
        for seed in (1, 2):
            self.expect(0, "run", "t.toml", "--run-dir", f"base{seed}", "-q", "run.steps=1",
                        f"run.seed={seed}")
        self.expect(0, "run", "lora.toml", "model.load=base1", "--run-dir", "tuned", "-q",
                    "run.steps=2", "checkpoint.save=trained")
        before = {path.name: path.read_bytes() for path in (self.folder / "tuned").glob("run*")}
        self.fails(2, ("run", "lora.toml", "model.load=base2", "--run-dir", "tuned", "--resume",
                       "must", "run.steps=3", "checkpoint.save=trained"), "other weights")
        after = {path.name: path.read_bytes() for path in (self.folder / "tuned").glob("run*")}
        self.assertEqual(after, before)
        self.expect(0, "merge", "tuned", "--to", "alone")

    def test_a_run_is_used_from_any_folder(self):
        self.expect(0, "run", "t.toml", "--run-dir", "base", "-q", "run.steps=1")
        self.expect(0, "run", "lora.toml", "model.load=base", "--run-dir", "tuned", "-q",
                    "run.steps=2", "checkpoint.save=trained")
        here = self.expect(0, "eval", "tuned", "--json").records[-1]
        tuned, scratch = self.folder / "tuned", self.folder
        self.folder = scratch / "own"
        try:
            there = self.expect(0, "eval", tuned, "--json").records[-1]
        finally:
            self.folder = scratch
        self.assertEqual(there["loss"], here["loss"])

    def test_starts_beside_weights_of_the_model_alone(self):
        self.expect(0, "run", "t.toml", "--run-dir", "base", "-q", "run.steps=5")
        out = self.said("run", "lora.toml", "model.load=base", "--run-dir", "tuned", "run.steps=5")
        self.assertIn("has nothing of adapter 'lora', which starts with its initial values: 4 para",
                      out)
        # Nor of one whose values a checkpoint gives next.
        for words in (("eval", "tuned"), ("merge", "tuned", "--to", "alone"),
                      ("run", "tuned", "--run-dir", "tuned", "--resume", "must", "run.steps=6")):
            self.assertNotIn("has nothing of adapter", self.said(*words))
        # Nothing is said where all is there; a part of an adapter is no start.
        out = self.said("run", "lora.toml", "model.load=tuned", "run.steps=1")
        self.assertNotIn("adapter", out)
        self.fails(2, ("run", "lora.toml", "model.load=tuned",
                       'model.load_names=["linear1.weight.lora.a=nothing"]'),
                   "has a part of adapter 'lora' only: it lacks 'model.linear1.weight.lora.a'")

    def test_a_checkpoint_with_adapters(self):
        self.expect(0, "run", "lora.toml", "--run-dir", "run", "-q", "run.steps=5")
        out = self.said("run", "lora.toml", "--run-dir", "run", "--resume", "must", "run.steps=6",
                        "model.adapters[0].alpha=4")
        self.assertIn("model.adapters[0].alpha was 8.0, is 4.0", out)
        out = self.said("eval", "t.toml", "--checkpoint", "run")
        self.assertIn("has parameters that this model lacks, and which are not read: "
                      "'model.linear1.weight.lora.a' and 3 more", out)
        self.fails(2, ("eval", "lora.toml", "--checkpoint", "run", "model.adapters[0].rank=3"),
                   "of model.adapters[0] (lora.toml:")
        self.assertNotIn("lacks", self.said("eval", "run"))

    def test_bind_is_the_same_experiment(self):
        bound = self.expect(0, "bind", "lora.toml").out
        self.write("bound.toml", bound)
        self.assertEqual(self.expect(0, "bind", "bound.toml").out.split("\n", 3)[-1], bound.split("\n", 3)[-1])


if __name__ == "__main__":
    unittest.main()
