"""A plugin whose function does not return: a command names it, and ends where a limit is set."""

import os
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from support import Case, checkpoint_files

PLUGIN = os.environ["HANGING_PLUGIN"]
LIMIT = 2.0  # seconds; on a busy machine a call that returns may take one
PROMPT = 60  # far less than the time that pause() takes
ENVIRONMENT = 3  # exit code
EXPERIMENT = f"""\
[run]
steps = 100
plugin_timeout = {LIMIT}
[batch]
global = 10
[data.train]
type = "hang_zeros"
[model]
layers = [{{type = "hang_layer"}}, {{type = "linear", out = 1}}]
[loss]
type = "mse"
[optimizer]
type = "hang_sgd"
[optimizer.schedule]
type = "hang_rate"
[checkpoint]
every = 10
background = false
[plugins]
paths = ["{PLUGIN}"]
"""


class Hang(Case):
    def setUp(self):
        super().setUp()
        self.write("t.toml", EXPERIMENT)

    def late(self, function, call, *words):
        begun = time.monotonic()
        done = self.fails(ENVIRONMENT, words, f"[plugin fault-hangs] {call} has not returned for ",
                          f"s, expected at most {LIMIT:g} (run.plugin_timeout); it hangs, or needs longer",
                          "raise run.plugin_timeout", env={"FAULT_HANG": function})
        self.assertLess(time.monotonic() - begun, PROMPT)
        self.assertEqual(done.err.count("has not returned"), 1, done.err)

    def test_a_plan_that_hangs_names_the_function_and_ends(self):
        for function, call in (("layer", "build() of layer 'hang_layer'"),
                               ("optimizer", "build() of optimizer 'hang_sgd'"),
                               ("open", "open() of dataset 'hang_zeros'")):
            with self.subTest(function):
                self.late(function, call, "plan", "t.toml")

    def test_a_run_that_hangs_keeps_its_checkpoints(self):
        for function, call, saved in (("read", "read() of dataset 'hang_zeros'", True),
                                      ("factor", "factor() of schedule 'hang_rate'", False)):
            for prefetch in (0, 2):
                with self.subTest(function, prefetch=prefetch):
                    folder = f"{function}-{prefetch}"
                    self.late(function, call, "run", "t.toml", f"data.train.prefetch={prefetch}", "--run-dir", folder)
                    self.assertIn(f"{call} has not returned", self.log_of(folder))
                    if not saved:
                        continue
                    self.expect(0, "checkpoint", "verify", folder)
                    # Without the fault the run goes on where it was saved.
                    self.assertEqual(checkpoint_files(self.folder / folder)[0][:5], "step-")
                    self.expect(0, "run", "t.toml", "run.plugin_timeout=60", "--run-dir", folder,
                                "--resume", "must")

    def log_of(self, folder):
        return "".join(path.read_text() for path in (self.folder / folder / "log").iterdir())

    def test_the_record_says_it_too(self):
        done = self.expect(ENVIRONMENT, "plan", "t.toml", "--json", env={"FAULT_HANG": "layer"})
        error = done.event("error")
        self.assertEqual((error["exit"], error["kind"]), (ENVIRONMENT, "engine"))
        self.assertIn("build() of layer 'hang_layer' has not returned", error["message"])

    def test_another_rank_is_told_of_the_loss_and_the_launcher_of_the_reason(self):
        done = self.fails(ENVIRONMENT, ("run", "t.toml", "topology.data=2", "--ranks", "2"),
                          "read() of dataset 'hang_zeros' has not returned", env={"FAULT_HANG": "read"})
        self.assertNotIn("silent", done.err)

    def test_nothing_is_late_where_nothing_hangs(self):
        done = self.expect(0, "run", "t.toml", "run.plugin_timeout=30")
        self.assertNotIn("has not returned", done.err)


if __name__ == "__main__":
    unittest.main()
