"""What is said, and with which exit code, when something is wrong."""

import unittest

from support import Case, TINY


class CommandLine(Case):
    def test_unknown_words(self):
        self.fails(2, ["chekc", "x.toml"], "no verb 'chekc'", "did you mean 'check'?", "completion")
        self.fails(2, [], "Usage: plait")
        self.fails(2, ["run"], "plait run needs FILE: experiment file", "plait new NAME", "plait run --help")
        self.fails(2, ["run", "x.toml", "--rum-dir", "d"], "no option '--rum-dir'", "did you mean '--run-dir'?")
        self.fails(2, ["run", "x.toml", "--steps", "5"], "no option '--steps'", "without dashes, as in run.steps=5")
        self.fails(2, ["--jsno", "run", "x.toml"], "did you mean '--json'?")
        self.fails(2, ["new", "demo", "--form=tiny"], "no option '--form', did you mean '--from'?; see plait new --help")
        self.fails(2, ["new", "demo", "extra"], "'extra' is a word too many")

    def test_values_of_options(self):
        self.fails(2, ["run", "x.toml", "--resume", "maybe"], "--resume: 'maybe' is none of auto, never, must; see plait run --help")
        self.fails(2, ["run", "x.toml", "--resume"], "--resume needs one of auto, never, must after it")
        self.fails(2, ["new", "demo", "--from"], "--from needs a TEMPLATE after it")
        self.fails(2, ["env", "--data"], "--data needs a DIR after it")
        self.fails(2, ["completion", "zsh"], "'zsh' is none of bash")

    def test_verbs_of_verbs(self):
        self.fails(2, ["data"], "plait data needs one of: get, show")
        self.fails(2, ["data", "gte"], "there is no 'plait data gte', did you mean 'get'?; there are: get, show")
        self.fails(2, ["data", "get"], "plait data get needs SET: mnist or fashion-mnist; see plait data get --help")

    def test_help_as_a_word(self):
        for words in (["help"], ["help", "run"], ["help", "data", "get"]):
            self.assertEqual(self.expect(0, *words).out, self.expect(0, *words[1:], "--help").out)
        self.assertEqual(self.expect(0, "version").out, self.expect(0, "--version").out)

    def test_json(self):
        record = self.fails(2, ["nonsense", "--json"]).records[0]
        self.assertEqual((record["event"], record["exit"]), ("error", 2))

    def test_absent_files(self):
        self.fails(2, ["run", "nope.toml"], "nope.toml", "no such file")
        self.fails(2, ["run", "."], "without an experiment.toml")
        self.fails(2, ["check", "nope.toml"], "nope.toml")
        self.write("demo.toml", TINY)
        self.fails(2, ["plan", "dmeo.toml"], "no such file or folder: 'dmeo.toml', did you mean 'demo.toml'?", "plait new NAME")
        self.fails(2, ["plan", "./sub/dmeo.toml"], "no such file or folder: './sub/dmeo.toml';")
        self.fails(2, ["run", "nope.toml", "--data", "nope"], "--data 'nope' is no folder")

    def test_new(self):
        self.fails(2, ["new", "demo", "--from", "tinny"], "'tinny'", "did you mean 'tiny'?")
        self.fails(2, ["new", "a b"], "'a b' can't name an experiment")
        self.fails(2, ["new"], "NAME")
        self.expect(0, "new", "demo")
        self.fails(2, ["new", "demo"], "is there already", "--yes")

    def test_plugins(self):
        self.fails(2, ["plugins", "linaer"], "did you mean 'linear'?")
        self.fails(2, ["plugins", "inspect"], "plait plugins inspect FILE")
        self.write("text.so", "not a library")
        self.fails(3, ["plugins", "inspect", "text.so"], "text.so")
        self.fails(3, ["plugins", "--plugins", "text.so"], "text.so")
        self.assertIn(self.plait("plugins", "--plugins", "absent.so").code, (2, 3))

    def test_data(self):
        self.fails(2, ["data", "get", "minst"], "did you mean 'mnist'?")
        self.fails(2, ["data"], "plait data --help")


