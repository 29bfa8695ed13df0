"""Runs that are interrupted, continued, spoiled."""

import json
import os
import random
import shutil
import signal
import subprocess
import time
import unittest

from support import PLAIT, ROOT, TIME, Case, TINY, checkpoint_files


class Shared(Case):
    def test_of_two_runs_in_one_folder_one_is_refused(self):
        """Both start at the same moment. PLAIT_TEST_ALL=1 tries it 50 times."""
        self.write("t.toml", TINY)
        for i in range(50 if os.environ.get("PLAIT_TEST_ALL") == "1" else 5):
            words = [PLAIT, "run", "t.toml", "run.steps=1000000000", "run.log_every=1000", "--run-dir", f"r{i}", "--resume", "auto"]
            both = [subprocess.Popen(words, cwd=self.folder, env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.PIPE, text=True) for _ in range(2)]
            try:
                end = time.monotonic() + TIME
                while all(one.poll() is None for one in both) and time.monotonic() < end:
                    time.sleep(0.005)
                ended = [one for one in both if one.poll() is not None]
                self.assertEqual(len(ended), 1)
                err = ended[0].communicate(timeout=TIME)[1]
                other, = (one for one in both if one is not ended[0])
                self.assertEqual(ended[0].returncode, 1, err)
                self.assertRegex(err, rf"r{i} is in use by host .*process {other.pid}\b")
                self.assertIsNone(other.poll())
            finally:
                for one in both:
                    one.kill()
                    one.communicate(timeout=TIME)


