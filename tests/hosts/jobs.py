"""Jobs whose ranks run on machines made of namespaces, and what tests of them share."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
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


class OnMachines(unittest.TestCase):
    """Each test has a folder with an experiment; a port of its own for each run."""

    port = 29500
    width = 64

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="plait-hosts-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "t.toml").write_text(model(width=self.width, steps=30))
        secret = self.folder / "secret"
        secret.write_bytes(os.urandom(32))
        secret.chmod(0o600)

    def start(self, places, *words):
        OnMachines.port += 1
        run = Run(self.folder, places, words, OnMachines.port)
        self.addCleanup(run.close)
        return run

    def await_training(self, run):
        while run.ranks[0].poll() is None and not run.losses():
            time.sleep(0.01)
        self.assertIsNone(run.ranks[0].poll(), run.says(0))

    def all_fail(self, run):
        """Every rank ends with an error that names a rank."""
        self.assertEqual(run.wait(), [1] * len(run.ranks))
        for rank in range(len(run.ranks)):
            self.assertRegex(run.says(rank), r"rank \d \(pipeline 0, data \d, tensor 0\)")
