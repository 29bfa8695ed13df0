"""Every verb, used as meant."""

import re
import shutil
import subprocess
import unittest

from support import Case, ROOT, TIME, TINY


class Verbs(Case):
    def test_version_and_help(self):
        self.assertRegex(self.expect(0, "--version").out, r"^plait \d+\.\d+\.\d+ \(ABI \d+\)$")
        top = self.expect(0, "--help").out
        for verb in ("run", "sweep", "runs", "status", "compare", "plot", "board", "check", "plan", "bind", "new", "eval", "checkpoint", "plugins", "ops", "data", "env", "completion"):
            self.assertIn(f"\n  {verb} ", top)
            self.assertIn("Usage: plait " + verb, self.expect(0, verb, "--help").out)

    def test_first_steps(self):
        self.expect(0, "new", "demo", "--from", "tiny")
        done = self.expect(0, "run", "demo")
        accuracy = re.search(r"^accuracy (\d\.\d{4})$", done.out, re.M)
        self.assertGreater(float(accuracy[1]), 0.8)
        self.assertIn("samples/s", done.out)
        self.assertTrue(list(self.folder.glob("runs/demo/*/metrics.ndjson")))

    def test_new(self):
        listed = self.expect(0, "new", "--list", "--json").records
        self.assertEqual({record["name"] for record in listed}, {"tiny", "mnist_mlp", "mnist_adamw"})
        for name in ("mnist_mlp", "mnist_adamw"):
            told = self.expect(0, "new", f"sub/{name}", "--from", name).out
            self.assertIn("download the data first: plait data get mnist\n", told)
            self.assertIn(f"train it: plait run sub/{name} --data data\n", told)
            told = self.expect(0, "new", f"sub/{name}", "--from", name, "--yes", "--data", ".").out
            self.assertIn("plait data get mnist --data .\n", told)
            self.assertIn(f"plait run sub/{name} --data .\n", told)
            made = (self.folder / "sub" / name / "experiment.toml").read_text()
            self.assertEqual(made, (ROOT / "examples" / name / "experiment.toml").read_text())
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
        self.assertIn("seed = 42", first)
        self.assertIn("momentum" if "sgd" in first else "eps = ", first)
        self.write("bound.toml", first)
        self.assertEqual(self.expect(0, "bind", "bound.toml").out, first)
        record = self.expect(0, "bind", "t.toml", "run.seed=7", "--json").records[0]
        self.assertEqual(record["values"]["run.seed"]["value"], 7)
        self.assertEqual(record["values"]["run.steps"]["origin"], "t.toml:3:9")

    def test_overrides(self):
        self.write("t.toml", TINY)
        values = self.expect(0, "bind", "t.toml", "run.seed=3", "--set", "run.seed=2", "--set", "run.steps=9", "~metrics", "--json",
                             env={"PLAIT__RUN__SEED": "1", "PLAIT__RUN__NAME": "other"}).records[0]["values"]
        self.assertEqual(values["run.seed"]["value"], 3)  # positional over --set over environment
        self.assertEqual(values["run.steps"]["value"], 9)
        self.assertEqual(values["run.name"]["value"], "other")
        self.assertNotIn("model.metrics[0].type", values)

    def test_run_as_json(self):
        self.write("t.toml", TINY)
        done = self.expect(0, "run", "t.toml", "--json", "run.log_every=10")
        self.assertEqual([record["step"] for record in done.records if record["event"] == "step"], [10, 20, 30, 40])
        last = done.event("done")
        self.assertEqual(last["step"], 40)
        self.assertEqual(last["evaluation"]["samples"], 100)
        self.assertIn("accuracy", last["evaluation"]["metrics"])
        self.assertEqual(self.expect(0, "run", "t.toml", "-q", "run.steps=1").err, "")

    def test_eval(self):
        self.write("t.toml", TINY)
        trained = self.expect(0, "run", "t.toml", "--run-dir", "r", "--json").event("done")
        for place in ("r", "r/ckpt", "r/ckpt/step-0000000040"):
            evaluation = self.expect(0, "eval", "t.toml", "--checkpoint", place, "--json").records[0]
            self.assertEqual(evaluation["metrics"], trained["evaluation"]["metrics"])
            self.assertEqual(evaluation["step"], 40)
        self.assertIn("accuracy ", self.expect(0, "eval", "r", "--checkpoint", "r", "--dataset", "train").out)

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

    def completed(self, line):
        """What bash offers behind the line, whose last word is being written."""
        words = line.split(" ")
        script = self.expect(0, "completion", "bash").out + "COMP_WORDS=(" + " ".join(f"'{word}'" for word in words) + ")\n"
        script += f"COMP_CWORD={len(words) - 1}; COMPREPLY=(); _plait; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        done = subprocess.run(["bash", "-c", script], cwd=self.folder, capture_output=True, text=True, timeout=TIME)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split("\n")[:-1]

    def test_completion(self):
        self.write("a b.toml", "")
        self.assertEqual(self.completed("plait pl"), ["plan", "plot", "plugins"])
        self.assertEqual(self.completed("plait --json --data x pl"), ["plan", "plot", "plugins"])
        self.assertEqual(self.completed("plait run --re"), ["--resume"])  # not --report, of plugins
        self.assertEqual(self.completed("plait run --resume "), ["auto", "never", "must"])
        self.assertEqual(self.completed("plait run a"), ["a b.toml"])
        self.assertEqual(self.completed("plait --data d run demo --se"), ["--set"])
        self.assertEqual(self.completed("plait data "), ["get", "tokenize", "show"])
        self.assertEqual(self.completed("plait data tokenize --st"), ["--strict"])
        self.assertEqual(self.completed("plait checkpoint "), ["ls", "verify", "diff", "convert"])
        self.assertEqual(self.completed("plait checkpoint diff --only "), ["tensors", "parameters"])
        self.assertEqual(self.completed("plait help pro"), ["profile"])
        self.assertEqual(self.completed("plait completion "), ["bash", "zsh", "fish"])
        self.assertIn("--json", self.completed("plait check --"))

    def test_completion_of_other_shells(self):
        for shell, check in (("zsh", ["-n", "-c"]), ("fish", ["--no-execute", "-c"])):
            script = self.expect(0, "completion", shell).out
            self.assertIn("--resume" if shell == "zsh" else "-l 'resume'", script)
            if shutil.which(shell):  # its syntax
                done = subprocess.run([shell, *check, script], capture_output=True, text=True, timeout=TIME)
                self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
