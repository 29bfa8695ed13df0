"""plait runs, plait status, plait compare: what the files of runs say."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

from support import PLAIT, TIME, TINY, Case


class Runs(Case):
    def run_of(self, name, *words):
        self.expect(0, "run", "t.toml", "run.log_every=1", "evaluate.every=10", *words, "--run-dir", name, "-q")

    def setUp(self):
        super().setUp()
        self.write("t.toml", TINY)

    def test_runs(self):
        self.assertIn("cannot be listed", self.expect(2, "runs").err)
        (self.folder / "runs").mkdir()
        self.assertEqual(self.expect(0, "runs").out, "there are no runs in runs; plait run FILE makes one\n")
        self.run_of("runs/2")
        self.run_of("runs/x/1", "optimizer.learning_rate=0.001")
        out = self.expect(0, "runs").out.splitlines()
        self.assertEqual(out[0].split()[:3], ["run", "state", "step"])
        self.assertEqual([line.split()[0] for line in out[1:]], ["runs/x/1", "runs/2"])
        self.assertEqual(out[1].split()[1:3], ["done", "40/40"])
        self.assertTrue(out[1].endswith("optimizer.learning_rate=0.001"), out[1])
        record, = self.expect(0, "runs", "--json").records
        values = [run["values"] for run in record["runs"]]
        self.assertEqual(record["count"], 2)
        self.assertIn("eval/accuracy", values[0])
        losses = {run["run"]: run["values"]["loss"] for run in record["runs"]}
        first = self.expect(0, "runs", "--sort", "loss", "--limit", "1").out.splitlines()
        self.assertEqual(first[1].split()[0], min(losses, key=losses.get))
        self.assertEqual(first[2], "1 of 2 runs; --limit 0 shows all")
        last = self.expect(0, "runs", "--sort", "loss", "--descending", "--limit", "1").out.splitlines()
        self.assertEqual(last[1].split()[0], max(losses, key=losses.get))
        self.assertIn("eval/accuracy", self.expect(0, "runs", "--value", "eval/accuracy").out.splitlines()[0])
        self.fails(2, ["runs", "--value", "los"], "no run has a value 'los' (did you mean 'loss'?)")
        self.assertEqual(len(self.expect(0, "runs", "runs/2").out.splitlines()), 2)
        record, = self.expect(0, "runs", ".", "--json").records
        self.assertEqual([run["run"] for run in record["runs"]], ["runs/x/1", "runs/2"])
        for columns, there in ((40, ("state", "step")), (60, ("mean_loss",)), (80, ("eval/loss",)), (200, ("changed",))):
            lines = self.on_terminal("runs", columns=columns, env={"LC_ALL": "C.UTF-8"}).splitlines()
            self.assertEqual(len(lines), 3)
            self.assertLessEqual(max(map(len, lines)), columns)
            for head in there:
                self.assertIn(head, lines[0].split())
        self.fails(2, ["runs", "--sort", "los"], "no run has a value 'los' (did you mean 'loss'?); there are: ", "mean_loss")

    def test_a_path_is_whole_unless_it_would_be_alone(self):
        path = "runs/of-a-long-name-20261127-144650-dafeca/with-a-part-behind-it"
        self.run_of(path)
        lines = self.on_terminal("runs", columns=80, env={"LC_ALL": "C.UTF-8"}).splitlines()
        self.assertEqual(lines[1].split()[0], path)
        self.assertEqual(lines[0].split(), ["run", "state"])
        for columns in (30, 40):
            lines = self.on_terminal("runs", columns=columns, env={"LC_ALL": "C.UTF-8"}).splitlines()
            self.assertEqual(lines[0].split()[:2], ["run", "state"])
            self.assertRegex(lines[1], "^….*-behind-it  done")
            self.assertLessEqual(max(map(len, lines)), columns)

    def test_a_figure_has_one_name(self):
        self.run_of("r", "run.log_every=20", "metrics[0].train=true")
        mean = f"{self.expect(0, 'status', 'r', '--json').records[0]['values']['mean_loss']:.4f}"
        head, row = (line.split() for line in self.expect(0, "runs", "r").out.splitlines())
        self.assertEqual(row[head.index("mean_loss")], mean)
        self.assertRegex(self.expect(0, "compare", "r", "r/../r").out, rf"\nmean_loss +{mean} ")
        head, row = (line.split() for line in self.expect(0, "board", "r").out.splitlines()[1:3])
        self.assertEqual(row[1 + head.index("mean_loss")], f"{float(mean):.4g}")

    def test_many(self):
        """With no file but run.toml: the list stays."""
        self.run_of("runs/one")
        for i in range(500):
            (self.folder / f"runs/many/{i:05}").mkdir(parents=True)
            os.link(self.folder / "runs/one/run.toml", self.folder / f"runs/many/{i:05}/run.toml")
        out = self.expect(0, "runs").out.splitlines()
        self.assertEqual(out[-1], "20 of 501 runs; --limit 0 shows all")
        self.assertEqual(len(self.expect(0, "runs", "--limit", "0").out.splitlines()), 502)
        record, = self.expect(0, "runs", "--limit", "0", "--json").records  # read by several threads
        self.assertEqual([run["state"] for run in record["runs"]].count("unknown"), 500)
        self.assertEqual(len({run["run"] for run in record["runs"]}), 501)
        self.assertIn("unknown", self.expect(0, "runs", "runs/many", "--limit", "1").out)

    def test_long_metrics(self):
        """Of a long file only what counts is read: the newest step, the evaluation before, a rate over the newest lines since a resume."""
        self.run_of("runs/one")
        step = lambda i: json.dumps({"step": i, "time": 1000 + 0.5 * i, "elapsed_s": 0.5 * i, "loss": 1 / i, "pad": "x" * 80})
        evaluation = json.dumps({"event": "evaluate", "dataset": "eval", "step": 10, "time": 1005, "loss": 0.25})
        resume = json.dumps({"event": "resume", "from_step": 2990, "time": 9000})
        metrics = self.folder / "runs/one/metrics.ndjson"

        def values(*lines):
            metrics.write_text("".join(lines))
            run, = self.expect(0, "runs", "--json").records[0]["runs"]
            return run["values"]["loss"], run["values"].get("eval/loss"), round(run["steps_per_s"], 6), run["seconds"]

        steps = [step(i) + "\n" for i in range(1, 3001)]
        self.assertEqual(values(*steps[:10], evaluation + "\n", *steps[10:]), (1 / 3000, 0.25, 2, 1500))
        self.assertEqual(values(*steps[:10], evaluation + "\n", *steps[10:], '{"step": 3001, "lo'), (1 / 3000, 0.25, 2, 1500))
        self.assertEqual(values(*steps, evaluation + "\n"), (1 / 3000, 0.25, 2, 1500))
        # Of the steps since a resume; with one of them since that, and with none as if nothing was known.
        self.assertEqual(values(*steps[:2990], resume + "\n", *steps[2990:]), (1 / 3000, None, 2, 1500))
        self.assertEqual(values(*steps[:2990], resume + "\n", steps[2990]), (1 / 2991, None, round(1 / 1495.5, 6), 1495.5))
        self.assertEqual(values(*steps[:2990], resume + "\n"), (1 / 2990, None, 0, 1495))

    def test_damaged(self):
        """What a run directory holds may be anything."""
        self.run_of("runs/good")
        for name, content in (("status", "["), ("status", "[" * 100000), ("env", '{"time": "x", "process": -5}'), ("metrics", "\x00\xff{}\n[1]\n")):
            folder = self.folder / f"runs/bad{len(os.listdir(self.folder / 'runs'))}"
            shutil.copytree(self.folder / "runs/good", folder)
            file = folder / (f"{name}.ndjson" if name == "metrics" else f"{name}.json")
            file.write_text(content)
            self.expect(0, "status", folder)
        folder = self.folder / "runs/worse"
        shutil.copytree(self.folder / "runs/good", folder)
        for name in ("status.json", "metrics.ndjson", "overrides.txt"):
            (folder / name).unlink()
            os.mkfifo(folder / name) if name == "status.json" else (folder / name).mkdir()
        self.assertIn("unknown", self.expect(0, "status", folder).out)
        self.assertEqual(len(self.expect(0, "runs").out.splitlines()), 7)

    def test_the_folder_tells_what_ran(self):
        """run.toml is the newest experiment, and each checkpoint has its own."""
        self.run_of("r")
        self.expect(0, "run", "t.toml", "run.steps=50", "--run-dir", "r", "--resume", "must", "-q")
        steps = lambda file: self.expect(0, "plan", file, "--json").records[0]["steps"]
        self.assertEqual((steps("r"), steps("r/run-1.toml")), (50, 40))
        self.assertEqual((steps("r/ckpt/step-0000000050"), steps("r/ckpt/step-0000000040")), (50, 40))
        self.assertEqual((self.folder / "r/overrides.txt").read_text(), "run.steps=50\n")
        self.assertIn("run.log_every=1", (self.folder / "r/overrides-1.txt").read_text())
        self.expect(0, "eval", "r/ckpt/step-0000000050", "--checkpoint", "r/ckpt/step-0000000050")
        # A run that was refused has changed nothing.
        self.fails(2, ["run", "t.toml", "model.layers[0].out=7", "--run-dir", "r", "--resume", "must"], "use the saved model")
        self.assertEqual((self.folder / "r/overrides.txt").read_text(), "run.steps=50\n")
        self.assertFalse((self.folder / "r/run-2.toml").exists())
        self.expect(0, "eval", "r", "--checkpoint", "r")
        self.fails(2, ["run", "t.toml", "--run-dir", "r/ckpt/step-0000000050"], "neither empty nor a run directory")

    def test_stream(self):
        """plait run --json tells of evaluations and checkpoints when they are made; each record names its schema."""
        words = ("evaluate.every=10", "checkpoint.every=20", "checkpoint.background=false", "run.log_every=5", "--run-dir", "r", "--json")
        records = self.expect(0, "run", "t.toml", *words).records
        self.assertTrue(all(record["schema"] == 1 for record in records))
        order = [(record["event"], record.get("step")) for record in records]
        self.assertEqual([step for event, step in order if event == "evaluate"], [10, 20, 30, 40])
        self.assertEqual([step for event, step in order if event == "checkpoint"], [20, 40])
        self.assertLess(order.index(("evaluate", 10)), order.index(("step", 15)))
        self.assertGreater(order.index(("evaluate", 10)), order.index(("step", 10)))
        self.assertEqual(order[-1], ("done", 40))
        again = self.expect(0, "run", "t.toml", *words, "run.steps=50", "--resume", "must").records
        self.assertEqual([record["step"] for record in again if record["event"] == "evaluate"], [50])
        for command in (["bogus"], ["new", "--list"], ["plugins", "sgd"], ["completion", "bash"]):
            done = subprocess.run([PLAIT, *command, "--json"], cwd=self.folder, capture_output=True, text=True)
            self.assertTrue(all(json.loads(line)["schema"] == 1 for line in done.stdout.splitlines()), command)
            self.assertTrue(done.stdout, command)

    def test_status(self):
        self.run_of("runs/r")
        out = self.expect(0, "status").out
        self.assertRegex(out, r"^runs/r: done, started \d{4}-\d\d-\d\d \d\d:\d\d on \S+ \(process \d+, \w+\)\n  step 40 of 40 \(100 %\)")
        self.assertRegex(out, r"\n  at step 40: eval/loss \S+, eval/accuracy \S+\n  checkpoint \S+step-0000000040\n$")
        narrow = re.sub("\033\\[[0-9]*m", "", self.on_terminal("status", columns=40))
        self.assertLessEqual(max(map(len, narrow.splitlines())), 40, narrow)
        self.assertEqual(narrow.split(), out.split())
        record, = self.expect(0, "status", "runs/r", "--json").records
        self.assertEqual((record["state"], record["step"], record["run"]), ("done", 40, "runs/r"))
        self.assertGreater(record["steps_per_s"], 0)
        # One line tells a rate, too: since the start.
        self.run_of("short", "run.steps=3", "run.log_every=3")
        record, = self.expect(0, "status", "short", "--json").records
        self.assertGreater(record["steps_per_s"], 0)
        # Of a run that was moved, its own checkpoint.
        (self.folder / "runs/r").rename(self.folder / "away")
        self.assertIn("  checkpoint away/ckpt/step-0000000040\n", self.expect(0, "status", "away").out)
        self.fails(2, ["status", "nowhere"], "cannot be listed")
        (self.folder / "empty").mkdir()
        self.fails(2, ["status", "empty"], "there is no run in 'empty'")

    def test_the_file_of_the_status_follows_the_run(self):
        """Without a save, an evaluation or a line of metrics."""
        run = subprocess.Popen([PLAIT, "run", "t.toml", "run.steps=100000000", "run.log_every=100000000", "--run-dir", "r", "-q"], cwd=self.folder)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        end, status = time.monotonic() + TIME, {"step": 0}
        while not status["step"] and time.monotonic() < end:
            time.sleep(0.1)
            if (self.folder / "r/status.json").exists():
                status = json.loads((self.folder / "r/status.json").read_text())
        self.assertGreater(status["step"], 0)
        self.assertEqual((status["state"], status["steps"], type(status["loss"])), ("running", 100000000, float))

    def test_status_of_a_run_that_was_killed(self):
        command = [PLAIT, "run", "t.toml", "run.steps=100000000", "run.log_every=100", "checkpoint.every=1000", "--run-dir", "r", "-q"]
        run = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            end = time.monotonic() + TIME
            while not any((self.folder / "r/ckpt").glob("step-*")) and time.monotonic() < end:
                time.sleep(0.05)
            out = self.expect(0, "status", "r").out
            self.assertRegex(out, r"^r: running for \S+ \w+ on .*\n  step \d+ of 100000000 \(0 %\)(, \S+ steps/s, .* left)?\n")
        finally:
            run.send_signal(signal.SIGKILL)
            run.wait()
        out = self.expect(0, "status", "r").out
        self.assertIn("r: lost, started ", out)
        self.assertIn("its process has ended without recording why", out)
        resume = out.splitlines()[-1]
        self.assertEqual(resume, "  to resume: plait run r --run-dir r --resume must")
        words = resume.removeprefix("  to resume: plait ").split()
        step = self.expect(0, "status", "r", "--json").records[0]["step"]
        self.expect(0, *words, f"run.steps={step + 10}", "-q")

    def test_status_of_a_run_that_was_killed_behind_a_save(self):
        """status.json is written when the checkpoint is there: until then it names an older one, which may be gone, or none."""
        self.run_of("r", "checkpoint.every=10", "checkpoint.keep=2")
        path = self.folder / "r/status.json"
        status = json.loads(path.read_text())
        newest = "r/ckpt/step-0000000040"
        for known in ("", "r/ckpt/step-0000000010", "r/ckpt/step-0000000030", newest):
            path.write_text(json.dumps({**status, "state": "running", "checkpoint": known}))
            out = self.expect(0, "status", "r").out
            self.assertIn(f"  checkpoint {newest}\n", out)
            self.assertEqual(out.splitlines()[-1], "  to resume: plait run r --run-dir r --resume must")
            self.assertEqual(self.expect(0, "status", "r", "--json").records[0]["checkpoint"], newest)
        # A copy of the run has the times of the copy, in any order.
        for age, folder in enumerate(sorted((self.folder / "r/ckpt").glob("step-*"))):
            os.utime(folder / "MANIFEST.json", (10**9 - age, 10**9 - age))
        self.assertIn(f"  checkpoint {newest}\n", self.expect(0, "status", "r").out)

    def test_the_newest_checkpoint_is_the_last_commit(self):
        """After a resume from an older step that is one of fewer steps than those which were left behind."""
        self.run_of("r", "checkpoint.every=10", "checkpoint.keep=9")
        with open(self.folder / "r/ckpt/step-0000000040/model.safetensors", "r+b") as file:
            file.truncate(100)
        self.expect(0, "run", "t.toml", "run.steps=35", "checkpoint.keep=9", "--run-dir", "r", "--resume", "must", "-q")
        self.assertTrue((self.folder / "r/ckpt/step-0000000040").exists())
        path = self.folder / "r/status.json"
        status = json.loads(path.read_text())
        newest = "r/ckpt/step-0000000035"
        for known in ("", "r/ckpt/step-0000000040", newest):
            path.write_text(json.dumps({**status, "state": "running", "checkpoint": known}))
            self.assertEqual(self.expect(0, "status", "r", "--json").records[0]["checkpoint"], newest)
        # The engine says the same, and passes over one whose manifest is missing.
        listed = self.expect(0, "checkpoint", "ls", "r", "--json").records[0]["checkpoints"]
        self.assertEqual(os.path.basename(listed[0]["path"]), os.path.basename(newest))
        (self.folder / newest / "MANIFEST.json").unlink()
        self.assertEqual(self.expect(0, "status", "r", "--json").records[0]["checkpoint"], "r/ckpt/step-0000000040")

    def test_compare(self):
        self.run_of("a")
        self.run_of("b", "optimizer.learning_rate=0.001", "model.layers[0].out=8")
        self.run_of("c")
        out = self.expect(0, "compare", "a", "b").out
        self.assertRegex(out, r"\noptimizer\.learning_rate +\S+ +0\.001\n|\nmodel\.optimizer\.learning_rate +\S+ +0\.001\n")
        self.assertRegex(out, r"\nmodel\.layers\[0\]\.out +\d+ +8\n")
        self.assertRegex(out, r"\neval/accuracy( +[\d.e-]+){6}\n")
        self.assertNotIn("run.log_every", out)
        record, = self.expect(0, "compare", "a", "b", "c", "--json").records
        self.assertEqual(record["changed"]["model.layers[0].out"][1], "8")
        self.assertEqual(record["changed"]["model.layers[0].out"][0], record["changed"]["model.layers[0].out"][2])
        self.assertEqual(record["values"]["loss"][0], record["values"]["loss"][2])
        self.assertIn("no key of the experiments differs", self.expect(0, "compare", "a", "c").out)
        self.fails(2, ["compare"], "RUN")
        for words in (["a"], ["a", "a"]):
            self.fails(2, ["compare", *words], "name two runs or more, or a folder of runs; one was given: a")
        self.fails(2, ["compare", "t.toml"], "there is no run in t.toml; plait runs lists runs")
        self.fails(2, ["compare", "a", "nowhere"], "'nowhere' is no run directory; plait runs")
        (self.folder / "empty").mkdir()
        self.fails(2, ["compare", "a", "empty"], "one was given: a (no runs: empty)")

    def test_compare_the_runs_of_a_folder(self):
        self.expect(0, "sweep", "t.toml", "run.seed=1,2", "--dir", "s", "run.steps=5")
        whole, = self.expect(0, "compare", "s", "--json").records
        self.assertEqual({run["run"] for run in whole["runs"]}, {"s/0000", "s/0001"})
        shell = self.expect(0, "compare", *(f"s/{name}" for name in sorted(os.listdir(self.folder / "s"))))
        self.assertIn("no runs, left out: s/logs, s/sweep.json, s/sweep.lock\n", shell.err)
        self.assertIn("s/0001", shell.out)

    def test_compare_damaged(self):
        self.run_of("a")
        shutil.copytree(self.folder / "a", self.folder / "d")
        (self.folder / "d/run.toml").unlink()
        for text in ("x = [", "a" + ".a" * 100000 + " = 1", "a = " + "[" * 100000, "x = 1\nx = 2"):
            (self.folder / "d/run.toml").write_text(text)
            self.expect(0, "compare", "a", "d")
        shutil.copy(self.folder / "a/run.toml", self.folder / "d/run.toml")
        (self.folder / "d/metrics.ndjson").unlink()
        self.assertIn("no key of the experiments differs", self.expect(0, "compare", "a", "d").out)


if __name__ == "__main__":
    unittest.main()
