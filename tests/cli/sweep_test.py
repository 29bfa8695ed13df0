"""plait sweep: several values of some keys, a few runs at a time, resumable, one table at the end; plait run --until."""

import fcntl
import json
import os
import pathlib
import signal
import socket
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

    def test_a_folder_that_cannot_be_made(self):
        self.write("file", "")
        self.fails(3, ["sweep", "t.toml", "run.seed=1,2", "--dir", "file/x"],
                   "[cli] cannot make the folder 'file/x': '", "/file' is a file, not a folder; name another place, with --dir")
        (self.folder / "s/sweep.lock").mkdir(parents=True)
        self.fails(3, ["sweep", "t.toml", "run.seed=1,2", "--dir", "s"],
                   "[cli] 's/sweep.lock' cannot be opened: Is a directory; name another folder with --dir")

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
        self.fails(2, ["sweep", "t.toml", RATES, "--dir", "runs/tiny-sweep"], "holds another sweep", "--dir")
        # Another one has a folder of its own, and comes back to it.
        for new in (1, 0):
            other = self.expect(0, "sweep", "t.toml", "run.seed=1,2")
            self.assertIn("2 trials of t.toml in runs/tiny-sweep-2\n", other.out)
            self.assertIn("runs/tiny-sweep holds another sweep", other.err)
            self.assertEqual(other.out.count(": step 40"), 2 * new)
        # The metric itself says that larger values are better.
        text = self.expect(0, "sweep", "t.toml", RATES, "--dir", "s", "--metric", "eval/accuracy", "run.seed=3").out.splitlines()
        self.assertEqual(text[0], "3 trials of t.toml in s")
        self.assertEqual(text[4].split(), ["trial", "optimizer.learning_rate", "eval/accuracy", "mean_loss", "step", "state"])
        accuracies = [float(line.split()[2]) for line in text[5:8]]
        self.assertEqual(accuracies, sorted(accuracies, reverse=True))
        text = self.expect(0, "sweep", "t.toml", RATES, "--dir", "m", "--metric", "eval/accuracy", "--minimize", "run.seed=3").out.splitlines()
        self.assertEqual([float(line.split()[2]) for line in text[5:8]], sorted(accuracies))
        self.fails(2, ["sweep", "t.toml", RATES, "--minimize", "--maximize"], "--minimize")
        self.assertEqual(len(self.expect(0, "runs", "s").out.splitlines()), 4)

    def test_halving(self):
        """Rounds end at steps 5, 10, 20 and 40; at each the better half by the evaluation continues."""
        words = (RATES, "run.seed=1,2", "--halving", "evaluate.every=5", "--dir", "h")
        trials, done = self.sweep(*words)
        self.assertEqual(len(done["trials"]), 6)
        self.assertEqual([t["step"] for t in done["trials"]], [40, 20, 10, 5, 5, 5])
        values = {}
        for trial in trials:
            self.assertIn("eval/loss", trial["run"]["values"])
            values.setdefault(trial["run"]["step"], {})[trial["trial"]] = trial["run"]["values"]["eval/loss"]
        self.assertEqual([len(values[step]) for step in (5, 10, 20, 40)], [6, 3, 2, 1])
        for step, following in ((5, 10), (10, 20), (20, 40)):
            best = sorted(values[step], key=values[step].get)[: len(values[following])]
            self.assertEqual(set(best), set(values[following]))
        # A run that was halted and resumed is the run that was not.
        best = done["trials"][0]
        self.expect(0, "run", "t.toml", *best["overrides"], "evaluate.every=5", "--run-dir", "alone", "-q")
        alone, = self.expect(0, "status", "alone", "--json").records
        self.assertEqual(alone["values"]["eval/loss"], best["value"])
        lines = lambda run: [json.loads(line) for line in (self.folder / run / "metrics.ndjson").read_text().splitlines()]
        evaluated = lambda run: [line["loss"] for line in lines(run) if line.get("event") == "evaluate"]
        self.assertEqual(evaluated(best["run_dir"]), evaluated("alone"))
        self.assertEqual(self.sweep(*words), ([], done))  # nothing is decided anew
        record = self.folder / "h/sweep.json"
        saved = json.loads(record.read_text())
        for damaged in ([[6]], [[-1]], [["0"]], [0], {}):
            record.write_text(json.dumps({**saved, "rounds": damaged}))
            self.fails(2, ["sweep", "t.toml", *words], "holds another sweep")
        self.fails(2, ["sweep", "t.toml", "run.steps=5,10", "--halving"], "trials of one length")

    def test_halving_by_a_metric_that_is_nan(self):
        """An evaluation of ignored labels alone: the value is there, and ranks nothing."""
        self.write("e.csv", ",".join([*(f"x{i}" for i in range(8)), "label"]) + "\n" + ("0.5," * 8 + "-100\n") * 4)
        csv = {"type": "csv", "path": "e.csv", "input": [f"x{i}" for i in range(8)], "target": ["label"], "target_type": "i32"}
        text = ", ".join(f"{key} = {json.dumps(value)}" for key, value in csv.items())
        done = self.expect(0, "sweep", "t.toml", "optimizer.learning_rate=0.0,0.02", "--halving", "evaluate.every=20", "data.eval={" + text + "}")
        self.assertIn("at step 20 'eval/loss' is nan in trials 0000, 0001, whose logs say why: mean_loss decides, lowest first\n", done.err)
        self.assertNotIn("yet", done.err)
        # Of the training loss, which decides where other metrics cannot: one that diverges is dropped, also with --maximize.
        for more in ([], ["--maximize"]):
            done = self.expect(0, "sweep", "t.toml", "optimizer.learning_rate=1e30,0.02", "--halving", "--metric", "mean_loss", *more,
                               "guard.nonfinite_limit=1000", "run.log_every=5", "--dir", "diverges" + "-".join(more))
            self.assertIn("at step 20 'mean_loss' is nan in trial 0000, whose logs say why: nan comes last\n", done.err)
            self.assertRegex(done.out, r"\n0000 .* 20 +dropped\n")

    def test_halving_by_what_is_better(self):
        """Without an evaluation at the ends of rounds, less training loss is better, whatever --maximize says."""
        words = ("optimizer.learning_rate=0.0,0.02", "run.log_every=10", "--halving", "--metric", "eval/accuracy", "--maximize")
        told = self.expect(0, "sweep", "t.toml", *words, "--dir", "told")
        self.assertIn("at step 20 the trials have no 'eval/accuracy' yet: mean_loss decides, lowest first; "
                      "evaluate.every=20 evaluates them there\n", told.err)
        self.assertRegex(told.out, r"\n0000 .* 20 +dropped\n")
        trials, done = self.sweep(*words)
        self.assertEqual([t["state"] for t in done["trials"]], ["done", "dropped"])
        # The other verbs call it the same.
        dropped = done["trials"][1]["run_dir"]
        self.assertEqual(self.expect(0, "status", dropped, "--json").records[0]["state"], "dropped")
        self.assertIn("dropped", self.expect(0, "runs", dropped).out)
        self.assertEqual(self.expect(0, "board", dropped, "--once", "--json").records[0]["states"], {"dropped": 1})
        self.assertEqual(done["trials"][0]["overrides"], ["optimizer.learning_rate=0.02"])
        self.assertEqual([t["step"] for t in done["trials"]], [40, 20])

    def test_random(self):
        _, done = self.sweep(RATES, "run.seed=1,2,3", "--random", "2", "--jobs", "1")
        self.assertEqual(len(done["trials"]), 2)

    def test_mistakes(self):
        self.fails(2, ["sweep", "t.toml", "run.seed=1"], "no key has several values; write key=A,B")
        self.fails(2, ["sweep", "t.toml", "optimizer.learning_rat=1,2"], "unknown key", "learning_rate")
        self.fails(2, ["sweep", "t.toml", "run.seed=1,x"], "run.seed")  # before any trial starts
        self.fails(2, ["sweep", "t.toml", "run.seed=1,2", "run.steps=0"], "run.steps")
        self.assertFalse((self.folder / "runs").exists())
        self.fails(2, ["sweep", "t.toml", "run.seed=1,2", "run.seed=3,4"], "'run.seed' has several values twice")
        many = [f"run.seed={','.join(map(str, range(2000)))}", f"optimizer.learning_rate={','.join(f'0.{i}' for i in range(1, 2000))}"]
        self.fails(2, ["sweep", "t.toml", *many], "the sweep has 3998000 trials, more than 10000; --random N")
        done = subprocess.run(["bash", "-c", f"{PLAIT} sweep <(cat t.toml) run.seed=1,2"], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("not from a pipe", done.stderr)
        self.expect(0, "sweep", "t.toml", "run.seed=1,2", "run.steps=2", "--dir", "m")
        (self.folder / "t.toml").write_text(TINY.replace("samples = 200", "samples = 201"))
        self.fails(2, ["sweep", "t.toml", "run.seed=1,2", "run.steps=2", "--dir", "m"], "an experiment that has changed since")

    def test_the_metric_is_checked_before_anything_trains(self):
        for words, name, near in (([], "eval/acuracy", "eval/accuracy"), ([], "meanloss", "mean_loss"),
                                  (["metrics[0].train=false"], "accuracy", "eval/accuracy")):
            self.fails(2, ["sweep", "t.toml", "run.seed=1,2", *words, "--metric", name, "--dir", "m"],
                       f"--metric '{name}' is no value of these trials (did you mean '{near}'?); there are: eval/loss, eval/accuracy, mean_loss, loss, ")
        self.fails(2, ["sweep", "t.toml", "run.seed=1,2", "--metric", "foo", "--dir", "m"], "'foo' is no value of these trials; there are: ")
        self.assertFalse((self.folder / "m").exists())
        both = self.expect(0, "sweep", "t.toml", "run.seed=1,2", "metrics[0].train=true", "--metric", "accuracy", "--dir", "b", "run.steps=2")
        self.assertIn("--metric accuracy is that of training; that of the evaluation is eval/accuracy", both.err)

    def test_what_became_of_a_trial(self):
        """A combination that cannot be planned fails with its reason; those behind it run."""
        words = ("topology.data=3,1", "batch.global=16", "--dir", "w", "--jobs", "1")
        trials, done = self.sweep(*words, code=1)
        self.assertEqual([(t["trial"], t["state"]) for t in done["trials"]], [(1, "done"), (0, "failed")])
        self.assertIn("16", done["trials"][1]["reason"])
        self.assertEqual(done["trials"][0]["reason"], "")
        text = self.expect(1, "sweep", "t.toml", *words, "-q").out.splitlines()
        self.assertEqual(text[0].split()[-2:], ["state", "reason"])
        self.assertRegex(text[2], r"^0000 +3 +0 +failed +\[.*16")
        self.assertEqual(sorted(os.listdir(self.folder / "w")), ["0001", "logs", "sweep.json", "sweep.lock"])
        self.assertIn("error: ", (self.folder / "w/logs/0000.log").read_text())

    def test_on_a_terminal_of_80_columns(self):
        """Two keys: no line but a command is longer, each trial is a line of the table, and no command is broken."""
        words = ["sweep", "t.toml", "optimizer.learning_rate=0.01,0.0001234", "optimizer.weight_decay=0.0001234,0.5",
                 "optimizer.beta1=0.9", "run.steps=2", "--dir", "runs/a-sweep-of-two-keys"]
        text = self.on_terminal(*words, columns=80)
        lines = text.splitlines()
        self.assertLessEqual(max(map(len, lines)), 80, text)
        self.assertRegex(text, r"\n0000 learning_rate=0\.01 weight_decay=0\.0001234: step 2, eval/loss \d")
        head = next(i for i, line in enumerate(lines) if line.startswith("trial"))
        self.assertEqual(lines[head].split(), ["trial", "learning_rate", "weight_decay", "eval/loss", "mean_loss", "step", "state"])
        self.assertEqual(sorted(line[:4] for line in lines[head + 1:head + 5]), ["0000", "0001", "0002", "0003"])
        self.assertRegex(text, r"\ncompare the best:\n  plait compare runs/a-sweep-of-two-keys/000\d runs/a-sweep-of-two-keys/000\d\n$")
        # Where there is room, keys are whole.
        self.assertIn("\ntrial  optimizer.learning_rate  optimizer.weight_decay  ", self.on_terminal(*words, columns=130))

    def test_reasons_on_a_narrow_terminal(self):
        text = self.on_terminal("sweep", "t.toml", "batch.global=16,7", "batch.accumulation=1,2", "run.steps=2", "--dir", "s",
                                columns=80, code=1)
        self.assertRegex(text, r"\n000\d failed: \[")
        self.assertRegex(text, r"\ntrial  global  accumulation  +eval/loss  mean_loss  step  state\n")

    def test_one_fails(self):
        """It stands in the table, last, and the other one runs."""
        words = ("optimizer.type=\"sgd\"", "optimizer.learning_rate=0.01,1e30", "guard.nonfinite_limit=1", "--dir", "f")
        trials, done = self.sweep(*words, code=1)
        self.assertEqual([t["state"] for t in done["trials"]], ["done", "failed"])
        self.assertEqual(sorted(t["code"] for t in trials), [0, 5])
        again, table = self.sweep(*words, code=1)  # it is tried again
        self.assertEqual([t["trial"] for t in again], [1])

    def test_stopped_at_its_start(self):
        """Trials that had nothing to save yet have not failed."""
        sweep = subprocess.Popen([PLAIT, "sweep", "t.toml", "run.seed=1,2", "run.steps=3000000", "--jobs", "2", "--dir", "e", "--json"], cwd=self.folder,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + TIME
        while not (self.folder / "e/logs/0001.log").exists() and time.monotonic() < end:
            time.sleep(0.005)
        sweep.send_signal(signal.SIGTERM)
        out, err = sweep.communicate(timeout=TIME)
        self.assertEqual(sweep.returncode, 4, out + err)
        *trials, done = (json.loads(line) for line in out.splitlines())
        self.assertEqual([trial["state"] for trial in done["trials"]], ["interrupted"] * 2)
        # As `plait run` ends: 4 says that it was saved.
        for trial in trials:
            saved = any((self.folder / trial["run"]["run"]).glob("ckpt/step-*"))
            self.assertEqual(trial["code"], 4 if saved else 128 + signal.SIGTERM, trial)

    def test_of_two_that_begin_together_the_refused_one_names_the_other(self):
        """The other one has locked the file, and writes its name when this one has opened it."""
        (self.folder / "n").mkdir()
        with open(self.folder / "n/sweep.lock", "w") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            command = [PLAIT, "sweep", "t.toml", "run.seed=1,2", "--dir", "n"]
            sweep = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            end = time.monotonic() + TIME
            opened = False
            while not opened and sweep.poll() is None and time.monotonic() < end:
                time.sleep(0.001)
                sweep.send_signal(signal.SIGSTOP)  # a stopped process makes no tries
                try:
                    if opened := self.has_open(sweep, "sweep.lock"):
                        other.write("host there, process 12\n")
                        other.flush()
                finally:
                    sweep.send_signal(signal.SIGCONT)
            out, err = sweep.communicate(timeout=TIME)
        self.assertEqual(sweep.returncode, 3, out + err)
        self.assertIn("the sweep in 'n' is in use by host there, process 12; ", err)

    def has_open(self, process, name):
        try:
            return any(link.resolve().name == name for link in pathlib.Path(f"/proc/{process.pid}/fd").iterdir())
        except OSError:  # it has ended
            return False

    def test_interrupted(self):
        words = ["run.seed=1,2,3", "run.log_every=100", "--dir", "i", "--jobs", "2"]
        command = [PLAIT, "sweep", "t.toml", "run.steps=3000000", *words]
        sweep = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        metrics = [self.folder / "i" / name / "metrics.ndjson" for name in ("0000", "0001")]
        end = time.monotonic() + TIME
        while not all(file.exists() and file.stat().st_size for file in metrics) and time.monotonic() < end:
            time.sleep(0.05)
        # Meanwhile nobody else trains in its folder.
        before = (self.folder / "i/sweep.json").read_text()
        for second in (["run.steps=3000000", *words], ["run.seed=7,8", "--dir", "i"]):
            self.fails(3, ["sweep", "t.toml", *second], f"the sweep in 'i' is in use by host {socket.gethostname()}, process {sweep.pid}; ", "--dir")
        self.assertEqual((self.folder / "i/sweep.json").read_text(), before)
        sweep.send_signal(signal.SIGTERM)
        out, err = sweep.communicate(timeout=TIME)
        self.assertEqual(sweep.returncode, 4, out + err)
        self.assertIn("stopped on request; the same command continues: ", err)
        self.assertEqual(out.count("interrupted"), 2)
        self.assertEqual(out.count("not started"), 1)
        self.assertFalse((self.folder / "i/0002").exists())
        steps = [self.expect(0, "status", f"i/{name}", "--json").records[0]["step"] for name in ("0000", "0001")]
        self.assertTrue(all(any((self.folder / "i" / name / "ckpt").glob("step-*")) for name in ("0000", "0001")))
        # The same sweep continues where it was.
        end = str(max(steps) + 5)
        record = self.folder / "i/sweep.json"
        text = record.read_text().replace("run.steps=3000000", f"run.steps={end}").replace("3000000", end)
        record.write_text(text)
        _, done = self.sweep(f"run.steps={end}", *words)
        self.assertEqual({(t["state"], t["step"]) for t in done["trials"]}, {("done", int(end))})
        for name, step in zip(("0000", "0001"), steps):
            lines = (self.folder / "i" / name / "metrics.ndjson").read_text().splitlines()
            self.assertIn(step, [json.loads(line).get("from_step") for line in lines])

    def test_until(self):
        out = self.expect(0, "run", "t.toml", "--until", "7", "--run-dir", "r").out
        self.assertIn("stopped after step 7; to resume: plait run t.toml --run-dir r --resume must", out)
        self.assertEqual(self.expect(0, "status", "r", "--json").records[0]["step"], 7)
        self.expect(0, "run", "t.toml", "--run-dir", "r", "--resume", "must", "--until", "100", "-q")
        self.assertEqual(self.expect(0, "status", "r", "--json").records[0]["state"], "done")
        again = self.expect(0, "run", "t.toml", "--run-dir", "r", "--resume", "must", "--until", "7").out
        self.assertIn("nothing to do: step 40 is behind --until", again)
        ranks = self.expect(0, "run", "t.toml", "topology.data=2", "--until", "7", "evaluate.every=7", "--run-dir", "two", "-q")
        self.assertEqual(ranks.err, "")
        self.assertEqual(self.expect(0, "status", "two", "--json").records[0]["step"], 7)
        lines = [json.loads(line) for line in (self.folder / "two/metrics.ndjson").read_text().splitlines()]
        self.assertEqual([line["step"] for line in lines if line.get("event") == "evaluate"], [7])
        self.assertEqual([line["step"] for line in lines if line.get("event") == "checkpoint"], [7])


if __name__ == "__main__":
    unittest.main()