class Interrupted(Case):
    STEPS = "run.steps=6000"

    def interrupt(self, sent):
        """Starts a long run, sends the signal after its first steps; returns exit code, events and stderr.
        It cannot end before: it writes more lines than its pipe holds."""
        run = subprocess.Popen([PLAIT, "run", "t.toml", self.STEPS, "run.log_every=1", "--run-dir", "cut", "--json"], cwd=self.folder,
                               env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        events = []
        for line in run.stdout:
            events.append(json.loads(line))
            if events[-1]["event"] == "step":
                run.send_signal(sent)
                break
        # Not communicate(), which does not know what the iterator has read ahead.
        events += [json.loads(line) for line in run.stdout]
        _, err = run.communicate(timeout=TIME)
        return run.returncode, events, err

    def test_a_start_without_a_checkpoint_takes_back_the_steps_of_one_that_left_none(self):
        self.write("t.toml", TINY)
        for _ in range(2):
            self.expect(0, "run", "t.toml", "run.steps=3", "run.resume=auto", "checkpoint.at_end=false",
                        "--run-dir", "r", "-q")
        lines = (self.folder / "r/metrics.ndjson").read_text().splitlines()
        records = [json.loads(line) for line in lines]
        what = [record["step"] if "event" not in record else record["event"] for record in records
                if record.get("event") in (None, "resume")]
        self.assertEqual(what, [1, 2, 3, "resume", 1, 2, 3])
        self.assertEqual([r["from_step"] for r in records if r.get("event") == "resume"], [0])

    def test_a_signal_saves_and_resuming_changes_nothing(self):
        self.write("t.toml", TINY)
        self.expect(0, "run", "t.toml", self.STEPS, "--run-dir", "whole", "-q")
        for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
            shutil.rmtree(self.folder / "cut", ignore_errors=True)
            code, events, err = self.interrupt(sent)
            self.assertEqual(code, 4, err)
            self.assertEqual(events[-1]["event"], "interrupted")
            self.assertLess(events[-2]["step"], 6000)
            self.assertIn("to resume: plait run t.toml", err)
            self.assertIn("--run-dir cut --resume must", err)
            self.assertIn("cut/ckpt/step-", err)
            self.assertEqual(json.loads((self.folder / "cut/status.json").read_text())["state"], "interrupted")

            # The command it printed, as it stands.
            words = events[-1]["resume"].split()[1:]
            done = self.expect(0, *words, "--json")
            self.assertEqual(done.event("done")["step"], 6000)
            self.assertGreater(done.event("start")["step"], 0)
            name, files = checkpoint_files(self.folder / "cut")
            self.assertEqual(name, "step-0000006000")
            self.assertEqual((name, files), checkpoint_files(self.folder / "whole"))

    def test_a_second_signal_stops_at_once(self):
        self.write("t.toml", TINY)
        run = subprocess.Popen([PLAIT, "run", "t.toml", "run.steps=100000000", "--run-dir", "cut", "--json"], cwd=self.folder,
                               env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(lambda: (run.kill(), run.wait()))
        run.stdout.readline()
        run.stdout.readline()
        for _ in range(100):
            run.send_signal(signal.SIGINT)
            try:
                run.wait(timeout=0.05)
                break
            except subprocess.TimeoutExpired:
                pass
        run.stdout.close()
        self.assertIn(run.wait(timeout=TIME), (4, -signal.SIGINT))


class Killed(Case):
    def test_kill_9_at_any_moment_loses_no_commit(self):
        self.write("t.toml", TINY)
        words = ["run", "t.toml", "run.steps=300", "run.log_every=1", "checkpoint.every=2"]  # almost always one is being written
        self.expect(0, *words, "--run-dir", "whole", "-q")
        rng, newest = random.Random(7), 0
        for _ in range(10):
            run = subprocess.Popen([PLAIT, *words, "--run-dir", "cut", "--resume", "auto", "--json"], cwd=self.folder,
                                   env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            begun = json.loads(run.stdout.readline())
            run.stdout.readline()
            time.sleep(rng.uniform(0, 0.1))
            run.kill()
            _, err = run.communicate(timeout=TIME)
            self.assertEqual((begun["event"], begun["step"]), ("start", newest), err)
            self.assertNotIn("damaged", err)
            newest = max((int(path.name[5:]) for path in (self.folder / "cut/ckpt").glob("step-*")), default=0)
        self.assertGreater(newest, 0)
        self.expect(0, *words, "--run-dir", "cut", "--resume", "auto", "-q")
        self.assertEqual(checkpoint_files(self.folder / "cut"), checkpoint_files(self.folder / "whole"))


class Resumed(Case):
    def test_modes(self):
        self.write("t.toml", TINY)
        self.fails(2, ["run", "t.toml", "--run-dir", "r", "--resume", "must"], "no checkpoint")
        shutil.rmtree(self.folder / "r", ignore_errors=True)
        self.assertEqual(self.expect(0, "run", "t.toml", "--run-dir", "r", "--resume", "auto", "--json").event("start")["step"], 0)
        more = self.expect(0, "run", "t.toml", "run.steps=60", "--run-dir", "r", "--resume", "auto", "--json")
        self.assertEqual(more.event("start")["step"], 40)
        self.assertEqual(more.event("done")["step"], 60)
        # Complete: it says so, evaluates, and saves nothing again.
        over = self.expect(0, "run", "t.toml", "run.steps=60", "--run-dir", "r", "--resume", "must")
        self.assertIn("nothing to do: step 60 was the last", over.out)
        self.assertIn("nothing to do: step 60 is past the last one, 20; run.steps=N",
                      self.expect(0, "run", "t.toml", "run.steps=20", "--run-dir", "r", "--resume", "must").out)
        self.expect(0, "run", "t.toml", "run.steps=60", "--run-dir", "r", "--resume", "must", "-q")  # its state is that of 60 steps again
        self.assertIn("accuracy ", over.out)
        self.assertFalse((self.folder / "r/ckpt/step-0000000060.2").exists())
        self.assertIn("step-0000000060", json.loads((self.folder / "r/status.json").read_text())["checkpoint"])
        self.fails(2, ["run", "t.toml", "--run-dir", "r"], "--resume auto", "another folder")
        self.expect(0, "run", "t.toml", "run.steps=60", "--run-dir", "whole", "-q")
        self.assertEqual(checkpoint_files(self.folder / "r"), checkpoint_files(self.folder / "whole"))

    def test_saves_by_time(self):
        self.write("t.toml", TINY)
        words = ["run.steps=20", "checkpoint.keep=100", "-q"]
        for name, layout in (("one", []), ("data", ["topology.data=2", "batch.micro=8"]), ("tensor", ["topology.tensor=2"]),
                             ("pipeline", ["topology.pipeline=2", "batch.micro=4"])):
            self.expect(0, "run", "t.toml", *words, *layout, "--run-dir", f"{name}-never")
            # Any time is too long, so each step is saved behind; what was launched before is not.
            self.expect(0, "run", "t.toml", *words, *layout, "checkpoint.minutes=1e-9", "evaluate.every=7", "--run-dir", name)
            saved = sorted(folder.name for folder in (self.folder / name / "ckpt").glob("step-*"))
            self.assertEqual(saved, [f"step-{step:010}" for step in range(1, 21)])
            self.assertEqual(checkpoint_files(self.folder / name), checkpoint_files(self.folder / f"{name}-never"))
        # With `every` they are written in the background.
        self.expect(0, "run", "t.toml", *words, "checkpoint.minutes=1e-9", "checkpoint.every=6", "--run-dir", "both")
        self.assertEqual(len(list((self.folder / "both/ckpt").glob("step-*"))), 20)
        # What was saved by time is resumed from like any other.
        for folder in (self.folder / "one/ckpt").glob("step-*"):
            if folder.name != "step-0000000011":
                shutil.rmtree(folder)
        self.expect(0, "run", "t.toml", *words, "--run-dir", "one", "--resume", "must")
        self.assertEqual(checkpoint_files(self.folder / "one"), checkpoint_files(self.folder / "one-never"))

    def test_what_has_changed_since_is_named(self):
        self.write("t.toml", TINY)
        self.expect(0, "run", "t.toml", "--run-dir", "r", "-q")
        words = ["run", "t.toml", "--run-dir", "again", "--resume", "must"]

        def resumed(*keys):
            shutil.rmtree(self.folder / "again", ignore_errors=True)
            shutil.copytree(self.folder / "r", self.folder / "again")
            return self.expect(0, *words, "run.steps=42", *keys).err

        same = ["topology.data=2", "batch.micro=4", "evaluate.every=1", "checkpoint.every=1", "topology.recompute=layer"]
        for keys in ([], same):
            self.assertNotIn("otherwise", resumed(*keys))
        err = resumed("optimizer.learning_rate=0.02", "run.seed=9", "data.train.samples=100")
        for line in ("resuming with settings that differ from 'again/ckpt/step-0000000040': ", "optimizer.learning_rate was 0.01, is 0.02",
                     "run.seed was 42, is 9", "content of [data.train] was 200 samples, ", "data.train.samples was 200, is 100"):
            self.assertIn(line, err)
        self.assertIn("optimizer.type was \"adamw\", is \"sgd\"", resumed("optimizer.type=sgd"))
        self.assertIn("batch.global was 16, is 8", resumed("batch.global=8", "topology.data=2"))

    def test_what_cannot_be_resumed(self):
        self.write("t.toml", TINY)
        self.expect(0, "run", "t.toml", "optimizer.type=sgd", "--run-dir", "r", "-q")
        words = ["run", "t.toml", "run.steps=60", "--run-dir", "r", "--resume", "must"]
        for ranks in ([], ["topology.data=2", "batch.micro=4"]):
            self.fails(2, [*words, *ranks], "'r/ckpt/step-0000000040' was saved with sgd and has no state 'm' of adamw for "
                       "'model.linear1.weight'; resume with optimizer.type = \"sgd\", or start a new run with model.load = "
                       "\"r/ckpt/step-0000000040/model.safetensors\"")
        self.fails(2, [*words, "optimizer.type=sgd", "optimizer.momentum=0.9"], "was saved with sgd of other options and has no state")
        self.fails(2, [*words, "optimizer.type=sgd", "model.layers[0].out=17"], "parameter 'model.linear1.weight' of model.layers[0]",
                   "is f32 (17, 8), in 'r/ckpt/step-0000000040' it is f32 (16, 8); use the saved model, or start a new run")
        self.fails(2, [*words, "optimizer.type=sgd", "model.layers[0].name=first"], "has no parameter 'model.first.weight' of model.layers[0]")
        self.expect(0, *words, "optimizer.type=sgd")
        # The ways out that it named.
        self.expect(0, "run", "t.toml", "run.steps=2", "model.load=r/ckpt/step-0000000040/model.safetensors")

    def test_the_environment_says_what_ran(self):
        self.write("a b.toml", TINY)
        words = ["run", "a b.toml", "run.steps=1", "--run-dir", "r", "-q"]
        self.expect(0, *words)
        env = json.loads((self.folder / "r/env.json").read_text())
        self.assertEqual(env["arguments"], [PLAIT, *words])
        self.assertEqual(env["command"].split(" ", 1)[1], "run 'a b.toml' run.steps=1 --run-dir r -q")
        if (ROOT / ".git").exists():
            self.assertRegex(env["source_revision"], r"^[0-9a-f]{40,64}\+?$")

    def test_a_run_can_be_repeated_from_its_directory(self):
        self.write("t.toml", TINY)
        self.expect(0, "run", "t.toml", "run.seed=5", "--run-dir", "r", "-q")
        self.expect(0, "run", "r/run.toml", "--run-dir", "again", "-q")
        self.assertEqual(checkpoint_files(self.folder / "r"), checkpoint_files(self.folder / "again"))


class Checkpoints(Case):
    def setUp(self):
        super().setUp()
        self.write("t.toml", TINY)
        self.expect(0, "run", "t.toml", "--run-dir", "r", "-q")

    def test_wrong_ones(self):
        self.fails(2, ["eval", "t.toml", "--checkpoint", "nowhere"], "nowhere")
        self.fails(2, ["eval", "t.toml", "--checkpoint", "."], "'.' is not a checkpoint and contains none")
        self.fails(2, ["eval", "t.toml"], "plait eval needs --checkpoint DIR: a checkpoint, RUN/ckpt/best, or a run directory")
        self.fails(2, ["eval", "t.toml", "--checkpoint", "r", "--dataset", "evla"], "evla", "eval", "plait eval --dataset NAME")
        other = self.plait("eval", "t.toml", "model.layers[0].out=17", "--checkpoint", "r")
        self.assertEqual(other.code, 2)
        self.assertIn("parameter 'model.linear1.weight' of model.layers[0]", other.err)

    def test_an_evaluation_needs_neither_the_ranks_nor_the_optimizer_of_the_run(self):
        expected = self.expect(0, "eval", "t.toml", "--checkpoint", "r", "--json").records[0]
        for i, keys in enumerate((["topology.data=2", "topology.zero=1", "batch.micro=4"], ["topology.tensor=2"],
                                  ["topology.pipeline=2", "topology.schedule=interleaved", "topology.virtual_stages=2", "batch.micro=4"])):
            run_dir = f"ranks{i}"
            self.expect(0, "run", "t.toml", *keys, "--run-dir", run_dir, "-q")
            for file in (run_dir, "t.toml"):  # the run's own file says how many ranks; the other says one
                done = self.expect(0, "eval", file, "--checkpoint", run_dir, "--json").records[0]
                self.assertEqual((done["step"], done["samples"]), (40, 100))
                self.assertAlmostEqual(done["loss"], expected["loss"], delta=1e-4)
        for keys in (["optimizer.type=sgd"], ["run.seed=9"], ["optimizer={type = \"lion\", learning_rate = 0.1}"]):
            done = self.expect(0, "eval", "t.toml", *keys, "--checkpoint", "r")
            self.assertIn("checkpoint of step 40", done.out)
            for word in ("continues from", "seed", "warning"):
                self.assertNotIn(word, done.out + done.err)
            self.assertEqual(self.expect(0, "eval", "t.toml", *keys, "--checkpoint", "r", "--json").records[0]["loss"], expected["loss"])

    def test_damaged_ones(self):
        file = next((self.folder / "r/ckpt").glob("step-*/model.safetensors"))
        good = file.read_bytes()
        os.chmod(file, 0o644)
        file.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        self.fails(1, ["eval", "t.toml", "--checkpoint", "r"], "model.safetensors")
        file.write_bytes(good.replace(b"dtype", b"dtypo", 1))
        self.fails(1, ["eval", "t.toml", "--checkpoint", file.parent], "model.safetensors does not match its checksum: it is damaged; use another")
        file.write_bytes(good[:-7])
        self.fails(1, ["eval", "t.toml", "--checkpoint", file.parent], "model.safetensors")
        (file.parent / "MANIFEST.json").unlink()
        self.assertIn(self.plait("eval", "t.toml", "--checkpoint", file.parent).code, (1, 2))


class Evaluated(Case):
    """The metrics at the end of a run come from its last evaluation: measured once, on the same
    number of samples as during the run."""

    def evaluations(self):
        lines = [json.loads(line) for line in (self.folder / "r/metrics.ndjson").read_text().splitlines()]
        return [line for line in lines if line.get("event") == "evaluate"]

    def run_and_compare(self, *words, samples, times):
        self.write("t.toml", TINY)
        shutil.rmtree(self.folder / "r", ignore_errors=True)
        done = self.expect(0, "run", "t.toml", "--run-dir", "r", "--json", *words)
        found = done.event("done")["evaluation"]
        written = self.evaluations()
        self.assertEqual(len(written), times)
        self.assertEqual((found["step"], found["dataset"], found["samples"]), (40, "eval", samples))
        self.assertEqual(found["loss"], written[-1]["loss"])
        self.assertEqual(found["metrics"]["accuracy"], written[-1]["accuracy"])
        self.assertEqual(done.err.count(f"on {samples} samples"), times)
        return found

    def test_the_last_one_is_reported(self):
        whole = self.run_and_compare(samples=100, times=1)
        self.assertEqual(self.run_and_compare("evaluate.every=20", samples=100, times=2)["metrics"], whole["metrics"])
        self.run_and_compare("evaluate.every=15", samples=100, times=3)  # 15, 30, and the end

    def test_batches_shorten_every_evaluation_of_a_run(self):
        self.run_and_compare("evaluate.every=20", "evaluate.batches=2", "batch.eval=10", samples=20, times=2)
        # eval measures on everything, unless the data set itself is shortened.
        evaluation = self.expect(0, "eval", "r", "--checkpoint", "r", "--json").records[0]
        self.assertEqual((evaluation["samples"], evaluation["step"]), (100, 40))
        evaluation = self.expect(0, "eval", "r", "data.eval.limit=30", "--checkpoint", "r", "--json").records[0]
        self.assertEqual(evaluation["samples"], 30)

    def test_without_data_to_evaluate_on(self):
        self.write("t.toml", TINY)
        done = self.expect(0, "run", "t.toml", "~data.eval", "--json")
        self.assertIsNone(done.event("done")["evaluation"])


class Spoiled(Case):
    def test_values_that_are_not_finite(self):
        self.write("t.toml", TINY.replace('"adamw"', '"sgd"'))
        outcome = self.fails(5, ["run", "t.toml", "optimizer.learning_rate=1e30", "--run-dir", "r", "--json"], "in a row", "comes from")
        self.assertRegex(outcome.err, r"comes from .*(matmul|map|cross_entropy|reduce)")
        self.assertEqual(outcome.event("error")["exit"], 5)
        self.assertNotIn("-nan", outcome.out + outcome.err)
        losses = [record["loss"] for record in outcome.records if record["event"] == "step"]
        self.assertTrue(any(loss in ("nan", "inf") for loss in losses), losses)
        written = (self.folder / "r/metrics.ndjson").read_text().splitlines()
        self.assertEqual([json.loads(line)["loss"] for line in written if "lr" in json.loads(line)], losses)
        status = json.loads((self.folder / "r/status.json").read_text())
        self.assertEqual((status["state"], status["loss"]), ("failed", losses[-1]))
        self.assertRegex((self.folder / "r/log/rank-0.log").read_text(), r"Z error \[run\] failed: .* in a row")


if __name__ == "__main__":
    unittest.main()
