"""Every verb, used as meant."""

import re
import unittest

from support import Case, ROOT, TINY


class Verbs(Case):
    def test_version_and_help(self):
        self.assertEqual(self.expect(0, "-V").out, self.expect(0, "--version").out)
        self.assertEqual(self.expect(0, "version", "--json").records[0]["abi"], 1)
        self.assertIn("Usage: plait run", self.expect(0, "help", "run", "--json").records[0]["help"])
        self.assertRegex(self.expect(0, "--version").out, r"^plait \d+\.\d+\.\d+ \(ABI \d+\)$")
        top = self.expect(0, "--help").out
        for verb in ("run", "sweep", "submit", "runs", "status", "compare", "plot", "board", "check", "plan", "bind", "new", "eval", "checkpoint", "plugins", "keys", "ops", "data", "devices", "env", "completion"):
            self.assertIn(f"\n  {verb} ", top)
            self.assertIn("Usage: plait " + verb, self.expect(0, verb, "--help").out)

    def test_help_of_several_words(self):
        text = self.expect(0, "export", "--help").out
        self.assertIn("Usage: plait export [OPTIONS] CHECKPOINT OUT\n", text)
        self.assertRegex(text, r"\n  CHECKPOINT OUT +a checkpoint")

    def test_first_steps(self):
        self.expect(0, "new", "demo", "--from", "tiny")
        done = self.expect(0, "run", "demo")
        accuracy = re.search(r"^accuracy (\d\.\d{4})$", done.out, re.M)
        self.assertGreater(float(accuracy[1]), 0.8)
        self.assertIn("samples/s", done.out)
        self.assertTrue(list(self.folder.glob("runs/demo/*/metrics.ndjson")))

    def test_new(self):
        listed = self.expect(0, "new", "--list", "--json").records
        examples = {path.name for path in (ROOT / "examples").iterdir() if path.is_dir()}
        self.assertEqual({record["name"] for record in listed}, {"tiny"} | examples)
        self.assertTrue(all(record["help"] for record in listed))
        for name in ("mnist_mlp", "mnist_adamw"):
            told = self.expect(0, "new", f"sub/{name}", "--from", name).out
            self.assertIn(f"then:\n  plait data get mnist\n  plait run sub/{name} --data data\n", told)
            told = self.expect(0, "new", f"sub/{name}", "--from", name, "--yes", "--data", ".").out
            self.assertIn(f"then:\n  plait data get mnist --data .\n  plait run sub/{name} --data .\n", told)
            told = self.expect(0, "new", f"sub/{name}", "--from", name, "--yes", env={"PLAIT_DATA": "."}).out
            self.assertIn(f"then:\n  plait data get mnist\n  plait run sub/{name}\n", told)
            made = (self.folder / "sub" / name / "experiment.toml").read_text()
            self.assertEqual(made, (ROOT / "examples" / name / "experiment.toml").read_text())
        for name in examples:
            made = self.expect(0, "new", f"all/my_{name}", "--from", name, "--json").records[0]
            self.assertEqual({path.name for path in (self.folder / "all" / f"my_{name}").iterdir()},
                             {path.name for path in (ROOT / "examples" / name).iterdir() if path.suffix != ".svg"})
            toml = self.folder / "all" / f"my_{name}" / "experiment.toml"
            if toml.exists():
                self.assertIn(f'\nname = "my_{name}"\n', toml.read_text())
            self.assertNotIn("examples/" + name, " ".join(made["next"]))
        told = self.expect(0, "new", "poet", "--from", "shakespeare", env={"PLAIT_DATA": "there"}).out
        self.assertIn("plait data tokenize there/tinyshakespeare/input.txt --tokenizer chars --option path=there/tinyshakespeare/input.txt "
                      "--out there/shakespeare\n  plait run poet\n", told)
        self.assertIn("README.md in it says what it needs", self.expect(0, "new", "c", "--from", "embed_c").out)
        self.expect(0, "new", "sub/mnist_mlp", "--yes")  # replaced by the default template
        self.assertIn("synthetic", (self.folder / "sub/mnist_mlp/experiment.toml").read_text())

    def test_check(self):
        self.write("t.toml", TINY)
        self.assertEqual(self.expect(0, "check", "t.toml").out, "t.toml: no problems\n")
        self.assertEqual(self.expect(0, "check", "t.toml", "--json").records, [{"schema": 1, "file": "t.toml", "problems": []}])

    def test_plan(self):
        self.write("t.toml", TINY)
        plan = self.expect(0, "plan", "t.toml", "--json").records[0]
        self.assertEqual(plan["parameter_count"], 8 * 16 + 16 + 16 * 3 + 3)
        self.assertEqual(plan["steps"], 40)
        self.assertGreater(plan["memory"]["total"], 0)
        text = self.expect(0, "plan", "t.toml", "-v").out
        for word in ("parameters: 195", "memory of this rank", "programs", "model.linear1.weight", "matmul", "f32 (16, 8)"):
            self.assertIn(word, text)
        self.assertFalse((self.folder / "runs").exists())

    def test_explain(self):
        self.write("t.toml", TINY)
        for words in ([], ["-q"]):
            said = self.expect(0, "plan", "t.toml", *words, env={"PLAIT_EXPLAIN": "1"}).err
            lines = [line for line in said.splitlines() if line.startswith("[explain] ")]
            plan = self.expect(0, "plan", "t.toml", "--json").records[0]
            self.assertEqual(len(lines), sum(len(program["kernels"]) for program in plan["programs"]))
            self.assertRegex(said, r"\[explain\] forward_backward model\.linear1 matmul f32 \(16, 16\): \w+")
            self.assertRegex(said, r"\[explain\] evaluate model\.accuracy concat f32 \(2\): plain .*; refused: parallel: too small")
        self.assertEqual(self.expect(0, "plan", "t.toml", "-q").err, "")

    def test_bind_is_complete_and_stable(self):
        self.write("t.toml", TINY)
        first = self.expect(0, "bind", "t.toml").out
        self.assertIn("# [[model.adapters]]\n", first)  # which the file lacks
        self.assertRegex(first, r"\n# # options of lora: rank = 8, alpha = ")
        adapted = self.expect(0, "bind", "t.toml",
                              'model.adapters=[{type="ia3", match=["*.weight"]}]')
        self.assertNotIn("options of lora", adapted.out)
        self.assertIn("seed = 42", first)
        self.assertIn("momentum" if "sgd" in first else "eps = ", first)
        self.write("bound.toml", first)
        self.assertEqual(self.expect(0, "bind", "bound.toml").out, first)
        record = self.expect(0, "bind", "t.toml", "run.seed=7", "--json").records[0]
        self.assertEqual(record["values"]["run.seed"]["value"], 7)
        self.assertEqual(record["values"]["run.steps"]["origin"], "t.toml:3:9")
        for table in ("[loss]", "[[metrics]]", "[optimizer]"):  # as examples write it
            self.assertIn(f"\n{table}\n", first)
        self.write("long.toml", TINY.replace("[optimizer]", "[model.optimizer]"))
        rate = self.expect(0, "bind", "long.toml", "--json").records[0]["values"]["optimizer.learning_rate"]
        self.assertEqual((rate["key"], rate["value"]), ("model.optimizer.learning_rate", 0.01))

    def test_a_table_of_tables_is_found(self):
        whole = self.expect(0, "keys", "data.NAME.normalize.FIELD").out
        self.assertIn("normalize = \"auto\" for all inputs", whole)
        for word in ("normalize", "data.NAME.normalize", "data.train.normalize", "normalize.FIELD", "data.eval.normalize.image"):
            self.assertEqual(self.expect(0, "keys", word).out, whole, word)

    def test_bind_prints_every_declared_key(self):
        self.write("t.toml", TINY + '[tokenizer]\ntype = "bytes"\n')
        found, header = {}, ""
        for line in self.expect(0, "bind", "t.toml").out.splitlines():
            line = re.sub(r"^(# ?)+", "", line)  # what the file lacks stands there as a comment
            if table := re.fullmatch(r"\[\[?([\w.]+)\]\]?", line):
                header = table[1]
            elif key := re.match(r"(\w+) = ", line):
                found.setdefault(header, set()).add(key[1])
        tables = self.expect(0, "keys", "--json").records
        self.assertGreater(len(tables), 20)
        for table in tables:
            path = table["path"].replace("[]", "").replace("NAME", "train")
            lacking = {key["name"] for key in table["keys"]} - found.get(path, set())
            self.assertEqual(lacking, set(), table["path"])

    def test_where_values_are_from(self):
        self.write("t.toml", TINY)
        lines = self.expect(0, "bind", "t.toml", "run.seed=3", "--origin", env={"PLAIT__RUN__OUT": "there"}).out.splitlines()
        found = {line.split()[0]: re.split(r"\s{2,}", line)[1:] for line in lines}
        self.assertEqual(found["run.steps"], ["40", "t.toml:3:9"])
        self.assertEqual(found["run.seed"], ["3", "override 'run.seed=3'"])
        self.assertEqual(found["run.out"], ['"there"', "environment variable PLAIT__RUN__OUT=there"])
        self.assertEqual(found["run.epochs"], ["0", "default"])
        given = self.expect(0, "bind", "t.toml", "--given", "--json").records
        self.assertTrue(given and all(record["origin"] != "default" for record in given))

    def test_extends_is_a_key(self):
        self.assertIn('`extends = ["base.toml"]`, above all tables', self.expect(0, "keys", "extends").out)

    def test_extends(self):
        self.write("base.toml", TINY)
        self.write("own.toml", 'extends = ["base.toml"]\n[run]\nsteps = 7\n[optimizer]\ntype = "sgd"\nmomentum = 0.5\n')
        self.assertEqual(self.expect(0, "run", "own.toml", "--run-dir", "r", "--json").event("done")["step"], 7)
        given = {record["key"]: record["origin"] for record in self.expect(0, "bind", "own.toml", "--given", "--json").records}
        self.assertEqual((given["run.steps"], given["run.name"], given["optimizer.momentum"]), ("own.toml:3:9", "base.toml:2:8", "own.toml:6:12"))
        self.expect(0, "run", "r", "run.steps=9", "--run-dir", "r", "--resume", "must", "-q")  # run.toml needs no base
        self.write("base.toml", TINY.replace("steps = 40", "stesp = 40"))
        self.fails(2, ["check", "own.toml"], "base.toml:3:1: run.stesp: ", "'steps'")

    def test_overrides(self):
        self.write("t.toml", TINY)
        values = self.expect(0, "bind", "t.toml", "run.seed=3", "--set", "run.seed=2", "--set", "run.steps=9", "~metrics", "--json",
                             env={"PLAIT__RUN__SEED": "1", "PLAIT__RUN__NAME": "other"}).records[0]["values"]
        self.assertEqual(values["run.seed"]["value"], 3)  # positional over --set over environment
        self.assertEqual(values["run.steps"]["value"], 9)
        self.assertEqual(values["run.name"]["value"], "other")
        self.assertNotIn("metrics[0].type", values)

    def test_run_as_json(self):
        self.write("t.toml", TINY)
        done = self.expect(0, "run", "t.toml", "--json", "run.log_every=10")
        self.assertEqual([record["step"] for record in done.records if record["event"] == "step"], [10, 20, 30, 40])
        last = done.event("done")
        folder = last["run_dir"]
        self.assertTrue({"start", "evaluate", "checkpoint", "done"} <= {r["event"] for r in done.records})
        for record in done.records:  # of one name, whoever writes the line
            self.assertEqual(record.get("run_dir", folder), folder)
            self.assertEqual("run_dir" in record, record["event"] != "step")
            self.assertNotIn("run", record)
        self.assertEqual(last["step"], 40)
        self.assertEqual(last["evaluation"]["samples"], 100)
        self.assertIn("accuracy", last["evaluation"]["metrics"])
        self.assertEqual(self.expect(0, "run", "t.toml", "-q", "run.steps=1").err, "")

    def test_the_experiment_that_the_guide_begins_with(self):
        guide = (ROOT / "GUIDE.md").read_text()
        begin = guide.index("```toml", guide.index("## An experiment")) + len("```toml")
        self.write("digits.toml", guide[begin:guide.index("```", begin)])
        for name, kind, shape, size in (("images", "<f4", "(640, 28, 28)", 640 * 28 * 28 * 4), ("labels", "<i4", "(640,)", 640 * 4)):
            head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}}}\n"
            (self.folder / f"{name}.npy").write_bytes(b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head.encode() + bytes(size))
        self.assertIn("digits.toml: no problems", self.expect(0, "check", "digits.toml").out)
        self.expect(0, "plan", "digits.toml", "-q")
        self.expect(0, "run", "digits.toml", "optimizer.learning_rate=3e-4", "-q")

    def test_a_student_learns_from_labels_and_from_a_trained_teacher(self):
        """As the guide has it; every third label is missing."""
        rows = ["a,b,c,label"]
        rows += [f"{i % 7 - 3},{i % 5 - 2},{i % 3 - 1},{-1 if i % 3 == 0 else (i % 7 > 3) + (i % 5 > 2)}" for i in range(120)]
        self.write("d.csv", "\n".join(rows) + "\n")
        start, end = TINY.index("[data.train]"), TINY.index("[model]")
        data = '{type = "csv", path = "d.csv", target = ["label"], target_type = "i32"}'
        self.write("teacher.toml", TINY[:start] + f"[data]\ntrain = {data}\neval = {data}\n" + TINY[end:])
        self.expect(0, "run", "teacher.toml", "--run-dir", "teacher", "-q")
        guide = (ROOT / "GUIDE.md").read_text()
        begin = guide.index("[models.teacher]")
        student = guide[begin:guide.index("```", begin)].replace("runs/teacher", "teacher")
        student = student.replace("512", "16").replace("out = 10", "out = 3")
        self.write("student.toml", TINY[:start] + f"[data]\ntrain = {data}\neval = {data}\n" + student)
        done = self.expect(0, "run", "student.toml", "--run-dir", "student", "evaluate.every=1", "--json")
        first, *_, last = [record for record in done.records if record["event"] == "evaluate"]
        for name in ("loss.student.cross_entropy", "loss.student.mse"):
            self.assertLess(last[name], first[name])
        evaluation = done.event("done")["evaluation"]
        self.assertAlmostEqual(evaluation["loss"], last["loss.student.cross_entropy"] + 0.5 * last["loss.student.mse"], delta=1e-6)

    def test_eval(self):
        self.write("t.toml", TINY)
        trained = self.expect(0, "run", "t.toml", "--run-dir", "r", "--json").event("done")
        for place in ("r", "r/ckpt", "r/ckpt/step-0000000040"):
            evaluation = self.expect(0, "eval", "t.toml", "--checkpoint", place, "--json").records[0]
            self.assertEqual(evaluation["metrics"], trained["evaluation"]["metrics"])
            self.assertEqual(evaluation["step"], 40)
        self.assertIn("accuracy ", self.expect(0, "eval", "r", "--checkpoint", "r", "--dataset", "train").out)
        self.assertEqual(self.expect(0, "eval", "r", "--json").records[0]["metrics"], trained["evaluation"]["metrics"])
        self.fails(2, ["eval", "t.toml"], "plait eval needs --checkpoint DIR")
        found = trained["evaluation"]["metrics"]["accuracy"]
        for met in (["accuracy>=0"], ["loss < 1e9", "accuracy<=1"], [f"accuracy=={found!r}"]):
            self.expect(0, "eval", "r", *(word for one in met for word in ("--require", one)))
        for ranks in ((), ("topology.data=2",)):
            outcome = self.fails(1, ["eval", "r", *ranks, "--require", "accuracy > 1.5",
                                     "--require", "loss<=-1", "--require", "accuracy>=0"],
                                 "--require is not met by [data.eval]: accuracy is ",
                                 ", expected > 1.5; loss is ", ", expected <= -1")
            self.assertIn("accuracy ", outcome.out)  # it is told all the same
            self.assertEqual(outcome.err.count("--require is not met"), 1)
        self.fails(2, ["eval", "r", "--require", "acuracy>=0"], "no metric 'acuracy'; did you mean "
                   "'accuracy'?; there are: accuracy, loss")
        for wrong in ("accuracy", "accuracy>=", ">=0.5", "accuracy=>0.5", "accuracy>=high",
                      "loss=1"):
            self.fails(2, ["eval", "r", "--require", wrong],
                       f"--require: found '{wrong}', expected")
        self.fails(2, ["eval", "t.toml", "--checkpoint", "nowhere"], "'nowhere' does not exist")

    def test_ops(self):
        self.assertIn("softmax_grad", self.expect(0, "ops").out)
        self.assertIn("transpose_b = false", self.expect(0, "ops", "matmul").out)
        self.assertIn("depth (required)", self.expect(0, "ops", "one_hot").out)
        [record] = self.expect(0, "ops", "reduce", "--json").records
        self.assertEqual([a["name"] for a in record["attributes"]], ["kind", "axes", "keep"])

    def test_plugins(self):
        listed = self.expect(0, "plugins").out
        for word in ("layer linear", "optimizer sgd", "device cpu", "dataset idx"):
            self.assertIn(word, listed)
        self.assertIn("loaded", self.expect(0, "plugins", "--report").out)
        self.assertIn("out (required)", self.expect(0, "plugins", "linear").out)
        kinds = {record["name"] for record in self.expect(0, "plugins", "optimizer", "--json").records}
        self.assertTrue({"sgd", "adamw"} <= kinds and "linear" not in kinds)
        path = next(p["path"] for p in self.expect(0, "plugins", "--json").records[0]["plugins"] if p["name"] == "layer-dense")
        facts = self.expect(0, "plugins", "inspect", path, "--json").records[0]
        self.assertEqual(facts["note"]["name"], "layer-dense")
        self.assertEqual(facts["exports"], ["plait_plugin_v1"])

    def test_env(self):
        facts = self.expect(0, "env", "--json", "--data", ".").records[0]
        self.assertEqual(facts["abi"], 1)
        self.assertIn("cpu", [device["name"] for device in facts["devices"]])
        self.assertEqual(facts["data_folder"], ".")
        self.assertIn("launcher", self.expect(0, "env").out)

    def test_devices(self):
        devices = self.expect(0, "devices", "--json").records[0]["devices"]
        self.assertEqual(devices, self.expect(0, "env", "--json").records[0]["devices"])
        rows = {line.split()[0]: line for line in self.expect(0, "devices").out.splitlines()}
        self.assertEqual(set(rows), {device["name"] for device in devices})
        self.assertIn("reference", rows)
        for device in devices:
            self.assertEqual(" not usable " in rows[device["name"]], not device["usable"])
            self.assertIn(device["detail"] or device["help"], rows[device["name"]])

    def test_keys(self):
        self.assertIn("seed = 42  integer >= 0; seed of initial values", self.expect(0, "keys", "run.seed").out)
        self.assertNotIn("epochs", self.expect(0, "keys", "run.seed").out)
        for word in ("model.layers", "model.layers[]", "[[model.layers]]", "model.layers[3].name"):
            self.assertIn("[[model.layers]]", self.expect(0, "keys", word).out)
        for word, table in (("early_stop", "[evaluate.early_stop]"), ("groups", "[[optimizer.groups]]")):
            self.assertIn(table, self.expect(0, "keys", word).out)
        self.assertIn("out (required)", self.expect(0, "keys", "linear").out)
        paths = {record["path"] for record in self.expect(0, "keys", "--json").records}
        self.assertTrue({"run", "model.layers[]", "optimizer.schedule", "data.NAME", "device"} <= paths)
        self.fails(2, ["keys", "lerning_rate"], "did you mean 'learning_rate'?")
        self.assertEqual(self.expect(0, "plugins", "sgd").out.count("default"), 1)  # of the rates, which have no column

    def test_the_page_of_all_keys(self):
        """REFERENCE.md is current: each part that this build makes. It may lack plugins that need what this machine has not."""
        def parts(text):
            pieces = re.split(r"^(?=##)", text, flags=re.M)
            return {piece.split("\n")[0]: piece.rstrip("\n") for piece in pieces}
        page, made = parts((ROOT / "REFERENCE.md").read_text()), parts(self.expect(0, "keys", "--markdown").out)
        for title, part in made.items():
            self.assertEqual(part, page.get(title), f"write it anew: plait keys --markdown > REFERENCE.md ({title})")
        here = {plugin["name"] for plugin in self.expect(0, "plugins", "--json").records[0]["plugins"]}
        for title in page.keys() - made.keys():
            plugin = re.search(r"Of the plugin `(\S+)`", page[title])
            self.assertFalse(plugin is None or plugin[1] in here, title)

    def test_log_has_times(self):
        self.write("t.toml", TINY)
        self.expect(0, "run", "t.toml", "--run-dir", "r", "-q")
        self.assertRegex((self.folder / "r/log/rank-0.log").read_text(), r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z info  \[evaluate\] step 40: .* in [\d.e+-]+ m?s\n$")
        self.assertIn('"run":"r"', (self.folder / "r/metrics.ndjson").read_text())


if __name__ == "__main__":
    unittest.main()
