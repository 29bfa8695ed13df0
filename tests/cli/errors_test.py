"""Error messages and exit codes."""

import json
import os
import signal
import struct
import subprocess
import unittest

from support import Case, PLAIT, TIME, TINY, checkpoint_files


class CommandLine(Case):
    def test_unknown_words(self):
        (self.folder / "examples/mnist_mlp").mkdir(parents=True)
        self.fails(2, ["run", "mnist_mlp"], "no such file or folder: 'mnist_mlp' (did you mean 'examples/mnist_mlp'?)")
        self.fails(2, ["train", "x.toml"], "there is no verb 'train' (plait run FILE trains); verbs are: ")
        self.fails(2, ["chekc", "x.toml"], "no verb 'chekc'", "did you mean 'check'?", "completion")
        self.fails(2, [], "Usage: plait")
        self.fails(2, ["run"], "plait run needs FILE: experiment file", "plait new NAME", "plait run --help")
        self.fails(2, ["run", "x.toml", "--rum-dir", "d"], "no option '--rum-dir'", "did you mean '--run-dir'?")
        self.fails(2, ["run", "x.toml", "--steps", "5"], "no option '--steps'", "without dashes: run.steps=5")
        self.fails(2, ["--jsno", "run", "x.toml"], "did you mean '--json'?")
        self.fails(2, ["new", "demo", "--form=tiny"], "no option '--form' (did you mean '--from'?); see plait new --help")
        self.fails(2, ["new", "demo", "extra"], "unexpected argument 'extra'")
        self.fails(2, ["profile", "demo", "--top", "x"], "[cli] --top is 'x', expected a number; see plait profile --help")
        self.fails(2, ["profile", "demo", "--top", "1.5"], "[cli] --top is '1.5', expected a whole number in its range; see")
        for most in ("99999999999999999999", "-99999999999999999999"):
            self.fails(2, ["plan", "demo", "--rank", most],
                       f"--rank: expected a whole number of 0 or more, found '{most}', which 64 bits do not hold; see plait plan --help")
        self.assertNotIn("did you mean", self.fails(2, ["run", "demo", "-o", "x"], "there is no option '-o'; to override").err)
        self.fails(2, ["run", "x.toml", "-m"], "no option '-m'; several values of a key are a sweep: plait sweep FILE key=a,b")
        self.fails(2, ["run", "x.toml", "--nproc-per-node", "2"], "no option '--nproc-per-node'; --ranks N starts N processes")

    def test_values_of_options(self):
        self.fails(2, ["run", "x.toml", "--resume", "maybe"], "--resume: 'maybe' is not one of auto, never, must; see plait run --help")
        self.fails(2, ["run", "x.toml", "--resume"], "--resume needs one of auto, never, must after it")
        self.fails(2, ["run", "x.toml", "--run-dir", ""], "--run-dir: names no folder; leave it out for a new one in run.out")
        self.fails(2, ["run", "x.toml", "--run-dir", "a", "--run-dir", "b"], "--run-dir is given more than once; give it once")
        self.fails(2, ["export", "run"], "plait export needs CHECKPOINT OUT: a checkpoint, ", "a file NAME.safetensors")
        self.fails(2, ["new", "demo", "--from"], "--from needs a TEMPLATE after it")
        self.fails(2, ["env", "--data"], "--data needs a DIR after it")
        self.fails(2, ["completion", "ksh"], "SHELL: 'ksh' is not one of bash, zsh, fish")

    def test_verbs_of_verbs(self):
        self.fails(2, ["data"], "plait data needs one of: get, tokenize, show")
        self.fails(2, ["data", "gte"], "there is no 'plait data gte' (did you mean 'get'?); choose from: get, tokenize, show")
        self.fails(2, ["data", "get"], "plait data get needs SET: mnist, fashion-mnist or tinyshakespeare; see plait data get --help")

    def test_help_as_a_word(self):
        for words in (["help"], ["help", "run"], ["help", "data", "get"]):
            self.assertEqual(self.expect(0, *words).out, self.expect(0, *words[1:], "--help").out)
        record, = self.expect(0, "--json", "help", "run").records
        self.assertEqual(record["help"], self.expect(0, "run", "--help").out)
        self.fails(2, ["--json", "help", "rnu"], "there is no verb 'rnu' (did you mean 'run'?)")
        self.fails(2, ["help", "rnu"], "there is no verb 'rnu' (did you mean 'run'?)")
        self.assertEqual(self.expect(0, "version").out, self.expect(0, "--version").out)

    def test_a_dumb_terminal_gets_no_escapes(self):
        self.write("t.toml", TINY)
        for words in (["run", "t.toml"], ["check", "nope"]):
            screen, terminal = os.openpty()
            subprocess.run([PLAIT, *words], cwd=self.folder, env={**self.environment(), "TERM": "dumb"}, stdin=subprocess.DEVNULL,
                           stdout=terminal, stderr=terminal, timeout=TIME)
            os.close(terminal)
            text = b""
            try:
                while part := os.read(screen, 65536):
                    text += part
            except OSError:
                pass
            os.close(screen)
            self.assertTrue(text)
            self.assertNotIn(b"\x1b", text)

    def test_json(self):
        record = self.fails(2, ["nonsense", "--json"]).records[0]
        self.assertEqual((record["event"], record["exit"]), ("error", 2))

    def test_absent_files(self):
        self.fails(2, ["run", "nope.toml"], "nope.toml", "no such file")
        self.fails(2, ["run", "."], "without an experiment.toml")
        self.fails(2, ["check", "nope.toml"], "nope.toml")
        self.write("demo.toml", TINY)
        self.fails(2, ["plan", "dmeo.toml"], "no such file or folder: 'dmeo.toml' (did you mean 'demo.toml'?)", "plait new NAME")
        self.fails(2, ["plan", "./sub/dmeo.toml"], "no such file or folder: './sub/dmeo.toml';")
        self.fails(2, ["run", "nope.toml", "--data", "nope"], "--data 'nope' is not a folder")

    def test_several_values_are_a_sweep(self):
        self.write("demo.toml", TINY)
        for verb in ("run", "check"):
            self.fails(2, [verb, "demo.toml", "optimizer.learning_rate=0.1,0.01"], "expected number >= 0.0", "plait sweep trains with each of several values")
            self.assertNotIn("sweep", self.fails(2, [verb, "demo.toml", "optimizer.learning_rate=fast"], "expected number").err)

    def test_an_experiment_from_a_pipe(self):
        self.write("demo.toml", TINY)
        for words in ("check -", "plan - --json", "run - -q", "bind -"):
            done = self.shell(f"cat demo.toml | {PLAIT} {words}")
            self.assertEqual((done.returncode, done.stderr), (0, ""), words)
            self.assertTrue(done.stdout)
        done = self.shell(f"{PLAIT} run <(cat demo.toml) topology.data=2 -q")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        done = self.shell(f"cat demo.toml | {PLAIT} run - topology.data=2 --run-dir r -q")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        # A word that is the same as FILE stays what it is.
        self.expect(0, "run", "r", "run.steps=50", "topology.data=2", "--run-dir", "r", "--resume", "must", "-q")
        done = self.shell(f"{PLAIT} check - < /dev/null")
        self.assertEqual(done.returncode, 2)
        self.assertIn("standard input:1:1: batch.global: required key is missing", done.stdout)
        self.assertEqual(self.shell(f"cat demo.toml | {PLAIT} check -").stdout, "standard input: no problems\n")
        done = self.shell(f"sed 's/\\[run\\]/[run]\\nstepz = 3/' demo.toml | {PLAIT} run -")
        self.assertIn("standard input:", done.stderr)
        self.assertNotIn("/dev/fd", done.stderr)
        # Every part of a problem has that name, and no other one is changed that begins as the
        # copy's: /dev/fd/3, which is /dev/fd/4 where 3 is taken.
        done = self.shell(f"grep -v steps demo.toml | {PLAIT} check - --json")
        problem, = json.loads(done.stdout)["problems"]
        self.assertEqual(problem["file"], "standard input")
        other = "/dev/fd/3123456 /dev/fd/4123456 /dev/fd/5123456"
        done = self.shell(f"sed 's|loss]|loss]\\n\"{other}\" = 1|' demo.toml | {PLAIT} check -")
        self.assertIn(other, done.stdout)

    def test_results_that_do_not_arrive(self):
        self.write("demo.toml", TINY)
        for words in ("bind demo.toml", "plan demo.toml", "env", "run demo.toml", "plan demo.toml --json"):
            done = self.shell(f"{PLAIT} {words} > /dev/full")
            self.assertEqual(done.returncode, 3, words)
            self.assertIn("could not be written to standard output", done.stderr)
        self.assertEqual(self.shell(f"{PLAIT} check nope.toml > /dev/full").returncode, 2)
        done = self.shell(f"{PLAIT} run demo.toml topology.data=2 > /dev/full")
        self.assertEqual(done.returncode, 3)
        self.assertIn("could not be written to standard output", done.stderr)
        for words in ("run demo.toml >&-", "run demo.toml 2>/dev/null | head -1; exit ${PIPESTATUS[0]}"):
            self.assertIn(self.shell(f"{PLAIT} {words}").returncode, (0, 141), words)

    def test_closed_standard_streams(self):
        # A daemon closes them; the next file that is opened must not take their place.
        self.write("demo.toml", TINY)
        for at, closed in enumerate((">&-", "2>&-", "<&-", ">&- 2>&-", ">&- 2>&- <&-")):
            done = self.shell(f"{PLAIT} run demo.toml --run-dir r{at} {closed}")
            self.assertEqual(done.returncode, 0, (closed, done.stderr))
            self.assertEqual((self.folder / f"r{at}/lock").read_text().count("\n"), 2, closed)
            self.expect(0, "checkpoint", "verify", f"r{at}")

    def test_a_plugin_folder_that_may_not_be_looked_into(self):
        # A name that is too long fails as a folder without permission does, for root, too.
        self.write("demo.toml", TINY)
        self.expect(0, "check", "demo.toml", env={"HOME": "/" + 300 * "x"})

    def shell(self, command):
        return subprocess.run(["bash", "-c", command], cwd=self.folder, capture_output=True, text=True, timeout=TIME)

    def test_new(self):
        self.fails(2, ["new", "demo", "--from", "tinny"], "'tinny'", "did you mean 'tiny'?")
        self.fails(2, ["new", "a b"], "'a b' can't name an experiment; use up to 128 letters, digits, '-' and '_'")
        self.fails(2, ["new", "--from", "tiny", "--", "-dash"], "'-dash' can't name an experiment; use up to 128 letters, digits, '-' and '_', and don't start with '-'")
        self.fails(2, ["new", "v1.0"], "'v1.0' can't name an experiment")  # nor could it be run.name
        self.fails(2, ["new"], "NAME")
        self.expect(0, "new", "demo")
        self.fails(2, ["new", "demo"], "already exists", "--yes")

    def test_ops(self):
        self.fails(2, ["ops", "matmull"], "did you mean 'matmul'?", "plait ops lists them")

    def test_plugins(self):
        self.fails(2, ["plugins", "linaer"], "did you mean 'linear'?")
        self.fails(2, ["plugins", "inspect"], "plait plugins inspect FILE")
        self.write("text.so", "not a library")
        self.fails(3, ["plugins", "inspect", "text.so"], "text.so")
        self.fails(3, ["plugins", "inspect", PLAIT], "is not a Plait plugin: it has no Plait note", "plait_add_plugin()")
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
        self.assertTrue(self.plait("check", "t.toml").out.endswith(", tanh\n"))  # and not all the plugins there are
        self.check(TINY.replace('"adamw"', '"adamv"'), "unknown optimizer 'adamv'", "did you mean 'adam'?")

    def test_all_problems_at_once(self):
        toml = TINY.replace("steps = 40", "stesp = 40").replace("global = 16", "global = -1").replace("classes = 3", 'classes = "x"')
        self.write("t.toml", toml)
        outcome = self.expect(2, "check", "t.toml", "--json")
        lines = [problem["line"] for problem in outcome.records[0]["problems"]]
        self.assertEqual(lines, [3, 5, 10, 15])
        self.assertTrue(all(problem["column"] > 0 and problem["message"] for problem in outcome.records[0]["problems"]))

    def test_wrong_types_and_ranges(self):
        self.check(TINY.replace("learning_rate = 0.01", 'learning_rate = "fast"'), "optimizer.learning_rate", "number")
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
        self.fails(2, ["check", "t.toml", "optimizer.learning_rat=1"], "override 'optimizer.learning_rat=1'", "'learning_rate'")
        self.fails(2, ["check", "t.toml", "optimizer"], "override 'optimizer'", "=")
        self.fails(2, ["run", "t.toml", "model.layers[9].out=1"], "4 elements")
        self.fails(2, ["check", "t.toml", "metrics=[{type=accuracy}]"], 'a text inside brackets needs quotes: {type = "sgd"}, ["a", "b"]')
        self.fails(2, ["check", "t.toml", 'metrics=[{type="accuracy}]'], "check quotes and brackets")
        self.fails(2, ["check", "t.toml", "optimizer.betas=[0.9, 0.99]"], "unknown key 'betas' (did you mean 'beta1' and 'beta2'?)")
        for word in ("+run.seed=3", "++run.seed=3"):
            self.fails(2, ["check", "t.toml", word], "'+' before a key, as in Hydra, has no meaning here; write run.seed=3")
        self.fails(2, ["check", "t.toml", "optimizer.learning_rate=inf"], "expected a finite number, found inf")

        self.fails(2, ["check", "t.toml", '~"run.seed'], "a quoted key has no closing quote; write it as 'table.key=value'")

    def test_models_without_a_name(self):
        start, end = TINY.index("[model]"), TINY.index("[loss]")
        for given, found in (("models = 3\n", "found an integer"), ("models = {}\n", "found none")):
            self.check(given + TINY[:start] + TINY[end:], "models: expected named models, " + found, "write [[models.NAME.layers]]")

    def test_a_rotation_whose_options_decide_nothing(self):
        toml = ('[model]\nlayers = [{type = "embedding", vocabulary = 64, width = 32}, {type = "attention", heads = 2, ROPE}, '
                '{type = "linear", out = 64}]\n[generate]\nonly = true\nlength = 8\n')
        for rope, texts in (
                ('rope_scaling = "linear", rope_factor = 2.0', ["rope_scaling has no effect without rotary positions: rope is \"none\""]),
                ('rope_theta = 3.0', ["rope_theta has no effect without rotary positions"]),
                ('rope_share = 0.5', ["rope_share has no effect without rotary positions"]),
                ('rope = "half", rope_factor = 2.0', ["rope_factor has no effect without rope_scaling"]),
                ('rope = "half", rope_scaling = "linear"', ["rope_scaling is \"linear\" and rope_factor 1, which changes nothing"]),
                ('rope = "half", rope_scaling = "yarn", rope_factor = 2.0, rope_long = [1.0]',
                 ["rope_long has no effect unless rope_scaling is \"longrope\""]),
                ('rope = "half", rope_scaling = "longrope", rope_factor = 2.0, rope_original = 99, rope_short = [1.0, 1.0]',
                 ["rope_short has 2 numbers, expected 8, a divisor for each pair of channels"]),
                ('rope = "half", rope_scaling = "longrope", rope_factor = 2.0, rope_original = 4',
                 ["rope_long has 0 numbers, expected 8, a divisor for each pair of channels"])):
            self.write("t.toml", toml.replace("ROPE", rope))
            self.fails(2, ["check", "t.toml"], *texts, "1 problem")
        # An experiment that only generates has no length.
        self.write("t.toml", toml.replace("ROPE", 'rope = "half"'))
        self.assertEqual(self.expect(0, "check", "t.toml").err, "")

    def test_bytes(self):
        (self.folder / "t.toml").write_bytes(b"\x7fELF\x02\0\0\0" * 9)
        self.fails(2, ["check", "t.toml"], "t.toml: a binary file, expected an experiment in TOML; name an experiment")
        for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
            (self.folder / "t.toml").write_bytes(TINY.encode(encoding))
            self.fails(2, ["check", "t.toml"], "t.toml: a text in UTF-16, expected UTF-8; save it as UTF-8")

    def test_a_batch_larger_than_the_dataset(self):
        self.write("t.toml", TINY)
        self.assertIn("batch.global is 256, but [data.train] has 200 samples: each step pads its batch with 56 empty samples", self.expect(0, "run", "t.toml", "batch.global=256", "run.steps=1").err)
        self.assertNotIn("batch.global is", self.expect(0, "run", "t.toml", "batch.global=200", "run.steps=1").err)

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

    def test_run_directory(self):
        self.write("t.toml", TINY)
        self.fails(2, ["run", "t.toml", "--run-dir", "/dev/null"], "/dev/null is not a folder; name another one")

    def test_files_that_may_not_grow(self):
        self.write("t.toml", TINY)
        done = subprocess.run(["sh", "-c", 'ulimit -f 0; exec "$0" run t.toml', PLAIT], cwd=self.folder, env=self.environment(),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        if done.returncode == -signal.SIGXFSZ and "TSAN_OPTIONS" in os.environ:
            self.skipTest("a program with the thread sanitizer does not reach main() so")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("File too large", done.stderr)

    def test_device(self):
        self.write("t.toml", TINY)
        self.fails(2, ["run", "t.toml", "run.device=cup"], "'cup'", "'cpu'")


class Warnings(Case):
    def setUp(self):
        super().setUp()
        self.write("t.toml", TINY)

    def test_tensor_ranks_without_a_sharded_layer(self):
        said = self.expect(0, "plan", "t.toml", "topology.tensor=2").err
        self.assertIn("topology.tensor is 2, and no layer shards a parameter: every tensor rank computes the same", said)
        said = self.expect(0, "plan", "t.toml", "topology.tensor=2", 'model.layers[0].parallel="column"', "model.layers[0].out=8").err
        self.assertNotIn("no layer shards", said)

    def test_schedules_of_another_length(self):
        def said(*options):
            return self.expect(0, "run", "t.toml", "optimizer.schedule={" + ", ".join(options) + "}").err
        self.assertIn("optimizer.schedule: the learning rate is 0 from step 10 of 40 on: nothing is learned there",
                      said('type = "cosine"', "total_steps = 10"))
        self.assertIn("the learning rate still rises at the last step, 40: the run ends before its warm-up", said('type = "cosine"', "warmup_steps = 100"))
        for fits in (["total_steps = 40"], ["warmup_steps = 10"], []):
            self.assertNotIn("the learning rate", said('type = "cosine"', *fits))
        self.assertNotIn("the learning rate", said('type = "wsd"', "warmup_steps = 5"))

    def test_counts_of_options(self):
        for option, found in (("--ranks", "abc"), ("--ranks", "0"), ("--until", "1e3"), ("--until", "-1")):
            self.fails(2, ["run", "t.toml", f"{option}={found}"], f"{option}: expected a whole number of 1 or more, found '{found}'")


class Labels(Case):
    """Values that an op cannot take: no number comes out, and the message says where they come from."""

    def experiment(self, rows, *more):
        """Samples (x, label, weight), in the order of `rows`."""
        self.write("d.csv", "x,label,weight\n" + "".join(f"{x},{label},{weight}\n" for x, label, weight in rows))
        return self.write("t.toml", "\n".join([
            '[run]', 'steps = 6', '[batch]', 'global = 4', '[data.train]', 'type = "csv"', 'path = "d.csv"', 'input = ["x"]',
            'target = ["label"]', 'target_type = "i32"', 'weight = "weight"', *more, '[model]',
            'layers = [{type = "linear", out = 5}, {type = "linear", out = 3}]', '[loss]', 'type = "cross_entropy"', '[optimizer]',
            'type = "sgd"', 'learning_rate = 0.1', '']))

    def test_a_label_beyond_the_classes(self):
        self.experiment([(i / 8, 7 if i == 5 else i % 3, 1) for i in range(8)])
        text = "which is out of range: model.linear2 has 3 classes, 0 to 2, for model.cross_entropy; " \
               "set model.layers[1].out = 8 or more, or correct the data"
        self.fails(1, ["run", "t.toml", "run.steps=1", "batch.global=8"], "[data.train] field 'target' is 7 in step 1, " + text)
        for more in ([], ["topology.data=2"], ["topology.pipeline=2"], ["batch.micro=2"], ["topology.tensor=2"]):
            done = self.fails(1, ["run", "t.toml", *more], "[data.train] field 'target' is 7", text)
            self.assertNotIn("learning rate", done.err)
        self.expect(0, "run", "t.toml", "model.layers[1].out=8", "topology.data=2")

    def test_one_fault_has_one_code(self):
        """Whatever is wrong with an experiment or its files, check, plan and run end alike."""
        self.experiment([(1, 0, 1)] * 4)
        for name, content in (("cell", b"x,label,weight\n1,0,1\nz,1,1\n"), ("column", b"x,labels,weight\n1,0,1\n"), ("gz", b"\x1f\x8b\x08\x00"), ("folder", None)):
            path = self.folder / f"{name}.csv"
            path.mkdir() if content is None else path.write_bytes(content)
            for verb in ("check", "plan", "run"):
                self.expect(2, verb, "t.toml", f"data.train.path={path.name}")

    def test_the_same_in_an_evaluation(self):
        self.experiment([(i / 8, 7 if i == 5 else i % 3, 1) for i in range(8)])
        good = "x,label,weight\n" + "".join(f"{i},{i % 3},1\n" for i in range(8))
        self.write("good.csv", good)
        evaluated = 'data.eval={type = "csv", path = "d.csv", input = ["x"], target = ["label"], target_type = "i32", weight = "weight"}'
        for n, more in enumerate(([], ["topology.data=2"], ["topology.pipeline=2"])):
            run = ["run", "t.toml", "data.train.path=good.csv", *more, "--run-dir", f"r{n}"]
            self.fails(1, [*run, evaluated],
                       "[data.eval] field 'target' is 7 in the evaluation, which is out of range: model.linear2 has 3 classes")
            # What was trained is saved before it is evaluated at the end.
            self.expect(0, *run, evaluated.replace("d.csv", "good.csv"), "--resume", "must")

    def saved_behind(self, text, words, folder, step=8, of=7, whole=()):
        """A run that fails in step `step` has the bits of one that ended behind step `of`, and continues."""
        run = ["run", "t.toml", "data.train.shuffle=false", "optimizer.momentum=0.9", *words]
        name = f"step-{step:010}"
        done = self.fails(1 if "not finite" not in text else 5, [*run, "run.steps=10", "--run-dir", folder], text,
                          f"; what was trained until then is saved as {folder}/ckpt/{name}")
        self.assertIn(f"checkpoint {folder}/ckpt/{name}", self.expect(0, "status", folder).out)
        self.expect(0, *run, *whole, f"run.steps={of}", "--run-dir", folder + "-whole")
        name, found = checkpoint_files(self.folder / folder)
        _, whole = checkpoint_files(self.folder / (folder + "-whole"))
        self.assertEqual(found, whole)
        return done

    def test_what_was_trained_before_bad_samples_is_saved(self):
        rows = [(i / 8, i % 3, 1) for i in range(40)]
        bad = rows[:29] + [(1, 7, 1)] + rows[30:]
        self.experiment(bad)
        text = "[data.train] field 'target' is 7 in step 8"
        for n, more in enumerate(([], ["topology.data=2"], ["topology.pipeline=2"], ["checkpoint.every=3"])):
            with self.subTest(more=more):
                self.saved_behind(text, more, f"r{n}")
        self.expect(0, "run", "t.toml", "run.steps=10", "--run-dir", "r0", "--resume", "must", "optimizer.momentum=0.9",
                    "data.train.shuffle=false")
        # A checkpoint that has all of it is named, and where there is nothing to save nothing is said.
        self.saved_behind(text, ["checkpoint.every=7"], "r7", step=7)
        self.experiment(bad[28:])
        done = self.fails(1, ["run", "t.toml", "data.train.shuffle=false", "--run-dir", "first"], "field 'target' is 7 in step 1")
        self.assertNotIn("is saved", done.err)
        self.assertEqual(list((self.folder / "first").glob("ckpt/step-*")), [])
        self.experiment([(1, 7, 1)] * 12)
        done = self.fails(1, ["run", "t.toml", "data.train.shuffle=false", "run.from=r7", "optimizer.momentum=0.9", "run.steps=20", "--run-dir", "from"],
                          "field 'target' is 7")
        self.assertNotIn("is saved", done.err)
        self.assertEqual(list((self.folder / "from").glob("ckpt/step-*")), [])

    def test_what_was_trained_before_other_errors_is_saved(self):
        rows = [(i / 8, i % 3, 1) for i in range(40)]
        self.experiment(rows[:28] + [(1e30, i % 3, 1) for i in range(12)])
        self.saved_behind("steps in a row were not finite", ["guard.nonfinite_limit=2"], "n", step=9)
        self.experiment(rows)
        (self.folder / "e.csv").write_text("x,label,weight\n1,7,1\n")
        evaluated = 'data.eval={type = "csv", path = "e.csv", input = ["x"], target = ["label"], target_type = "i32", weight = "weight"}'
        self.saved_behind("[data.eval] field 'target' is 7 in the evaluation", [evaluated, "evaluate.every=4"], "e", step=4, of=4,
                          whole=["~data.eval"])

    def test_samples_that_one_rank_cannot_read(self):
        """They are saved by a single rank; of several, the others are within the step."""
        documents, ids = [20] * 8, [i % 10 for i in range(160)]
        ids[135] = -5
        (self.folder / "t.bin").write_bytes(struct.pack("<160i", *ids))
        n = len(documents)
        (self.folder / "t.idx").write_bytes(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, n, n + 1) + struct.pack(f"<{n}i", *documents)
                                            + struct.pack(f"<{n}q", *range(0, 640, 80)) + struct.pack(f"<{n + 1}q", *range(n + 1)))
        self.write("t.toml", "\n".join([
            "[run]", "steps = 10", "[batch]", "global = 2", "[data.train]", 'type = "tokens"', 'path = "t.bin"', "length = 10", "[model]",
            'layers = [{type = "embedding", vocabulary = 10, width = 3}, {type = "linear", out = 10}]', "[loss]",
            'type = "cross_entropy"', "[optimizer]", 'type = "sgd"', ""]))
        done = self.saved_behind("the token is -5", [], "r", step=6, of=6)
        self.assertNotIn("are lost", done.err)
        done = self.fails(1, ["run", "t.toml", "data.train.shuffle=false", "topology.data=2", "--run-dir", "two"], "the token is -5")
        self.assertNotIn("is saved", done.err)
        self.assertIn("behind the last checkpoint are lost, for other ranks were within the same call", done.err)

    def test_an_id_beyond_the_vocabulary(self):
        header = "{'descr': '<i4', 'fortran_order': False, 'shape': (4, 2), }"
        header += " " * (117 - len(header)) + "\n"
        for bad, advice in ((11, "set model.layers[0].vocabulary = 12 or more, or correct the data"), (-1, "0 to 9; correct the data")):
            ids = [1, 2, 3, 4, 5, bad, 7, 8]
            (self.folder / "ids.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
                                                  + struct.pack("<8i", *ids))
            self.write("e.toml", "\n".join([
                '[run]', 'steps = 2', '[batch]', 'global = 4', '[data.train]', 'type = "npy"', 'input = "ids.npy"', '[model]',
                'layers = [{type = "embedding", vocabulary = 10, width = 3}]', '[loss]', 'type = "mse"',
                'from = ["output", "output"]', '[optimizer]', 'type = "sgd"', '']))
            self.fails(1, ["run", "e.toml"], f"field 'input' is {bad} in step 1, which is out of range: model.embedding1 has 10", advice)

    def test_a_sample_that_is_not_finite(self):
        header = "{'descr': '<f4', 'fortran_order': False, 'shape': (8, 2), }"
        header += " " * (117 - len(header)) + "\n"
        values = [i / 16 for i in range(16)]
        values[11] = float("nan")
        (self.folder / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
                                            + struct.pack("<16f", *values))
        self.write("e.toml", "\n".join([
            '[run]', 'steps = 4', '[batch]', 'global = 4', '[data.train]', 'type = "npy"', 'input = "x.npy"', 'shuffle = false', '[model]',
            'layers = [{type = "linear", out = 2}]', '[loss]', 'type = "mse"', 'from = ["output", "input"]', '[optimizer]', 'type = "sgd"', '']))
        done = self.expect(0, "run", "e.toml", "run.steps=3")
        self.assertIn("step 2 is not finite (loss nan, gradient norm nan; field 'input' of sample 5 (from 0) is nan: correct [data.train]): skipped",
                      done.err)
        self.assertIn("1 of 3 steps was skipped: values were not finite", done.out)
        done = self.expect(0, "run", "e.toml", "run.steps=3", "topology.data=2")
        self.assertIn("field 'input' of sample 5 (from 0) is nan on rank 0: correct [data.train]", done.err)
        # In an evaluation: it is told, and counts as one without a gain.
        words = ["run", "e.toml", "data.train.limit=4", "evaluate.every=1", "data.eval={type = \"npy\", input = \"x.npy\"}"]
        self.assertIn("the loss of step 1 is nan: fields of [data.eval] are not finite", self.expect(0, *words).err)
        done = self.expect(0, *words, "evaluate.early_stop.metric=loss", "evaluate.early_stop.patience=2")
        self.assertIn("stopped early: loss was not finite for 2 evaluations", done.out + done.err)

    def test_no_weight_at_all(self):
        self.experiment([(i / 8, i % 3, 0) for i in range(8)], '[guard]', 'nonfinite_limit = 3')
        said = "in that step the weights of all samples are 0"
        self.fails(1, ["run", "t.toml"], "3 steps in a row were not finite, up to step 3", said)
        # The same at the end of a run that is over before the patience is.
        done = self.fails(1, ["run", "t.toml", "run.steps=2", "--run-dir", "short"], said, "the run is at its end, saved as")
        self.assertNotIn("training loss", done.out)
        self.assertEqual(json.loads((self.folder / "short/status.json").read_text())["state"], "failed")

    def test_no_label_at_all(self):
        """Every label is below 0, which stands for none: the loss is the mean of nothing."""
        self.experiment([(i / 8, -100, 1) for i in range(8)])
        done = self.fails(1, ["run", "t.toml", "run.steps=2"], "or all labels below 0, so that its loss is the mean of nothing",
                          "correct the weights or the labels of [data.train]")
        self.assertIn("step 1 is not finite (loss nan, gradient norm nan; the weights of all samples are 0, or all labels below 0)", done.err)

    def test_an_evaluation_that_counts_nothing(self):
        """Its loss is none, and not 0, which would be the best of all; a warning says why."""
        evaluation = ['[data.eval]', 'type = "csv"', 'path = "e.csv"', 'input = ["x"]', 'target = ["label"]', 'target_type = "i32"', 'weight = "weight"']
        self.experiment([(i / 8, i % 3, 1) for i in range(8)], *evaluation)
        for labels, weight in (((-100, -1), 1), ((0, 1), 0)):
            rows = "".join(f"{i / 8},{label},{weight}\n" for i, label in enumerate(labels))
            self.write("e.csv", "x,label,weight\n" + rows)
            for more in ([], ["topology.data=2"], ["topology.pipeline=2"]):
                with self.subTest(labels=labels, more=more):
                    done = self.expect(0, "run", "t.toml", "run.steps=2", "--json", *more)
                    self.assertEqual(done.event("evaluate")["loss"], "nan")
                    self.assertEqual(done.err.count("[session] the evaluation of [data.eval] has no loss: the weights of all samples "
                                                    "are 0, or all labels below 0; correct the weights or the labels"), 1, done.err)
                    self.assertNotIn("are not finite", done.err)
        # One that counts is enough.
        self.write("e.csv", "x,label,weight\n0,-100,1\n1,1,1\n")
        done = self.expect(0, "run", "t.toml", "run.steps=2", "--json")
        self.assertGreater(done.event("evaluate")["loss"], 0)
        self.assertNotIn("has no loss", done.err)

    def test_an_evaluation_in_which_one_model_counts_nothing(self):
        """It is named, each time: the loss of the others stays, and would hide it."""
        self.experiment([(i / 8, i % 3, 1) for i in range(8)])
        one, end = (self.folder / "t.toml").read_text().split("[model]\n")
        layers, rest = end.split("[loss]\n")
        other = '[models.b]\nlayers = [{type = "linear", out = 1}]\n[models.b.loss]\ntype = "mse"\nfrom = ["output", "input"]\n[models.b.optimizer]\ntype = "sgd"\nlearning_rate = 0.1\n'
        self.write("t.toml", one + '[data.eval]\ntype = "csv"\npath = "e.csv"\ninput = ["x"]\ntarget = ["label"]\ntarget_type = "i32"\n[models.a]\n'
                   + layers + "[models.a.loss]\n" + rest.replace("[optimizer]", "[models.a.optimizer]") + other)
        self.write("e.csv", "x,label\n0.5,-100\n0.25,-1\n")
        done = self.expect(0, "run", "t.toml", "run.steps=4", "evaluate.every=2", "--json", "--run-dir", "r")
        self.assertGreater(done.event("evaluate")["loss"], 0)
        told = ("[session] the evaluation of [data.eval] has no loss of model 'a': the weights of all samples are 0, or all labels below 0; "
                "correct the weights or the labels")
        self.assertEqual(done.err.count(told), 1, done.err)  # a line that was told before is left out there
        self.assertEqual((self.folder / "r/log/rank-0.log").read_text().count(told), 2)

    def test_a_run_that_needs_more_memory_than_there_is(self):
        self.write("t.toml", TINY)
        layers = 'model.layers=[{type = "linear", out = 2000000}, {type = "linear", out = 2000000}, {type = "linear", out = 3}]'
        done = self.fails(3, ["run", "t.toml", layers, "--run-dir", "r"], "no memory for ", " bytes")
        self.assertRegex(done.err, r"warning: \[run\] a rank needs \d+(\.\d+)? TiB, and this machine has \S+ [GT]iB; the system may kill the run "
                                   r"when it uses them: see plait plan, lower batch.micro, or shard more \(topology.zero, topology.tensor\)\n")
        self.assertNotIn("and this machine has", self.expect(0, "run", "t.toml", "run.steps=1").err)

    def test_a_run_that_ends_with_steps_that_are_not_finite(self):
        self.experiment([(3e38 if i > 5 else i / 8, i % 3, 1) for i in range(8)])
        words = ["run", "t.toml", "run.steps=2", "batch.global=8", "optimizer.learning_rate=1"]
        for more in ([], ["topology.data=2"]):
            done = self.fails(5, [*words, *more], "2 steps in a row were not finite, up to step 2", "the run is at its end")
            self.assertNotIn("training loss", done.out)
        # One that has learned something before is within its patience.
        done = self.expect(0, "run", "t.toml", "run.steps=2", "data.train.shuffle=false", "optimizer.learning_rate=1e-6")
        self.assertIn("step 2 is not finite", done.err)
        self.assertIn("the result is that of step 1", done.err)
        self.assertIn("done after step 2, which was skipped", done.out)


if __name__ == "__main__":
    unittest.main()
