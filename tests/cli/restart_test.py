"""plait run --max-restarts: a job that dies continues from its newest checkpoint."""

import json
import os
import pathlib
import signal
import subprocess
import time
import unittest

from support import PLAIT, TIME, RankCase, checkpoint_files


def children(pid):
    task = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    return [int(one) for one in task.read_text().split()]


class Restarts(RankCase):
    STEPS = ["run.steps=30000", "checkpoint.every=500", "run.log_every=100"]

    def start(self, *words):
        run = subprocess.Popen([PLAIT, "run", "t.toml", *words], cwd=self.folder,
                               env=self.environment(), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(run.stdout.close)
        self.addCleanup(run.stderr.close)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        return run

    def until(self, condition):
        end = time.monotonic() + TIME
        while not condition():
            self.assertLess(time.monotonic(), end, "it does not come")
            time.sleep(0.02)

    def kill_one(self, run, folder, gone=()):
        """Kills the last rank, once there is a checkpoint and none of `gone` runs any more.
        Returns all ranks."""
        self.until(lambda: list(folder.glob("ckpt/step-*/MANIFEST.json")) and children(run.pid) and
                   not set(children(run.pid)) & set(gone) and
                   json.loads((folder / "status.json").read_text())["process"] not in gone)
        every = children(run.pid)
        os.kill(every[-1], signal.SIGKILL)
        return every

    def test_ranks_that_are_killed(self):
        self.expect(0, "run", "t.toml", *self.STEPS, "topology.data=2", "--run-dir", "whole", "-q")
        run = self.start(*self.STEPS, "topology.data=2", "--run-dir", "cut", "--max-restarts", "3")
        folder = self.folder / "cut"
        gone = self.kill_one(run, folder)
        self.until(lambda: (folder / "restarts.ndjson").exists())
        self.kill_one(run, folder, gone)
        out, err = run.communicate(timeout=TIME)
        self.assertEqual(run.returncode, 0, out + err)
        self.assertIn("was killed by signal 9 (Killed)", err)
        self.assertRegex(err, r"restart 1 of 3 in 1 s, from .*cut/ckpt/step-0000")
        self.assertIn("restart 2 of 3 in 2 s", err)
        self.assertEqual(checkpoint_files(folder), checkpoint_files(self.folder / "whole"))
        status, = self.expect(0, "status", "cut", "--json").records
        self.assertEqual((status["state"], status["restarts"]), ("done", 2))
        self.assertRegex(self.expect(0, "status", "cut").out,
                         "restarted 2 times, the newest time after: .* signal 9")

    def test_a_process_alone_without_a_folder(self):
        run = self.start(*self.STEPS, "--max-restarts", "1")
        found = []
        self.until(lambda: found or found.extend(self.folder.glob("runs/tiny/*/status.json")))
        folder = found[0].parent
        self.kill_one(run, folder)
        out, err = run.communicate(timeout=TIME)
        self.assertEqual(run.returncode, 0, out + err)
        self.assertIn("[launch] the process failed: it was killed by signal 9", err)
        self.assertEqual(len(list(self.folder.glob("runs/tiny/*"))), 1)
        self.assertIn("done after step 30000", out)

    def test_no_more_than_asked_for(self):
        run = self.start(*self.STEPS, "--run-dir", "cut", "--max-restarts", "1")
        gone = self.kill_one(run, self.folder / "cut")
        self.kill_one(run, self.folder / "cut", gone)
        _, err = run.communicate(timeout=TIME)
        self.assertEqual(run.returncode, 128 + signal.SIGKILL, err)
        self.assertIn("; it had been restarted 1 time", err)

    def test_never_for_what_would_fail_again(self):
        endless = ["optimizer.learning_rate=1e30", "optimizer.type=sgd", "guard.nonfinite_limit=2"]
        for code, words in ((2, ["optimizer.learning_rate=x"]),
                            (2, ["model.load=nowhere.safetensors"]), (5, endless)):
            failed = self.expect(code, "run", "t.toml", *words, "--max-restarts", "3")
            self.assertNotIn("restart 1", failed.err)

    def test_a_request_to_stop_while_it_is_brought_back(self):
        """In the wait before the restart, and as soon as there are new processes."""
        for folder in ("waits", "starts"):
            run = self.start(*self.STEPS, "topology.data=2", "--run-dir", folder, "--max-restarts", "2")
            status = self.folder / folder / "status.json"
            self.until(lambda: status.exists() and json.loads(status.read_text()).get("checkpoint"))
            gone = self.kill_one(run, self.folder / folder)
            self.until((self.folder / folder / "restarts.ndjson").exists)
            if folder == "starts":
                self.until(lambda: set(children(run.pid)) - set(gone))
            run.send_signal(signal.SIGTERM)
            _, err = run.communicate(timeout=TIME)
            self.assertEqual(run.returncode, 4, err)
            self.assertRegex(err, rf"to resume: plait run \S+.* --run-dir \S*{folder} --resume must")
            # What it was brought back for is no fault of the run's.
            shown, = self.expect(0, "status", folder, "--json").records
            self.assertEqual((shown["state"], shown["message"]), ("interrupted", ""))
            self.expect(0, "run", folder, "--run-dir", folder, "--resume", "must", "--until", "501", "-q")

    def test_a_request_to_stop_is_no_fault(self):
        run = self.start(*self.STEPS, "--run-dir", "cut", "--max-restarts", "3")
        self.until((self.folder / "cut/status.json").exists)
        self.until(lambda: (self.folder / "cut/metrics.ndjson").stat().st_size > 0)
        run.send_signal(signal.SIGTERM)
        _, err = run.communicate(timeout=TIME)
        self.assertEqual(run.returncode, 4, err)
        self.assertNotIn("restart 1", err)


if __name__ == "__main__":
    unittest.main()