class Files(Case):
    def check(self, toml, *texts, code=2):
        """`check` lists the problems; `run` refuses with the same texts."""
        self.write("t.toml", toml)
        self.fails(code, ["check", "t.toml"], *texts)
        self.fails(code, ["run", "t.toml"], *texts)
        self.assertFalse((self.folder / "runs").exists())

    def test_broken_toml(self):
        self.check("[run]\nname = \n", "t.toml:2:")
        self.check("a = [1\nb = 2\n", "t.toml:2:1")

    def test_unknown_key_and_item(self):
        self.check(TINY.replace("steps = 40", "stesp = 40"), "t.toml:3:1: run.stesp: ", "'steps'")
        self.check(TINY.replace('"relu"', '"rleu"'), "t.toml:18:", "unknown layer 'rleu'", "did you mean 'relu'?")
        self.check(TINY.replace('"adamw"', '"adamv"'), "unknown optimizer 'adamv'", "did you mean 'adam'?")

    def test_all_problems_at_once(self):
        toml = TINY.replace("steps = 40", "stesp = 40").replace("global = 16", "global = -1").replace("classes = 3", 'classes = "x"')
        self.write("t.toml", toml)
        outcome = self.expect(2, "check", "t.toml", "--json")
        lines = [problem["line"] for problem in outcome.records[0]["problems"]]
        self.assertEqual(lines, [3, 5, 10, 15])
        self.assertTrue(all(problem["column"] > 0 and problem["message"] for problem in outcome.records[0]["problems"]))

    def test_wrong_types_and_ranges(self):
        self.check(TINY.replace("rate = 0.01", 'rate = "fast"'), "optimizer.rate", "number")
        self.check(TINY.replace("global = 16", "global = 0"), "batch.global", "t.toml:5:")
        self.check(TINY.replace("out = 16", "out = 0"), "model.layers[0].out", "1")

    def test_required_values(self):
        self.check(TINY.replace("global = 16", 'global = "???"'), "batch.global", "t.toml:5:")
        self.check(TINY.replace("[batch]\nglobal = 16\n", ""), "batch.global")
        self.write("t.toml", TINY.replace("global = 16", 'global = "???"'))
        self.expect(0, "check", "t.toml", "batch.global=16")

    def test_shapes(self):
        layers = '{type = "linear", out = 3}, {type = "concat", from = ["x", "nowhere"]}'
        self.check(TINY.replace('{type = "linear", out = 3}', layers), "nowhere")
        self.check(TINY.replace("classes = 3", "classes = 0"), "cross_entropy")

    def test_overrides(self):
        self.write("t.toml", TINY)
        self.fails(2, ["check", "t.toml", "optimizer.rat=1"], "override 'optimizer.rat=1'", "'rate'")
        self.fails(2, ["check", "t.toml", "optimizer"], "override 'optimizer'", "=")
        self.fails(2, ["run", "t.toml", "model.layers[9].out=1"], "4 elements")

    def test_missing_and_malformed_data(self):
        idx = 'type = "idx"\nimages = "images.gz"\nlabels = "labels.gz"\n'
        start, end = TINY.index("[data.train]"), TINY.index("[data.eval]")
        self.write("t.toml", TINY[:start] + "[data.train]\n" + idx + TINY[end:])
        self.fails(2, ["run", "t.toml"], "images.gz")
        self.write("images.gz", "no idx file")
        self.write("labels.gz", "no idx file")
        outcome = self.plait("run", "t.toml")
        self.assertIn(outcome.code, (1, 2))
        self.assertIn("images.gz", outcome.err)

    def test_device(self):
        self.write("t.toml", TINY)
        self.fails(2, ["run", "t.toml", "run.device=cup"], "'cup'", "'cpu'")


if __name__ == "__main__":
    unittest.main()
