"""Texts in a window of few columns: every line fits, unless a single word is longer."""

import fcntl
import os
import re
import struct
import subprocess
import termios
import unittest

from support import PLAIT, TIME, TINY, Case, read_screen

STYLE = re.compile(r"\x1b\[[0-9;]*m")


class Window(Case):
    def check(self, columns, *words, code=0):
        """The text, of which no line is wider than the window where it could be broken."""
        text = self.on_terminal(*words, columns=columns, env={"LC_ALL": "C.UTF-8"}, code=code)
        return self.fits(columns, STYLE.sub("", text), words)

    def fits(self, columns, text, words):
        for line in text.splitlines():
            if len(line) > columns:
                indent = len(line) - len(line.lstrip())
                self.assertNotIn(" ", line[indent:].removesuffix(" \\"),
                                 f"{len(line)} in {columns}: plait {' '.join(words)}\n{line}")
        return text

    def verbs(self):
        shown = subprocess.run([PLAIT, "--help"], capture_output=True, text=True, check=True).stdout
        return re.findall(r"(?m)^  ([a-z]+) ", shown[shown.index("Subcommands:"):])

    def test_help(self):
        verbs = self.verbs()
        self.assertGreater(len(verbs), 20)
        for columns in (80, 40):
            self.check(columns, "--help")
            for verb in verbs:
                self.check(columns, "help", verb)
        # A name and its text stand beside each other where there is room for both.
        wide, narrow = self.check(80, "help", "run"), self.check(40, "help", "run")
        self.assertRegex(wide, r"\n  --resume auto\|never\|must +resume from the")
        self.assertRegex(wide, r"\n  --until STEP {16}stops after this step")
        for verb in verbs:  # no words of the parser
            self.assertNotRegex(self.check(200, "help", verb), r"REQUIRED|:POSITIVE|:NONNEGATIVE|UINT|:INT|:\{| in \[")
        self.assertRegex(narrow, r"\n  --until STEP.*\n      stops after this step")

    def test_commands_stay_some(self):
        text = self.check(40, "help", "run")
        commands = text[text.index("Examples:"):].replace(" \\\n    ", " ")
        self.assertIn("\n  plait run demo topology.data=2 run.steps=400 --run-dir runs/two "
                      "--resume must\n", commands)

    def test_keys(self):
        for columns in (80, 40):
            for words in ((), ("optimizer",), ("lora",), ("run.log_every",), ("model.layers",)):
                self.check(columns, "keys", *words)

    def test_end_of_a_run(self):
        self.write("t.toml", TINY)
        text = STYLE.sub("", self.on_terminal("run", "t.toml", "run.log_every=1", "evaluate.every=10", columns=40))
        self.assertRegex(" ".join(text.split()), r" eval/accuracy first 0\.\d{4}, last 0\.\d{4}, lowest \(step\) 0\.\d{4} \(\d+\), highest ")

    def both(self, columns, *words):
        """What comes to a terminal that has both standard output and standard error."""
        screen, terminal = os.openpty()
        fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        with subprocess.Popen([PLAIT, *words], cwd=self.folder, env={**self.environment(), "LC_ALL": "C.UTF-8"},
                              stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal) as run:
            os.close(terminal)
            text = read_screen(screen)
            self.assertEqual(run.wait(TIME), 0, text)
        os.close(screen)
        return STYLE.sub("", text.decode().replace("\r\n", "\n"))

    def test_run(self):
        self.write("t.toml", TINY)
        words = ["run", "t.toml", "run.steps=200", "evaluate.every=100", "run.progress=false"]
        for columns in (80, 40):
            for more in ([], ["-v"]):
                text = self.both(columns, *words, *more).replace("\r\x1b[K", "")
                self.fits(columns, text, words)
        self.assertRegex(text, r"\n\[evaluate\] step 100: loss [^\n]*\n  [^\n]")  # the line goes on, indented
        joined = " ".join(text.split())
        self.assertRegex(joined, r"tiny: \d+ parameters on cpu \(\d+ threads?\), 200 steps of 16 samples")
        self.assertRegex(joined, r" samples/s, .* of it in steps evaluated on \[data.eval\]: 100 samples in ")
        self.assertRegex(self.expect(0, *words).out, r"(?m)^tiny: \d+ parameters on .* samples$")  # whole in a pipe

    def test_check(self):
        self.write("t.toml", TINY)
        words = ("check", "t.toml", "run.stepz=1", "optimizer.learning_rat=1")
        whole = self.expect(2, *words).out
        self.assertGreater(max(map(len, whole.splitlines())), 80)
        for columns in (80, 40):
            text = self.check(columns, *words, code=2)
            self.assertEqual(text.split(), whole.split())
            self.assertRegex(text, r"(?m)^  \S")
        self.check(80, "check", "t.toml")

    def test_data_show(self):
        self.write("t.toml", TINY.replace("[8]", "[48]"))
        whole = self.expect(0, "data", "show", "t.toml", "--count", "1").out
        row = whole.splitlines()[-2]
        self.assertGreater(len(row), 180)
        for columns in (80, 40):
            text = self.check(columns, "data", "show", "t.toml", "--count", "1")
            self.assertIn(" ".join(row.split()), " ".join(text.split()))

    def test_machine_and_plugins(self):
        for words in (("devices",), ("env",), ("plugins",), ("plugins", "--report"), ("plugins", "layer"), ("plugins", "adamw")):
            whole = self.expect(0, *words).out
            for columns in (80, 40):
                text = self.check(columns, *words)
                if words not in (("env",), ("plugins", "--report")):  # these have variables of the environment, and paths
                    self.assertEqual(sorted(text.split()), sorted(whole.split()), words)
        wide = self.check(80, "env")
        self.assertRegex(wide, r"(?m)^plugins {2,}\S.*\n {11,}\S")  # below its beginning
        self.assertRegex(self.expect(0, "env").out, r"(?m)^plugins  .{200}")

    def test_compare(self):
        self.write("t.toml", TINY)
        for name, rate in (("first", "0.01"), ("second", "0.02")):
            self.expect(0, "run", "t.toml", "-q", "--run-dir", f"runs/of-a-long-name/{name}",
                        f"optimizer.learning_rate={rate}", "run.steps=5")
        runs = ["runs/of-a-long-name/first", "runs/of-a-long-name/second"]
        wide = self.check(160, "compare", *runs)
        self.assertRegex(wide, r"optimizer.learning_rate +0.01 +0.02\n")
        for columns in (80, 40):
            text = self.check(columns, "compare", *runs)
            self.assertRegex(text, r"optimizer.learning_rate(\n  A 0.01, B| +0.01 +)")
        # A run beside its letter, and the figures of runs below each other.
        self.assertRegex(text, r"(?m)^A  runs/of-a-long-name/first\n  state done, step 5/5, started\n    \S")
        self.assertRegex(text, r"(?m)^mean_loss\n  A( +[\d.]+){3}\n  B( +[\d.]+){3}\n")


if __name__ == "__main__":
    unittest.main()
