"""plait under a real Slurm: ranks that srun starts, batch scripts with and without it, the signals
before a time limit and with scancel, jobs that are queued again, and plait submit."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from cluster import Cluster, enter

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from support import PLAIT, TINY, checkpoint_files

TIME = 240  # seconds for anything; the machine may be busy
ENDLESS = ("run.steps=100000000", "run.log_every=500")
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"}
TWO = "topology.data=2"


class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.addClassCleanup(cls.cluster.close)

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="plait-slurm-test-", ignore_cleanup_errors=True)
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "t.toml").write_text(TINY)
        os.chdir(self.folder)  # where commands run
        self.addCleanup(os.chdir, "/")
        self.jobs = []
        self.addCleanup(self.cancel_all)

    def cancel_all(self):
        for job in self.jobs:
            self.call("scancel", "--signal=KILL", "--full", job)
            self.call("scancel", job)
        for job in self.jobs:
            self.until(lambda job=job: self.state(job)["JobState"] in ENDED, "the end of a cancelled job")

    def call(self, *words, env=None):
        return subprocess.run(self.cluster.left.command(*words), env={**self.cluster.environment(), "NO_COLOR": "1", **(env or {})},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIME)

    def expect(self, code, *words, env=None):
        done = self.call(*words, env=env)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def until(self, condition, what):
        end = time.monotonic() + TIME
        while not condition():
            if time.monotonic() > end:
                self.fail(f"{what} does not come\n" + self.said())
            time.sleep(0.1)

    def said(self):
        # Not below the runs, whose folders of checkpoints come and go.
        files = [*self.folder.glob("*.out"), *self.folder.glob("*/*.out")]
        return "\n".join(f"{path}:\n{path.read_text()}" for path in files) or self.cluster.logs()

    def batch(self, script, *words):
        """A job of a script of ours; its number."""
        (self.folder / "script").write_text("#!/bin/bash\n" + script + "\n")
        return self.known(self.expect(0, "sbatch", "--parsable", "-o", "%j.out", *words, "script").stdout.strip())

    def submit(self, *words):
        """A job of plait submit; its number."""
        done = self.expect(0, PLAIT, "submit", "t.toml", *words, "--json")
        return self.known(json.loads(done.stdout)["job"])

    def known(self, job):
        self.jobs.append(job)
        return job

    def state(self, job):
        words = self.expect(0, "scontrol", "show", "job", "-o", job).stdout.split()
        return dict(word.partition("=")[::2] for word in words)

    def ended(self, job):
        """(state, exit code, times that it was queued again)."""
        self.until(lambda: self.state(job)["JobState"] in ENDED, f"the end of job {job}")
        found = self.state(job)
        return found["JobState"], found["ExitCode"], found["Restarts"]

    def steps(self, run):
        """How far the lines of a run go; those of an endless one are many."""
        file = self.folder / run / "metrics.ndjson"
        if not file.exists():
            return 0
        with open(file, "rb") as opened:
            opened.seek(max(0, file.stat().st_size - 10000))
            lines = opened.read().split(b"\n")
        return max((json.loads(line).get("step", 0) for line in lines[:-1] if line.startswith(b"{")), default=0)

    def trains(self, run, behind=0):
        self.until(lambda: self.steps(run) > behind, f"a step of {run} behind {behind}")

    def status(self, run):
        return json.loads((self.folder / run / "status.json").read_text())["state"]

    def log(self, run, rank):
        """What a rank reported. srun may lose the last lines of its output when another rank was killed."""
        return (self.folder / run / f"log/rank-{rank}.log").read_text()

    def ranks(self, run):
        """Processes of the ranks of a run, by rank."""
        found = {}
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (path / "cmdline").read_text().split("\0")
                variables = dict(word.partition("=")[::2] for word in (path / "environ").read_text().split("\0"))
            except OSError:
                continue
            if words[1:2] == ["run"] and run in words and "SLURM_STEP_ID" in variables:
                found[int(variables["SLURM_PROCID"])] = int(path.name)
        return found


class Steps(Slurm):
    def test_srun_on_one_node_and_on_two(self):
        done = self.expect(0, "srun", "-n", "2", PLAIT, "run", "t.toml", TWO, "--run-dir", "one", "--json")
        start = json.loads(done.stdout.splitlines()[0])
        self.assertEqual((start["ranks"], start["launcher"]), (2, "Slurm"))
        self.assertEqual(done.stdout.count('"done"'), 1)
        two = ("srun", "-N", "2", "-n", "2", PLAIT, "run", "t.toml", TWO, "--run-dir", "two")
        told = self.call(*two)
        self.assertEqual(told.returncode, 2, told.stderr)
        self.assertIn("only 1 are on this machine; set the rendezvous on all ranks: PLAIT_RENDEZVOUS=file:PATH", told.stderr)
        self.expect(0, *two, env={"PLAIT_RENDEZVOUS": f"file:{self.folder}/meet"})
        self.assertEqual(checkpoint_files("one"), checkpoint_files("two"))
        self.assertFalse((self.folder / "meet").exists())

    def test_a_wrong_number_of_tasks(self):
        for tasks, words in ((1, [TWO]), (3, [TWO]), (2, [])):
            done = self.call("srun", "-n", str(tasks), PLAIT, "run", "t.toml", *words, "--run-dir", "r")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, f"make {len(words) + 1} ranks?, but {tasks} w(as|ere) started")

    def test_a_batch_script_by_itself_starts_the_ranks(self):
        job = self.batch(f"{PLAIT} run t.toml {TWO} --run-dir r", "-N", "2", "-n", "2")
        self.assertEqual(self.ended(job), ("COMPLETED", "0:0", "0"))
        self.assertIn("starting 2 ranks on this machine", self.said())
        self.assertIn("this Slurm job has 2 nodes, but the ranks all start on this one", self.said())

    def test_a_rank_is_killed(self):
        env = {"PLAIT_RENDEZVOUS": f"file:{self.folder}/meet"}
        for victim in (0, 1):
            run = subprocess.Popen(self.cluster.left.command("srun", "-N", "2", "-n", "2", PLAIT, "run", "t.toml", TWO, *ENDLESS, "--run-dir", f"r{victim}"),
                                   env={**self.cluster.environment(), **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.addCleanup(run.stdout.close)
            self.addCleanup(run.wait)
            self.addCleanup(run.kill)
            self.trains(f"r{victim}")
            os.kill(self.ranks(f"r{victim}")[victim], signal.SIGKILL)
            out, _ = run.communicate(timeout=TIME)
            self.assertEqual(run.returncode, 128 + signal.SIGKILL, out)
            self.assertIn(f"rank {victim} (pipeline 0, data {victim}, tensor 0) is lost", self.log(f"r{victim}", 1 - victim))
            self.assertEqual(self.ranks(f"r{victim}"), {})


class Jobs(Slurm):
    def test_it_is_queued_again_and_ends_as_if_it_had_run_through(self):
        steps = ["run.steps=20000", "run.log_every=50"]
        job = self.submit(*steps, TWO, "--nodes", "2", "--run-dir", "cut")
        for _ in range(2):
            self.trains("cut", self.steps("cut"))
            self.assertEqual(self.state(job)["JobState"], "RUNNING", "the run was over before it was interrupted\n" + self.said())
            self.expect(0, "scancel", "--batch", "--signal=USR1", job)
            self.until(lambda: self.state(job)["JobState"] == "PENDING", "the job in the queue")
            self.assertEqual(self.status("cut"), "interrupted")
        self.assertEqual(self.ended(job), ("COMPLETED", "0:0", "2"), self.said())
        self.assertEqual(self.said().count("[session] continues from 'cut/ckpt/step-"), 2)
        self.expect(0, "srun", "-N", "2", "-n", "2", PLAIT, "run", "t.toml", *steps, TWO, "--run-dir", "whole", "-q",
                    env={"PLAIT_RENDEZVOUS": f"file:{self.folder}/meet"})
        self.assertEqual(checkpoint_files("cut"), checkpoint_files("whole"))
        self.assertEqual([path for path in self.folder.iterdir() if "rendezvous" in path.name], [])

    def test_the_time_limit(self):
        # Slurm looks at time limits twice a minute and is early: the ranks have half a minute here.
        job = self.submit(*ENDLESS, TWO, "--time", "2", "--save-before", "60", "--run-dir", "r")
        self.until(lambda: self.state(job)["Restarts"] == "1", "the job in the queue")
        self.assertEqual(self.status("r"), "interrupted")
        self.assertIn(f"the time is up: job {job} is queued again", self.said())
        before = self.steps("r")
        self.trains("r", before)
        self.expect(0, "scancel", job)
        self.assertEqual(self.ended(job)[::2], ("CANCELLED", "1"))

    def test_scancel_saves_and_ends_it(self):
        for name, words in (("one", []), ("two", ["--nodes", "2"])):
            job = self.submit(*ENDLESS, TWO, *words, "--run-dir", name)
            self.trains(name)
            self.expect(0, "scancel", job)
            self.assertEqual(self.ended(job)[::2], ("CANCELLED", "0"))
            self.until(lambda: not self.ranks(name), "the end of the ranks")
            self.assertEqual(self.status(name), "interrupted", self.said())
            self.assertEqual(int(checkpoint_files(name)[0].removeprefix("step-")) >= self.steps(name), True)

    def test_a_signal_to_the_ranks_alone_saves_and_ends_it(self):
        job = self.submit(*ENDLESS, "--run-dir", "r")
        self.trains("r")
        self.expect(0, "scancel", "--signal=USR1", job)
        self.assertEqual(self.ended(job), ("FAILED", "4:0", "0"))
        self.assertEqual(self.status("r"), "interrupted")

    def test_a_job_whose_rank_is_killed(self):
        job = self.submit(*ENDLESS, TWO, "--nodes", "2", "--run-dir", "r")
        self.trains("r")
        os.kill(self.ranks("r")[0], signal.SIGKILL)
        self.assertEqual(self.ended(job), ("FAILED", "137:0", "0"))
        self.assertIn("rank 0 (pipeline 0, data 0, tensor 0) is lost", self.log("r", 1))
        self.assertIn("srun ended with 137; what each rank reported: r/log/rank-*.log", self.said())

    def test_a_node_fails(self):
        job = self.submit(*ENDLESS, TWO, "--nodes", "2", "checkpoint.every=200", "--run-dir", "r")
        self.until(lambda: list((self.folder / "r/ckpt").glob("step-*/MANIFEST.json")), "a checkpoint")
        self.expect(0, "scontrol", "update", "nodename=right", "state=down", "reason=test")
        self.until(lambda: self.state(job)["Restarts"] == "1", "the job in the queue")

        def is_back():
            if not self.cluster.states() & {"down", "down*"}:
                return True
            self.call("scontrol", "update", "nodename=right", "state=resume")  # refused while its tasks end
            return False
        self.until(is_back, "the node")
        self.until(lambda: "[session] continues from 'r/ckpt/step-" in self.said(), "the continued run")

    def test_a_run_for_each_value(self):
        job = self.submit("optimizer.learning_rate=0.01,0.02", "run.seed=1,2", "--at-once", "2", "--run-dir", "all")
        runs = [self.folder / "all" / f"{i:04}" for i in range(4)]
        self.until(lambda: all((run / "status.json").exists() and self.status(run) == "done" for run in runs), "the end of all runs")
        listed = json.loads(self.expect(0, PLAIT, "runs", "all", "--json").stdout)
        self.assertEqual([run["state"] for run in listed["runs"]], ["done"] * 4)
        self.assertEqual({path.name.split(".")[0] for path in (self.folder / "all").glob("*.out")}, {"0", "1", "2", "3"})
        for i, words in enumerate((("0.01", "1"), ("0.01", "2"), ("0.02", "1"), ("0.02", "2"))):
            given = (runs[i] / "overrides.txt").read_text()
            self.assertIn(f"optimizer.learning_rate={words[0]}\nrun.seed={words[1]}\n", given)
        self.jobs.remove(job)

    def test_options_that_slurm_knows_and_does_not_know(self):
        job = self.submit("--partition", "other", "--time", "5", "--cpus", "2", "--gpus", "1", "--sbatch", "comment=a #b", "--before", "echo on $SLURM_JOB_NODELIST", "--run-dir", "r")
        self.assertEqual(self.ended(job), ("COMPLETED", "0:0", "0"), self.said())
        found = self.state(job)
        self.assertEqual((found["Partition"], found["TimeLimit"], found["CPUs/Task"]), ("other", "00:05:00", "2"))
        self.assertEqual(found["TresPerNode"], "gres:gpu:1")
        self.assertRegex(self.said(), "\non (left|right)\n")
        refused = self.call(PLAIT, "submit", "t.toml", "--partition", "nowhere", "--run-dir", "n")
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertIn("invalid partition", refused.stderr)
        self.assertIn("n.sbatch", refused.stderr)


if __name__ == "__main__":
    enter(PLAIT)
    unittest.main()
