"""plait submit: the script that it writes, and what it does with it, with a stand-in for sbatch.
tests/slurm has the real one."""

import os
import re
import subprocess
import time
import unittest

from support import PLAIT, TIME, TINY, Case

# It takes the last word for the script, as sbatch does, and says what the test wants.
SBATCH = """\
#!/bin/sh
for word; do last=$word; done
cp "$last" "$TAKEN/taken" && echo "$@" > "$TAKEN/words"
[ -z "$WARNS" ] || echo "$WARNS" >&2
[ -z "$REFUSES" ] || { echo "sbatch: error: $REFUSES" >&2; exit 1; }
echo "${SAYS:-7}"
"""
# srun and scontrol for the script itself.
SRUN = """\
#!/bin/bash
printf '%s\\n' "$@" > "$TAKEN/srun"
env > "$TAKEN/environment"
trap 'echo saving; exit 4' USR1
echo $$ > "$TAKEN/pid"
touch "$TAKEN/runs"
while [ -n "$LONG" ]; do sleep 0.02; done
exit ${ENDS:-0}
"""
SCONTROL = '#!/bin/sh\necho "$@" > "$TAKEN/scontrol"; exit ${FAILS:-0}\n'


class Submit(Case):
    def setUp(self):
        super().setUp()
        self.write("t.toml", TINY)
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        for name, text in (("sbatch", SBATCH), ("srun", SRUN), ("scontrol", SCONTROL)):
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)

    def environment(self):
        return {**super().environment(), "PATH": f"{self.bin}:/usr/bin:/bin", "TAKEN": str(self.folder)}

    def script(self, *words, env=None):
        return self.expect(0, "submit", "t.toml", *words, "--run-dir", "r", "--print", env=env).out

    def options(self, *words):
        """{option: value} of the lines for sbatch."""
        lines = re.findall(r"^#SBATCH (.*)$", self.script(*words), re.M)
        return {name.lstrip("-"): value for name, _, value in (line.partition("=") for line in lines)}


