"""Ranks on several machines: they communicate through shared memory inside a machine, and over the
network between machines."""

import json
import signal
import subprocess
import time
import unittest

import machines
from jobs import PLAIT, TIME, OnMachines
from ranks import environment


class Hosts(OnMachines):
    @classmethod
    def setUpClass(cls):
        cls.network = machines.Machines(["left", "right"])
        cls.addClassCleanup(cls.network.close)
        cls.left, cls.right = cls.network.all

    def alone(self, *words):
        done = subprocess.run([PLAIT, "run", self.folder / "t.toml", "--json", "--run-dir", self.folder / "one", *words],
                              env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIME)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [event["loss"] for event in map(json.loads, done.stdout.splitlines()) if event["event"] == "step"]

    def check(self, places, *words):
        """The same training as that of one rank; what each rank says."""
        run = self.start(places, *words)
        codes = run.wait()
        self.assertEqual(codes, [0] * len(places), "\n".join(run.says(rank)[-2000:] for rank in range(len(places))))
        losses = run.losses()
        expected = self.alone(*(word for word in words if not word.startswith("topology.")))
        self.assertEqual(len(losses), 30)
        for a, b in zip(losses, expected):
            self.assertAlmostEqual(a, b, delta=1e-4 * abs(b))
        return run

    def test_two_and_two_train_as_one(self):
        run = self.check([self.left, self.left, self.right, self.right], "topology.data=4")
        self.assertEqual(run.groups(), {"data": "shm+gloo"})

    def test_three_and_one(self):
        run = self.check([self.left, self.right, self.left, self.left], "topology.data=4", "topology.zero=2")
        self.assertEqual(run.groups(), {"data": "shm+gloo"})

    def test_each_group_takes_what_reaches_its_members(self):
        run = self.check([self.left, self.left, self.right, self.right], "topology.data=2", "topology.tensor=2")
        self.assertEqual(run.groups(), {"tensor": "shm", "data": "gloo"})

    def test_stages_send_by_the_nearest_way(self):
        run = self.check([self.left, self.left, self.right], "topology.pipeline=3", "batch.accumulation=4",
                         'model.layers=[{type = "linear", out = 32}, {type = "relu"}, {type = "linear", out = 32}, {type = "relu"}, {type = "linear", out = 4}]')
        self.assertEqual(run.groups(), {"pipeline": "shm+gloo"})

    def start_long(self, *words):
        run = self.start([self.left, self.left, self.right, self.right], "topology.data=4", "run.steps=100000000", "run.log_every=20", *words)
        self.await_training(run)
        return run

    def test_a_killed_rank_is_named_on_both_machines(self):
        for victim in (1, 2):
            run = self.start_long()
            # What nsenter becomes is the rank itself.
            run.ranks[victim].send_signal(signal.SIGKILL)
            codes = run.wait()
            self.assertEqual(codes[victim], -signal.SIGKILL)
            for rank in {0, 1, 2, 3} - {victim}:
                self.assertEqual(codes[rank], 1, run.says(rank))
                self.assertIn(f"rank {victim} (pipeline 0, data {victim}, tensor 0)", run.says(rank))

    def test_a_cable_is_pulled(self):
        run = self.start_long("topology.timeout=3")
        self.network.cut("right")
        try:
            self.all_fail(run)
        finally:
            self.network.mend("right")

    def test_one_direction_of_a_cable_is_dead(self):
        # What is sent to the right arrives; answers, acknowledgements among them, go nowhere.
        run = self.start_long("topology.timeout=3")
        begin = time.monotonic()
        with self.right.deaf_to(self.left):
            self.all_fail(run)
        # Two timeouts: that of a call, and that within which a rank counts as lost.
        self.assertLess(time.monotonic() - begin, 2 * 3 + 5)

    def test_lost_packets_and_a_short_partition_change_nothing(self):
        words = ["topology.data=4", "run.steps=600"]
        places = [self.left, self.left, self.right, self.right]
        quiet = self.start(places, *words)
        self.assertEqual(quiet.wait(), [0] * 4)
        expected = quiet.losses()
        self.assertEqual(len(expected), 600)
        (self.folder / "run").rename(self.folder / "quiet")
        run = self.start(places, *words)
        self.await_training(run)
        for gone in (0.02, 0.02, 0.05, 0.1, 3):
            self.network.cut("right")
            time.sleep(gone)
            self.assertIsNone(run.ranks[0].poll(), "the run was over before its network was disturbed")
            self.network.mend("right")
            time.sleep(0.02)
        self.assertEqual(run.wait(), [0] * 4, "\n".join(run.says(rank)[-2000:] for rank in range(4)))
        self.assertEqual(run.losses(), expected)


if __name__ == "__main__":
    machines.enter(PLAIT)
    unittest.main()
