"""Ranks on several machines: they communicate through shared memory inside a machine, and over the
network between machines."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import machines
from ranks import environment, model, variables

PLAIT = os.environ.get("PLAIT_BIN", "plait")
TIME = 120  # seconds for one run; sanitizers are slow


class Run:
    """Ranks on machines: `places` has the machine of each."""

    def __init__(self, folder, places, words, port):
        self.folder, self.ranks = folder, []
        for rank, machine in enumerate(places):
            here = [r for r, other in enumerate(places) if other is machine]
            env = environment(PLAIT_SECRET_FILE=str(folder / "secret"), **variables(rank, len(places), f"{places[0].name}:{port}", here))
            with open(self.file(rank, "out"), "wb") as out, open(self.file(rank, "err"), "wb") as err:
                self.ranks.append(subprocess.Popen(machine.command(PLAIT, "run", folder / "t.toml", "--json", "-v", "--run-dir", folder / "run", *words),
                                                   env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err))

    def file(self, rank, what):
        return self.folder / f"{rank}.{what}"

    def says(self, rank):
        return self.file(rank, "err").read_text()

    def groups(self):
        """How the groups of rank 0, who speaks for all, exchange, by axis."""
        return dict(re.findall(r"\[session\] (\w+)\.\d: \d ranks exchange over (.*)", self.says(0)))

    def events(self, rank):
        return [json.loads(line) for line in self.file(rank, "out").read_text().splitlines() if line.endswith("}")]

    def losses(self):
        return [event["loss"] for event in self.events(0) if event["event"] == "step"]

    def wait(self):
        return [rank.wait(timeout=TIME) for rank in self.ranks]

    def close(self):
        for rank in self.ranks:
            rank.kill()
            rank.wait()


class Hosts(unittest.TestCase):
    port = 29500

    @classmethod
    def setUpClass(cls):
        cls.network = machines.Machines(["left", "right"])
        cls.addClassCleanup(cls.network.close)
        cls.left, cls.right = cls.network.all

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="plait-hosts-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "t.toml").write_text(model(width=64, steps=30))
        secret = self.folder / "secret"
        secret.write_bytes(os.urandom(32))
        secret.chmod(0o600)

    def start(self, places, *words):
        Hosts.port += 1
        run = Run(self.folder, places, words, Hosts.port)
        self.addCleanup(run.close)
        return run

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
        while run.ranks[0].poll() is None and not run.losses():
            pass
        self.assertIsNone(run.ranks[0].poll(), run.says(0))
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

    def all_fail(self, run):
        self.assertEqual(run.wait(), [1] * 4)
        for rank in range(4):
            self.assertRegex(run.says(rank), r"rank \d \(pipeline 0, data \d, tensor 0\)")

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
        while run.ranks[0].poll() is None and not run.losses():
            pass
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