class Script(Submit):
    def test_of_one_rank(self):
        self.assertEqual(self.options(), {
            "job-name": "tiny", "chdir": str(self.folder), "output": f"{self.folder}/r.%j.out",
            "open-mode": "append", "nodes": "1", "ntasks": "1", "ntasks-per-node": "1",
            "signal": "B:USR1@120", "requeue": ""})
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["bin", "t.toml"])  # nothing is written

    def test_ranks_and_nodes(self):
        def layout(*words):
            found = self.options(*words)
            return tuple(found.get(name) for name in ("nodes", "ntasks", "ntasks-per-node", "gpus-per-node"))
        eight = "topology.data=8"
        self.assertEqual(layout(eight), ("1", "8", "8", None))
        self.assertEqual(layout(eight, "--nodes", 2), ("2", "8", "4", None))
        self.assertEqual(layout(eight, "--ranks-per-node", 3), ("3", "8", "3", None))
        self.assertEqual(layout(eight, "--nodes", 3), ("3", "8", None, None))
        if self.plait("plan", "t.toml", "run.device=cuda").code == 0:  # that plugin was built; it needs no GPU here
            self.assertEqual(layout(eight, "--nodes", 2, "run.device=cuda"), ("2", "8", "4", "4"))
            self.assertEqual(layout(eight, "--nodes", 3, "run.device=cuda"), ("3", "8", "3", "3"))
            self.assertEqual(layout(eight, "--nodes", 3, "--ranks-per-node", 4, "run.device=cuda"), ("3", "8", "4", "4"))
        self.assertEqual(layout(eight, "--gpus", "a100:8"), ("1", "8", "8", "a100:8"))
        self.assertEqual(layout("topology.data=0", "--ranks", 4), ("1", "4", "4", None))
        self.assertIn("--ranks 4", self.script("topology.data=0", "--ranks", 4))

    def test_options(self):
        found = self.options("--time", "1-12:00:00", "--partition", "long", "--account", "a b", "--cpus", 4,
                             "--save-before", 300, "--sbatch", "qos=high", "--sbatch", "--exclusive", "--sbatch", "comment=a #b")
        self.assertEqual({name: found[name] for name in ("time", "partition", "account", "cpus-per-task", "signal", "qos", "exclusive", "comment")},
                         {"time": "1-12:00:00", "partition": "long", "account": '"a b"', "cpus-per-task": "4",
                          "signal": "B:USR1@300", "qos": "high", "exclusive": "", "comment": '"a #b"'})
        self.assertIn("srun --kill-on-bad-exit=0 --cpus-per-task=4 ", self.script("--cpus", 4))
        text = self.script("--before", "module load cuda", "--before", "export A=1")
        self.assertIn("\nmodule load cuda\nexport A=1\n\nrun=r\n", text)

    def test_it_is_sound_shell_that_runs_what_was_asked_for(self):
        strange = self.folder / "a 'b%j"
        strange.mkdir()
        (strange / "t x.toml").write_text(TINY)
        self.plait("submit", f"{strange}/t x.toml", "run.name=it", "--set", "run.seed=3", "--data", strange, "--run-dir", strange / "r", env={"PLAIT__RUN__STEPS": "9"})
        text = (self.folder / "taken").read_text()
        self.assertIn("%%j", re.search("^#SBATCH --output=.*$", text, re.M)[0])
        done = subprocess.run(["bash", "-n", self.folder / "taken"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.job(), 0)
        words = (self.folder / "srun").read_text().splitlines()
        self.assertEqual(words[:4], ["--kill-on-bad-exit=0", os.path.realpath(PLAIT), "run", f"{strange}/t x.toml"])
        self.assertEqual(words[4:], ["run.steps=9", "run.seed=3", "run.name=it", "--data", str(strange),
                                     "--run-dir", str(strange / "r"), "--resume", "auto"])

    def job(self, wait=True, **env):
        """Runs the script as Slurm does; its exit code."""
        job = subprocess.Popen(["bash", self.folder / "taken"], cwd=self.folder, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env={**self.environment(), "SLURM_JOB_ID": "7", **env})
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        return job.wait(TIME) if wait else job

    def signalled(self, *names, srun="", **env):
        """The code, the output and what was asked of scontrol when srun gets a signal, and then the shell its own."""
        (self.folder / "runs").unlink(missing_ok=True)
        (self.folder / "scontrol").unlink(missing_ok=True)
        job = self.job(wait=False, LONG="1", **env)
        end = time.monotonic() + TIME
        while not (self.folder / "runs").exists():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        if srun:
            subprocess.run(["kill", f"-{srun}", (self.folder / "pid").read_text().strip()], check=True)
        for name in names:
            subprocess.run(["kill", f"-{name}", str(job.pid)], check=True)
        out, _ = job.communicate(timeout=TIME)
        asked = self.folder / "scontrol"
        return job.returncode, out, asked.read_text() if asked.exists() else ""

    def test_it_is_queued_again_when_the_time_is_up(self):
        self.expect(0, "submit", "t.toml", "--run-dir", "r")
        code, out, asked = self.signalled("USR1")
        self.assertEqual((code, asked), (4, "requeue 7\n"))
        self.assertIn("saving\nthe time is up: job 7 is queued again\n", out)
        self.assertIn("it is not; to go on: sbatch r.sbatch", self.signalled("USR1", FAILS="1")[1])
        (self.folder / "scontrol").unlink()
        for code in (0, 1, 4, 5, 137):  # of ranks that end by themselves
            self.assertEqual(self.job(ENDS=str(code)), code)
        self.assertFalse((self.folder / "scontrol").exists())

    def test_a_job_that_is_cancelled_is_not(self):
        self.expect(0, "submit", "t.toml", "--run-dir", "r")
        srun = self.bin / "srun"
        # As ranks do, which a second signal ends at once: scancel sends them TERM by itself.
        saves = "'touch $TAKEN/killed' USR1; sleep 4; exit 4"
        srun.write_text(srun.read_text().replace("'echo saving; exit 4' USR1", f"\"trap {saves}\" USR1 TERM"))
        # Also where the shell, on a busy machine, gets to TERM first.
        for names in (("USR1", "TERM"), ("TERM", "USR1")):
            code, _, asked = self.signalled(*names, srun="TERM" if names[0] == "TERM" else "")
            self.assertEqual((code, asked), (4, ""), names)
            self.assertFalse((self.folder / "killed").exists(), names)

    def test_several_nodes_meet_by_a_file(self):
        self.assertNotIn("RENDEZVOUS", self.script("topology.data=4"))
        self.expect(0, "submit", "t.toml", "topology.data=4", "--nodes", 2, "--run-dir", "new/r")
        self.assertEqual(self.job(SLURM_RESTART_COUNT="2"), 0)
        self.assertIn(f"PLAIT_RENDEZVOUS=file:{self.folder}/new/r.7-2.rendezvous\n", (self.folder / "environment").read_text())

    def test_a_run_for_each_value(self):
        text = self.script("optimizer.learning_rate=0.1,0.2", "run.seed=1,2", "--at-once", 2)
        self.assertIn("#SBATCH --array=0-3%2\n", text)
        self.assertIn(f"#SBATCH --output={self.folder}/r/%a.%A.out\n", text)
        done = self.expect(0, "submit", "t.toml", "run.steps=3", "optimizer.learning_rate=0.1,0.2", "run.seed=1,2", "--run-dir", "all")
        self.assertIn("job 7: 4 runs of 1 rank on 1 node\n", done.out)
        self.assertIn("plait runs all", done.out)
        self.assertEqual(self.job(SLURM_ARRAY_TASK_ID="2"), 0)
        words = (self.folder / "srun").read_text().splitlines()
        self.assertEqual(words[3:], ["t.toml", "run.steps=3", "optimizer.learning_rate=0.2", "run.seed=1", "--run-dir", "all/0002", "--resume", "auto"])
        self.fails(2, ["submit", "t.toml", "topology.data=1,2"], "need 1 and 2 ranks")
        self.fails(2, ["submit", "t.toml", "run.seed=1,x"], "expected integer")
        self.fails(2, ["submit", "t.toml", "--at-once", 2], "--at-once is for several runs")


class Job(Submit):
    def test_what_it_says(self):
        done = self.expect(0, "submit", "t.toml", "topology.data=4", "--nodes", 2, "--run-dir", "runs/x")
        self.assertEqual((self.folder / "words").read_text(), "--parsable runs/x.sbatch\n")
        self.assertEqual((self.folder / "taken").read_text(), (self.folder / "runs/x.sbatch").read_text())
        for text in ("job 7: 4 ranks on 2 nodes\n", "runs/x.sbatch\n", f"{self.folder}/runs/x.7.out\n", "squeue -j 7; plait status runs/x\n",
                     "scancel 7 ", "scancel --batch --signal=USR1 7\n"):
            self.assertIn(text, done.out)
        self.assertEqual(self.expect(0, "submit", "t.toml", "-q").out, "job 7: 1 rank on 1 node\n")
        record, = self.expect(0, "submit", "t.toml", "--json", env={"SAYS": "8;big"}).records
        self.assertEqual((record["event"], record["job"], record["cluster"], record["ranks"], record["runs"]), ("submitted", "8", "big", 1, 1))
        self.assertRegex(record["run_dir"], r"^runs/tiny/\d{8}-\d{6}-[0-9a-f]{6}$")
        self.assertTrue((self.folder / record["script"]).exists())
        self.assertEqual(record["stop"], "scancel -M big 8")
        warned = self.expect(0, "submit", "t.toml", env={"WARNS": "sbatch: warning: no time"})
        self.assertIn("no time", warned.err)

    def test_a_script_that_was_edited_is_not_replaced(self):
        words = ("submit", "t.toml", "--run-dir", "r")
        self.expect(0, *words)
        self.expect(0, *words)  # the same once more
        script = self.folder / "r.sbatch"
        script.write_text(script.read_text() + "# mine\n")
        self.fails(2, words, "'r.sbatch' exists and is another script", "sbatch r.sbatch")
        self.expect(0, *words, "--yes")
        self.assertNotIn("# mine", script.read_text())

    def test_failures(self):
        def fails(code, words, *texts, env=None):
            return self.fails(code, ["submit", *words], *texts, env=env)
        fails(3, ["t.toml"], "there is no sbatch on the PATH", "--print", env={"PATH": "/nowhere"})
        fails(1, ["t.toml", "--run-dir", "r"], "sbatch did not take the job (exit code 1)", "r.sbatch", "invalid partition", env={"REFUSES": "invalid partition"})
        away = "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)"
        fails(3, ["t.toml", "--run-dir", "r"], "sbatch does not reach Slurm; the script stays in r.sbatch: ", "Unable to contact", env={"REFUSES": away})
        fails(1, ["t.toml"], "sbatch did not take the job (exit code 0)", env={"SAYS": "what?"})
        fails(2, ["t.toml", "optimizer.learning_rat=1"], "did you mean")
        fails(2, ["t.toml", "topology.data=3"], "cannot be shared by 3 replicas")
        fails(2, ["t.toml", "run.steps=0"], "run.steps")
        fails(2, ["t.toml", "--nodes", 2], "--nodes is 2, but the experiment has 1 rank")
        fails(2, ["t.toml", "topology.data=8", "--nodes", 2, "--ranks-per-node", 3], "8 ranks, but 2 nodes of 3 have room for 6")
        fails(2, ["t.toml", "--ranks", 2], "but 2 were started")
        fails(2, ["t.toml", "--time", "1\n#SBATCH --x"], "line break")
        fails(2, ["t.toml", "--save-before", 0], "--save-before")
        for limit in ("1", "2:00", "0:00:30", "0-0:02"):
            fails(2, ["t.toml", "--time", limit], f"--time {limit} ends within the 120 s before it")
        for limit in ("soon", "1h", "-5", "1:2:3:4", "3-", "-3", "1e3", "--1", "100:-5", "1:+5", " 30", "5: 30", "5:", ":5", "1-2-3", "9999999999"):
            fails(2, ["t.toml", f"--time={limit}"], f"--time {limit} is no time limit; write minutes, hours:minutes:seconds or days-hours:minutes:seconds")
        for limit in ("0", "UNLIMITED", "Infinite", "-1", "3", "2:01", "0:02:01", "0-1", "0-0:03", "1-0:0:0"):
            self.assertIn(f"#SBATCH --time={limit}\n", self.expect(0, "submit", "t.toml", f"--time={limit}", "--print").out)
        fails(2, ["-"], "not from a pipe")
        fails(2, ["none.toml"], "no such file")
        self.assertEqual([path for path in self.folder.iterdir() if path.suffix == ".sbatch"], [self.folder / "r.sbatch"])


if __name__ == "__main__":
    unittest.main()
