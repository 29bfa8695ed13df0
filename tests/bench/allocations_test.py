"""A step allocates nothing: bench_allocations counts every malloc and mmap of the steps after the first, in all threads.

    allocations_test.py PROGRAM
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

STEPS = 60  # several epochs, so that the order of samples is made anew

TINY = """\
[run]
name = "tiny"
[batch]
global = 16
[data.train]
type = "synthetic"
samples = 100
shape = [8]
classes = 3
[model]
layers = [{type = "linear", out = 16}, {type = "layer_norm"}, {type = "relu"}, {type = "dropout", p = 0.1}, {type = "linear", out = 3}]
[loss]
type = "cross_entropy"
[optimizer]
type = "adamw"
learning_rate = 0.01
clip_grad_norm = 1.0
schedule = {type = "cosine", warmup_steps = 5}
"""


GENERATES = """\
[batch]
global = 1
[generate]
only = true
slots = 2
length = 100
repetition_penalty = 1.1
[model]
layers = [{type = "embedding", vocabulary = 40, width = 16}, {type = "decoder_block", heads = 2, rope = "half"}, {type = "linear", out = 40}]
[loss]
type = "cross_entropy"
[optimizer]
type = "sgd"
"""


class Allocations(unittest.TestCase):
    program = None

    def check(self, *words, toml=TINY):
        with tempfile.TemporaryDirectory(prefix="plait-allocations-") as folder:
            experiment = pathlib.Path(folder, "tiny.toml")
            experiment.write_text(toml)
            done = subprocess.run([self.program, experiment, "--steps", str(STEPS), *words], capture_output=True, text=True, timeout=240)
            self.assertEqual(done.returncode, 0, done.stderr)
            seen = json.loads(done.stdout)
            self.assertEqual(seen["steps"], STEPS - 1)
            self.assertEqual([seen["allocations"], seen["frees"], seen["mmaps"]], [0, 0, 0], f"{' '.join(words)}: {seen}\n{done.stderr}")

    def test_tokens(self):
        for sampling in ("0.0", "0.7"):
            for penalty in ("1.0", "1.1"):  # drawn by the device, and by the host
                self.check("--mode", "tokens", f"generate.temperature={sampling}", f"generate.repetition_penalty={penalty}",
                           "generate.top_k=9", "generate.top_p=0.9", toml=GENERATES)

    def test_tokens_of_int8_weights(self):
        self.check("--mode", "tokens", "generate.weights=int8", toml=GENERATES)

    def test_steps_of_the_host(self):
        self.check()

    def test_a_run_that_writes_its_files(self):
        self.check("--mode", "files")

    def test_the_bar_on_a_terminal(self):
        """The program sees to it that the bar is redrawn in steps that count."""
        self.check("--mode", "observed")
        self.check("--mode", "observed", "run.log_every=7")

    def test_micro_batches(self):
        self.check("batch.micro=4")

    def test_one_thread(self):
        self.check("--mode", "files", "run.threads=1")

    def test_the_count_sees_allocations(self):
        """A save does allocate, and on a thread of its own."""
        with self.assertRaisesRegex(AssertionError, "allocations"):
            self.check("--mode", "files", "checkpoint.every=20")


if __name__ == "__main__":
    Allocations.program = sys.argv.pop(1)
    unittest.main()
