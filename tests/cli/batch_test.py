"""plait run as a task of a batch system: the signals that Slurm sends before a time limit and with
scancel, and the same command once more when the job is queued again.

The ranks are started as srun starts them, with its variables.
"""

import json
import signal
import subprocess
import time
import unittest

from support import PLAIT, TIME, RankCase, checkpoint_files

KILL_WAIT = 30  # seconds after which Slurm kills what it has asked to end
COMMAND = ("run", "t.toml", "topology.data=2", "run.resume=auto", "run.log_every=2", "--json")
ENDLESS = "run.steps=100000000"


class Batch(RankCase):
    def start(self, steps=ENDLESS, restarts=0):
        """Both tasks of a step, in the same place whenever the job is started."""
        ranks = []
        for rank in range(2):
            step = dict(SLURM_JOB_ID="77", SLURM_JOB_NAME="train", SLURM_STEP_ID="0", SLURM_NODEID="0",
                        SLURM_PROCID=str(rank), SLURM_LOCALID=str(rank), SLURM_STEP_NUM_TASKS="2",
                        SLURM_STEP_TASKS_PER_NODE="2")
            if restarts:
                step["SLURM_RESTART_COUNT"] = str(restarts)
            files = [open(self.folder / f"{rank}.{name}", "w") for name in ("out", "err")]
            ranks.append(subprocess.Popen([PLAIT, *COMMAND, steps, "--run-dir", "cut"], cwd=self.folder,
                                          env=self.environment() | step, stdin=subprocess.DEVNULL,
                                          stdout=files[0], stderr=files[1]))
            for file in files:
                file.close()
            self.addCleanup(ranks[-1].wait)
            self.addCleanup(ranks[-1].kill)
        return ranks

    def events(self):
        lines = (self.folder / "0.out").read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def said(self):
        return "\n".join((self.folder / f"{rank}.err").read_text() for rank in range(2))

    def interrupt(self, ranks, signals):
        """Sends them to every task of the job, as Slurm does, after a few steps of this start."""
        end = time.monotonic() + TIME
        while sum(event["event"] == "step" for event in self.events()) < 3:
            self.assertLess(time.monotonic(), end, self.said())
            self.assertIsNone(ranks[0].poll(), self.said())
            time.sleep(0.005)
        begin = time.monotonic()
        for number in signals:
            for rank in ranks:
                rank.send_signal(number)
        self.assertEqual([rank.wait(timeout=TIME) for rank in ranks], [4, 4], self.said())
        self.assertLess(time.monotonic() - begin, KILL_WAIT)
        self.assertEqual(self.events()[-1]["event"], "interrupted")
        status = json.loads((self.folder / "cut/status.json").read_text())
        self.assertEqual(status["state"], "interrupted")

    def test_a_job_that_is_queued_again_goes_on(self):
        # --signal=USR1@60 before the time limit; scancel, which wakes a suspended job; an interrupted
        # srun.
        steps = [0]
        sent = [(signal.SIGUSR1,), (signal.SIGCONT, signal.SIGTERM), (signal.SIGINT,)]
        for restarts, signals in enumerate(sent):
            ranks = self.start(restarts=restarts)
            self.interrupt(ranks, signals)
            start, = (event for event in self.events() if event["event"] == "start")
            self.assertEqual(start["step"], steps[-1], "it does not continue from the checkpoint")
            newest, _ = checkpoint_files(self.folder / "cut")
            steps.append(int(newest.removeprefix("step-")))
            self.assertGreater(steps[-1], steps[-2])
        end = f"run.steps={steps[-1] + 20}"
        ranks = self.start(end, restarts=len(steps) - 1)
        self.assertEqual([rank.wait(timeout=TIME) for rank in ranks], [0, 0], self.said())
        self.expect(0, *COMMAND, end, "--run-dir", "whole")
        cut, whole = (checkpoint_files(self.folder / name) for name in ("cut", "whole"))
        self.assertEqual(cut, whole)

    def test_a_signal_before_the_ranks_have_met(self):
        """The rest of them would wait for the one that has ended: all are told."""
        ranks = self.start()
        for rank in ranks:
            rank.send_signal(signal.SIGCONT)
            rank.send_signal(signal.SIGTERM)
        for rank in ranks:
            self.assertIn(rank.wait(timeout=KILL_WAIT), (4, 1, -signal.SIGTERM), self.said())


if __name__ == "__main__":
    unittest.main()
