"""Running bin/plait ($PLAIT_BIN) in a scratch folder, for the tests beside this file."""

import fcntl
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import default_signals
from ranks import environment

default_signals.use()
PLAIT = os.environ.get("PLAIT_BIN", "plait")
TORCHRUN = os.environ.get("PLAIT_TORCHRUN") or shutil.which("torchrun")
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TIME = 120  # seconds for one command; sanitizers are slow

# A model with dropout and an optimizer with state, so that a resume has something to get wrong.
TINY = """\
[run]
name = "tiny"
steps = 40
[batch]
global = 16
[data.train]
type = "synthetic"
samples = 200
shape = [8]
classes = 3
[data.eval]
type = "synthetic"
samples = 100
shape = [8]
classes = 3
first = 200
[model]
layers = [{type = "linear", out = 16}, {type = "relu"}, {type = "dropout", p = 0.1}, {type = "linear", out = 3}]
[loss]
type = "cross_entropy"
[[metrics]]
type = "accuracy"
[optimizer]
type = "adamw"
learning_rate = 0.01
"""


class Outcome:
    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def records(self):
        """Standard output as NDJSON."""
        return [json.loads(line) for line in self.out.splitlines()]

    def event(self, name):
        return [record for record in self.records if record.get("event") == name][-1]


def read_screen(screen):
    """All that comes from a pseudo-terminal until the programs on its other side have ended."""
    text = b""
    try:
        while part := os.read(screen, 65536):
            text += part
    except OSError:  # the other side was closed
        pass
    return text


class Case(unittest.TestCase):
    """Each test has a scratch folder of its own, `self.folder`, in which commands run."""

    def setUp(self):
        self._scratch = tempfile.TemporaryDirectory(prefix="plait-cli-")
        self.addCleanup(self._scratch.cleanup)
        self.folder = pathlib.Path(self._scratch.name)

    def environment(self):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PLAIT")}
        return {**kept, "NO_COLOR": "1"}

    def write(self, name, text):
        (self.folder / name).write_text(text)
        return name

    def plait(self, *words, env=None, cwd=None):
        done = subprocess.run([PLAIT, *map(str, words)], cwd=cwd or self.folder, env={**self.environment(), **(env or {})},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIME)
        outcome = Outcome(done)
        # Whatever happens: no crash, no trace of the inside.
        self.assertGreaterEqual(outcome.code, 0, f"died of signal {-outcome.code}: {outcome.err}")
        for word in ("terminate called", "Assertion", "Segmentation", "what():"):
            self.assertNotIn(word, outcome.err)
        return outcome

    def expect(self, code, *words, env=None, cwd=None):
        outcome = self.plait(*words, env=env, cwd=cwd)
        self.assertEqual(outcome.code, code, f"plait {' '.join(map(str, words))}\n{outcome.out}\n{outcome.err}")
        return outcome

    def on_terminal(self, *words, env=None, columns=None, code=0):
        """What the command writes to standard output where that is a terminal; it ends with `code`."""
        screen, terminal = os.openpty()
        if columns:
            fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        with subprocess.Popen([PLAIT, *map(str, words)], cwd=self.folder, env={**self.environment(), **(env or {})},
                              stdin=subprocess.DEVNULL, stdout=terminal, stderr=subprocess.DEVNULL) as run:
            os.close(terminal)
            text = read_screen(screen)
            self.assertEqual(run.wait(TIME), code)
        os.close(screen)
        return text.decode().replace("\r\n", "\n")

    def fails(self, code, words, *texts, env=None):
        """The command fails with that code, and its message contains all texts."""
        outcome = self.expect(code, *words, env=env)
        for text in texts:
            self.assertIn(text, outcome.out + outcome.err)
        return outcome


def checkpoint_files(run_dir):
    """Names and bytes of the newest checkpoint's tensors."""
    newest = sorted(path for path in (pathlib.Path(run_dir) / "ckpt").iterdir() if path.name.startswith("step-"))[-1]
    return newest.name, {path.name: path.read_bytes() for path in newest.glob("*.safetensors")}


class RankCase(Case):
    """With the experiment t.toml, and an environment without the variables of launchers and a folder for secrets."""

    def setUp(self):
        super().setUp()
        self.write("t.toml", TINY)
        (self.folder / "own").mkdir(mode=0o700)

    def environment(self):
        return environment(XDG_RUNTIME_DIR=str(self.folder / "own"))
