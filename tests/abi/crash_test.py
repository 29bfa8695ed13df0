"""A plugin that ends the process of the command line: the message names its file."""

import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from support import PLAIT, TIME, Case, TINY

PLUGIN = os.environ["CRASHING_PLUGIN"]
# bindings/cli/crash.cpp leaves signals and exits to the sanitizer.
of_our_handler = unittest.skipIf(os.environ["PLAIT_SANITIZE"], "a sanitizer reports crashes itself")


class Crash(Case):
    def plan(self, how):
        model = TINY.replace('{type = "relu"}', '{type = "fault_layer"}')
        self.write("t.toml", model + f'[plugins]\npaths = ["{PLUGIN}"]\n')
        words = ["sh", "-c", 'ulimit -c 0; exec "$@"', "sh", PLAIT, "plan", "t.toml"]
        environment = os.environ | ({"FAULT_CRASH": how} if how else {})
        return subprocess.run(words, cwd=self.folder, env=environment, capture_output=True,
                              text=True, timeout=TIME)

    def test_the_plugin_is_fine_where_it_does_not_end_the_process(self):
        done = self.plan(None)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    @of_our_handler
    def test_a_crash_names_the_plugin_and_ends_as_a_crash(self):
        crashes = {"write": signal.SIGSEGV, "memset": signal.SIGSEGV, "abort": signal.SIGABRT}
        for how, number in crashes.items():
            with self.subTest(how):
                done = self.plan(how)
                self.assertEqual(done.returncode, -number, done.stderr)
                self.assertIn("the process crashed in the code of a plugin, "
                              f"{PLUGIN}: signal {number:d} (", done.stderr)
                self.assertIn("report it to the plugin's author", done.stderr)

    @of_our_handler
    def test_exit_is_a_failure_and_names_the_plugin(self):
        for given, code in ((0, 1), (7, 7)):
            how = f"exit {given}"
            with self.subTest(how):
                done = self.plan(how)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(f"exit({given}) was called in the code of a plugin, "
                              f"{PLUGIN} before the command was done", done.stderr)

    def test_a_signal_from_outside_is_no_fault_of_a_plugin(self):
        # Of this program itself, which waits for standard input.
        process = subprocess.Popen([PLAIT, "check", "/dev/stdin"], stdin=subprocess.PIPE,
                                   stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        process.terminate()
        _, err = process.communicate(timeout=TIME)
        self.assertEqual(process.returncode, -signal.SIGTERM)
        self.assertEqual(err, "")


if __name__ == "__main__":
    unittest.main()
