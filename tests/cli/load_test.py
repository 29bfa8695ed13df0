"""The same run again and again while every core is busy: the same bits.

With PLAIT_TEST_ALL=1 ten times and not three."""

import os
import subprocess
import sys
import unittest

from support import RankCase, checkpoint_files

TIMES = 10 if os.environ.get("PLAIT_TEST_ALL") == "1" else 3
FIGURES = ("step", "loss", "grad_norm")


class Load(RankCase):
    def setUp(self):
        super().setUp()
        self.load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
        for one in self.load:
            self.addCleanup(one.wait)
            self.addCleanup(one.kill)

    def test_the_same_bits_under_load(self):
        for words in ([], ["run.threads=2"], ["topology.data=2", "--ranks", "2"]):
            runs = []
            for i in range(TIMES):
                folder = f"r{len(words)}-{i}"
                done = self.expect(0, "run", "t.toml", *words, "--run-dir", folder, "--json")
                losses = [[record[name] for name in FIGURES] for record in done.records if record["event"] == "step"]
                runs.append((losses, checkpoint_files(self.folder / folder)))
            self.assertTrue(all(one.poll() is None for one in self.load))
            self.assertEqual(len(runs[0][0]), 40)
            for other in runs[1:]:
                self.assertEqual(other, runs[0], words)


if __name__ == "__main__":
    unittest.main()
