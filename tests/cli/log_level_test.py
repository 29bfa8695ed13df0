"""run.log_level: what the log files of two ranks contain, and the terminal does not."""

import re
import unittest

from support import RankCase

# Without [data.eval] every line of rank 0 is a warning or debug; virtual_stages is one that warns.
WORDS = ("topology.data=2", "topology.virtual_stages=2")
WARNED = "topology.virtual_stages has no effect: topology.pipeline is 1"
EVALUATED = "[evaluate] step 4: loss "
LINE = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (debug|info |warn |error) \S.*")
# Told once each, by both ranks: how they met, what was planned, what was written.
DEBUG = (r"\[control\] rank \d has reached rank 0 at \S+:\d+",
         r"\[session\] rank \d \(pipeline 0, data \d, tensor 0\) has met all 2 ranks, on 1 machine, after [\d.e+-]+ m?s",
         r"\[session\] \d groups? (is|are) connected after [\d.e+-]+ m?s",
         r"\[plan\] rank \d of 2 \(.*\), device '\w+', \d+ threads?: made in .* \(inputs .* m?s, tracing .*, train_step .*\)",
         r"\[plan\] program update: \d+ calls \(.* by '.*' \d+.*\), \S+ FLOPs, .*B of transient memory",
         r"\[plan\] \d+ all_reduce over axis data, of .*B in all",
         r"\[session\] device '\w+'.* holds .*B, \d+ kernels are prepared, \d+ graphs captured",
         r"\[session\] \d+ parameters have initial values after [\d.e+-]+ m?s",
         r"\[checkpoint\] rank \d wrote \d+ tensors, .*B, of .*/ckpt/step-0000000004, complete after [\d.e+-]+ m?s")


class LogLevel(RankCase):
    def logs(self, level, *words, steps=4, code=0):
        """The logs of both ranks, and what the terminal showed."""
        folder = f"{level}-{steps}"
        done = self.expect(code, "run", "t.toml", *WORDS, f"run.steps={steps}", f"run.log_level={level}", "--run-dir", folder, *words)
        logs = [(self.folder / folder / f"log/rank-{rank}.log").read_text() for rank in (0, 1)]
        for line in "".join(logs).splitlines():
            self.assertRegex(line, LINE if not line.startswith(" ") else r"^  ")
        return logs, done.out + done.err

    def words_for_levels(self, log):
        return set(re.findall(r"^\S+Z (\w+)", log, re.M))

    def test_debug(self):
        logs, shown = self.logs("debug")
        for log in logs:
            for pattern in DEBUG:
                self.assertEqual(len(re.findall(pattern, log)), 1, f"{pattern}\n{log}")
        self.assertIn(WARNED, logs[0])
        self.assertIn(EVALUATED, logs[0])
        self.assertIn("[control] rank 0 waits for all 2 ranks at ", logs[0])
        self.assertNotRegex(shown, r"\[plan\]|\[control\]")  # the terminal has -v
        # More steps, no more lines.
        more, _ = self.logs("debug", steps=40)
        self.assertEqual([log.count("\n") for log in more], [log.count("\n") for log in logs])

    def test_info_is_the_default(self):
        logs, _ = self.logs("info")
        self.assertEqual([self.words_for_levels(log) for log in logs], [{"info", "warn"}, {"info"}])
        self.assertIn(EVALUATED, logs[0])
        self.assertIn(WARNED, logs[0])
        self.expect(0, "run", "t.toml", *WORDS, "run.steps=4", "--run-dir", "plain")
        plain = (self.folder / "plain/log/rank-0.log").read_text()
        self.assertEqual(self.words_for_levels(plain), {"info", "warn"})
        self.assertEqual(plain.count("\n"), logs[0].count("\n"))

    def test_warning(self):
        logs, shown = self.logs("warning", "-v")
        self.assertEqual([self.words_for_levels(log) for log in logs], [{"warn"}, set()])
        self.assertIn(WARNED, logs[0])
        self.assertRegex(shown, r"\[plan\] program update: ")  # -v is the terminal's
        self.assertIn(EVALUATED, shown)

    def test_error(self):
        self.assertEqual(self.logs("error")[0], ["", ""])
        # Why the run ended is there, and nothing else.
        log = self.logs("error", "optimizer.learning_rate=1e30", "guard.nonfinite_limit=1", steps=40, code=5)[0][0]
        self.assertEqual(self.words_for_levels(log), {"error"}, log)
        self.assertIn("[run] failed: ", log)

    def test_a_run_that_continues(self):
        """Its file continues the lines that are there."""
        words = ("run", "t.toml", *WORDS, "--run-dir", "r", "-q")
        self.expect(0, *words, "run.steps=4")
        first = (self.folder / "r/log/rank-1.log").read_text()
        self.expect(0, *words, "--resume", "must", "run.steps=8", "run.log_level=debug")
        both = (self.folder / "r/log/rank-1.log").read_text()
        self.assertTrue(both.startswith(first))
        self.assertRegex(both, r"debug \[checkpoint\] rank 1 read \d+ tensors, .*B, of \S+/ckpt/step-0000000004 in [\d.e+-]+ m?s\n")

    def test_a_wrong_level(self):
        self.fails(2, ["check", "t.toml", "run.log_level=infos"], "run.log_level", '"infos"', "did you mean 'info'?")
        self.write("u.toml", (self.folder / "t.toml").read_text().replace("[run]\n", '[run]\nlog_level = "verbose"\n'))
        self.fails(2, ["run", "u.toml"], "u.toml:2:", '"debug" | "info" | "warning" | "error"')


if __name__ == "__main__":
    unittest.main()
