"""What commands tell on a terminal while they take long: a line that is redrawn, and erased at the end."""

import fcntl
import json
import os
import re
import select
import struct
import subprocess
import termios
import time
import unittest

from support import Case, PLAIT, TIME, TINY, read_screen

ERASE = "\r\x1b[K"


class Progress(Case):
    def setUp(self):
        super().setUp()
        self.write("t.toml", TINY)

    def on_stderr(self, *words, text="", behind="", after=0.0):
        """What the command writes to standard error, a terminal; it reads `text`, which comes so many seconds
        later, and when there is something that matches `behind`."""
        screen, terminal = os.openpty()
        fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("4H", 24, 100, 0, 0))
        with subprocess.Popen([PLAIT, *map(str, words)], cwd=self.folder, env=self.environment(), stdin=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, stderr=terminal, text=True) as run:
            os.close(terminal)
            time.sleep(after)
            said = self.read_until(screen, behind)
            run.stdin.write(text)
            run.stdin.close()
            said += read_screen(screen)
            self.assertEqual(run.wait(TIME), 0, said)
        os.close(screen)
        return said.decode()

    def read_until(self, screen, wanted):
        said, end = b"", time.monotonic() + TIME
        while not re.search(wanted.encode(), said):
            self.assertLess(time.monotonic(), end, said)
            if select.select([screen], [], [], 0.1)[0]:
                said += os.read(screen, 65536)
        return said

    READING = r"reading and planning  0:0[1-9]"  # on a busy machine the first second may be passed over

    def test_reading(self):
        said = self.on_stderr("run", "-", "run.steps=1", text=TINY, behind=self.READING)
        self.assertRegex(said, re.escape(ERASE) + self.READING)
        self.assertIn(ERASE, said[said.rindex("reading and planning"):])  # before anything else is told
        self.assertNotIn("reading", self.on_stderr("run", "-", "run.steps=1", "-q", text=TINY, after=3))

    def test_ranks(self):
        """The launcher reads and plans before it starts them."""
        said = self.on_stderr("run", "-", "run.steps=1", "topology.data=2", text=TINY, behind=self.READING)
        self.assertRegex(said, re.escape(ERASE) + self.READING)

    def test_the_last_bar(self):
        """It has the evaluation of the last step, which comes behind that step."""
        said = self.on_stderr("run", "t.toml", "--run-dir", "r", "evaluate.every=15", "run.steps=30")
        lines = [json.loads(line) for line in (self.folder / "r/metrics.ndjson").read_text().splitlines()]
        last = [line["loss"] for line in lines if line.get("event") == "evaluate"][-1]
        bar = next(part for part in reversed(said.split(ERASE)) if "30/30" in part)
        self.assertRegex(bar, rf"eval +{last:.4g}\b")

    def test_evaluation(self):
        """Sample by sample, of so many that it takes more than a second here: only then there is a line."""
        self.expect(0, "run", "t.toml", "--run-dir", "r", "-q")
        words, samples, said = ["eval", "r", "batch.eval=1"], 50000, ""
        while "evaluating" not in said and samples < 10000000:
            samples *= 3
            said = self.on_stderr(*words, f"data.eval.samples={samples}")
        many = f"data.eval.samples={samples}"
        self.assertRegex(said, r"\r\x1b\[Kevaluating \[data\.eval\]  \d+ %  .* \d+/\d+ batches  \d+:\d\d  ETA \d+:\d\d")
        self.assertTrue(said.rstrip().endswith(ERASE.rstrip()) or ERASE in said[said.rindex("evaluating"):], said[-200:])
        self.assertNotIn("evaluating", self.on_stderr(*words, many, "-q"))
        self.assertNotIn("evaluating", self.on_stderr(*words, many, "run.progress=false"))


if __name__ == "__main__":
    unittest.main()
