"""Ranks of two machines whose network is bad: every sum is right, or every rank ends with an error
within its time limit.

With PLAIT_TEST_ALL=1 it takes minutes: a thousand steps, a partition of ten seconds."""

import os
import random
import signal
import time
import unittest

import machines
import wire
from jobs import PLAIT, OnMachines

ALL = os.environ.get("PLAIT_TEST_ALL") == "1"
STEPS = 100 if ALL else 60
ROUNDS = 10 if ALL else 1  # of the test with most collectives
# Seconds where a fault is to be noticed: of a call, and without which a rank counts as lost.
TIMEOUT = 4


class Network(OnMachines):
    width = 1024  # 50 kB of gradients: an all-reduce has dozens of frames

    @classmethod
    def setUpClass(cls):
        cls.seed = random.SystemRandom().randrange(10**6)
        print(f"seed {cls.seed}", flush=True)
        cls.rng = random.Random(cls.seed)
        cls.network = wire.WiredMachines(["left", "right"], cls.seed)
        cls.addClassCleanup(cls.network.close)
        cls.places = cls.network.all
        cls.quiet = None

    def run_to_end(self, steps, *words):
        return self.start(self.places, "topology.data=2", f"run.steps={steps}", *words)

    def expected(self, steps):
        """Losses without any fault."""
        if Network.quiet is None:
            run = self.run_to_end(STEPS)
            self.assertEqual(run.wait(), [0, 0], run.says(0)[-2000:])
            Network.quiet = run.losses()
            (self.folder / "run").rename(self.folder / "quiet")
        self.assertEqual(len(Network.quiet), STEPS)
        return Network.quiet[:steps]

    def check_sums(self, run, steps):
        """It ended well, with the losses of a quiet network, bit by bit: a wrong sum would change
        all later ones."""
        codes = run.wait()
        self.assertEqual(codes, [0, 0], "\n".join(run.says(rank)[-2000:] for rank in range(2)))
        self.assertEqual(run.losses(), self.expected(steps))

    def start_long(self, *words):
        run = self.run_to_end(100000000, f"topology.timeout={TIMEOUT}", *words)
        self.await_training(run)
        return run

    def check_ended_in_time(self, run, begin):
        self.all_fail(run)
        self.assertLess(time.monotonic() - begin, 2 * TIMEOUT + 10)
        losses = run.losses()
        self.assertEqual(losses[:STEPS], self.expected(min(STEPS, len(losses))))

    def test_lost_doubled_damaged_and_overtaken_frames_change_nothing(self):
        self.expected(0)
        with self.network.faults(lost=0.01, doubled=0.01, damaged=0.01, jitter=0.0005) as (_, seen):
            for number in range(ROUNDS):
                self.check_sums(self.run_to_end(STEPS), STEPS)
                (self.folder / "run").rename(self.folder / f"run-{number}")
        print(f"{ROUNDS * STEPS} steps: {seen()}", flush=True)
        for what in ("lost", "doubled", "damaged", "overtaken"):
            self.assertGreater(seen()[what], 10, what)

    def test_a_long_way_and_losses(self):
        steps = STEPS // 15
        self.expected(0)
        with self.network.faults(delay=0.025, lost=0.01) as (_, seen):  # a round trip takes 50 ms
            self.check_sums(self.run_to_end(steps), steps)
        self.assertGreater(seen()["carried"], 20 * steps)

    def test_a_partition_shorter_than_the_time_limit_changes_nothing(self):
        self.expected(0)
        run = self.run_to_end(8 * STEPS, "topology.timeout=60")
        self.await_training(run)
        with self.network.faults(cut=True) as (_, seen):
            time.sleep(10 if ALL else 1.5)
            self.assertIsNone(run.ranks[0].poll(), "the run was over before its network was cut")
        self.assertGreater(seen()["cut"], 0)
        self.assertEqual(run.wait(), [0, 0], run.says(0)[-2000:])
        self.assertEqual(run.losses()[:STEPS], self.expected(STEPS))

    def test_a_link_that_dies_in_the_middle_of_a_sum(self):
        self.expected(0)
        for _ in range(5 if ALL else 1):
            run = self.start_long()
            begin = time.monotonic()
            with self.network.faults(cut_after=self.rng.randrange(1, 60)) as (faults, _):
                self.check_ended_in_time(run, begin)
                self.assertTrue(faults.cut)
            (self.folder / "run").rename(self.folder / f"run-{time.monotonic_ns()}")

    def test_a_machine_that_vanished_while_nobody_could_hear_it(self):
        """Its connections stay half open: nothing tells the other machine that their end is gone."""
        for comes_back in (False, True):  # the machine, without the rank
            run = self.start_long()
            with self.network.faults(cut=True) as (faults, _):
                begin = time.monotonic()
                run.ranks[1].send_signal(signal.SIGKILL)
                run.ranks[1].wait()
                faults.cut = not comes_back
                self.assertEqual(run.wait(), [1, -signal.SIGKILL], run.says(0))
            self.assertIn("rank 1 (pipeline 0, data 1, tensor 0)", run.says(0))
            self.assertLess(time.monotonic() - begin, 2 * TIMEOUT + 10)
            (self.folder / "run").rename(self.folder / f"run-{comes_back}")


if __name__ == "__main__":
    machines.enter(PLAIT)
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        machines.skip("/dev/net/tun cannot be opened: no TAP devices")
    unittest.main()
