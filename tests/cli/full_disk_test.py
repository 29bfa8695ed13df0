"""Checkpoints on a file system that is full: the reason, what is needed, nothing half left."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from ranks import environment
from support import PLAIT, TIME, Case, Outcome, TINY

INSIDE = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--user", "--map-root-user"])
# Checkpoints of 2.3 MiB: 17,000 * 12 weights, with two states of AdamW each.
WIDE = ["model.layers[0].out=17000", "batch.global=4", "run.steps=6", "run.progress=false",
        "checkpoint.every=2", "checkpoint.keep=9", "run.log_every=1"]


def unavailable():
    if not shutil.which("unshare"):
        return "needs unshare"
    words = [*INSIDE, "--", "mount", "-t", "tmpfs", "none", "/mnt"]
    done = subprocess.run(words, capture_output=True, text=True)
    return done.stderr.strip() if done.returncode else ""


class FullDisk(Case):
    def setUp(self):
        super().setUp()
        if why := unavailable():
            self.skipTest(f"this system allows no mount namespace: {why}")
        self.write("t.toml", TINY)
        (self.folder / "disk").mkdir()

    def run_on(self, mib, *words, after):
        """plait run with its files on a disk of `mib` MiB; then a shell command, which is heard."""
        script = f"""mount -t tmpfs -o size={mib}m none disk || exit 99
            "$0" run t.toml --run-dir disk/run "$@" >out 2>err; code=$?
            {after}
            exit $code"""
        done = subprocess.run([*INSIDE, "--", "sh", "-c", script, PLAIT, *WIDE, *words],
                              cwd=self.folder, env=environment(), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=TIME)
        outcome = Outcome(done)
        outcome.err = (self.folder / "err").read_text() + done.stderr
        return outcome

    def start_ranks(self, mib, *words, err="err0", **more):
        """Two ranks as mpirun starts them, on such a disk. Each leaves out, err and code with its number."""
        script = f"""mount -t tmpfs -o size={mib}m none disk || exit 99
            export OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=$$
            rank() {{
              n=$1; shift
              OMPI_COMM_WORLD_RANK=$n OMPI_COMM_WORLD_LOCAL_RANK=$n \\
                "$plait" run t.toml --run-dir disk/run "$@" >out$n; echo $? >code$n
            }}
            plait=$0
            rank 1 "$@" 2>err1 & rank 0 "$@" 2>{err}; wait"""
        run = subprocess.Popen([*INSIDE, "--", "sh", "-c", script, PLAIT, *WIDE, "topology.data=2", *words],
                               cwd=self.folder, env=environment(XDG_RUNTIME_DIR=str(self.folder)),
                               stdin=subprocess.DEVNULL, **more)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        return run

    def left(self, name):
        path = self.folder / name
        return path.read_text() if path.exists() else ""

    def test_enough_room(self):
        done = self.run_on(64, after="ls disk/run/ckpt")
        self.assertEqual(done.code, 0, done.err)
        names = [name for name in done.out.split() if name.startswith("step-")]
        self.assertEqual(names, [f"step-{n:010d}" for n in (2, 4, 6)])

    def test_a_save_that_does_not_fit_leaves_the_ones_before_it_and_the_run_goes_on(self):
        # Room for two: the third is that of the end, which must not fail.
        look = ('ls -A disk/run/ckpt; "$0" checkpoint verify disk/run >&2; echo verified $?; '
                '"$0" status disk/run')
        done = self.run_on(6, after=look)
        self.assertEqual(done.code, 3, done.err)
        names = done.out.partition("verified")[0].split()
        self.assertIn("step-0000000002", names)
        self.assertNotIn("step-0000000006", names)
        self.assertFalse([name for name in names if "tmp" in name], names)
        self.assertIn("verified 0", done.out)
        self.assertIn("step 6 could not be saved to disk/run/ckpt/step-0000000006 (needs 2.33 MiB)",
                      done.err)
        self.assertRegex(done.err, r"cannot write .* to 'disk/run/ckpt/\.tmp-6-\w+/\w+\.safetensors'"
                                   ": No space left on device")
        # What the run came to is not lost, and each is told once.
        self.assertEqual(done.err.count("step 6 could not be saved"), 1)
        self.assertRegex(done.err, r"\n  free \d+\.\d [KM]iB or more on the file system of 'disk/run', "
                                   "then resume from step-0000000004: plait run t.toml 'model.layers")
        self.assertRegex(done.err, r" --run-dir disk/run --resume must\n")
        told = (self.folder / "out").read_text()
        for text in ("ended after step 6: training loss ", " samples/s, ", "\naccuracy ",
                     "lowest (step)", "\nfiles are in disk/run\n"):
            self.assertIn(text, told)
        self.assertIn("No space left on device", done.out)

    def test_more_than_the_disk_has_stops_nothing_but_the_save(self):
        # Not even the first fits; each is a warning, the last an error.
        done = self.run_on(2, after="ls -A disk/run/ckpt")
        self.assertEqual(done.code, 3, done.err)
        self.assertNotIn("step-", done.out)
        self.assertNotIn("tmp", done.out)
        for step in (2, 4, 6):
            self.assertIn(f"step {step} could not be saved to", done.err)
        self.assertRegex(done.err, r"'disk/run', then start again: plait run .* --resume auto\n$")

    def test_a_record_of_its_own_and_ranks(self):
        done = self.run_on(6, "--json", after='grep unsaved out')
        self.assertEqual(done.code, 3, done.err)
        unsaved = done.event("unsaved")
        self.assertEqual((unsaved["step"], unsaved["run_dir"]), (6, "disk/run"))
        self.assertIn("accuracy", unsaved["evaluation"]["metrics"])
        done = self.run_on(6, "topology.data=2", after=":")
        self.assertEqual(done.code, 3, done.err)
        self.assertEqual(done.err.count("step 6 could not be saved"), 1, done.err)
        # Rank 0 speaks for all, as one rank alone does.
        self.assertRegex(done.err, r"(?m)^error: \[session\] step 6 could not be saved "
                         r"\(needs 2\.33 MiB\); rank \d: \[files\] cannot write .*: No space left on device\n"
                         r"  free \d+\.\d [KM]iB or more on the file system of 'disk/run', "
                         "then resume from step-0000000004: plait run")
        self.assertIn("all 2 ranks failed, for the same reason", done.err)
        self.assertNotIn("[rank", done.err)
        self.assertIn("ended after step 6: ", (self.folder / "out").read_text())

    def test_of_ranks_that_mpirun_has_started_rank_0_tells_it(self):
        for words in ((), ("--json",)):
            self.assertEqual(self.start_ranks(6, *words).wait(TIME), 0)
            self.assertEqual((self.left("code0"), self.left("code1")), ("3\n", "3\n"), self.left("err1"))
            told = self.left("err0")
            self.assertEqual(told.count("step 6 could not be saved"), 1, told)
            self.assertRegex(told, r"(?m)^error: \[session\] step 6 could not be saved "
                                   r"\(needs 2\.33 MiB\); rank \d: \[files\] cannot write .*: No space left on device\n"
                                   r"  free \d+\.\d [KM]iB or more")
            self.assertEqual((self.left("out1"), self.left("err1")), ("", ""))
        self.assertEqual(json.loads(self.left("out0").splitlines()[-1])["event"], "error")

    def test_no_rank_ends_before_rank_0_has_told_it(self):
        """mpirun would end rank 0 then. What rank 0 says finds no room in a pipe until that is read."""
        pipe, full = os.pipe()
        os.set_blocking(full, False)
        with self.assertRaises(BlockingIOError):
            while True:
                os.write(full, b"x")
        os.set_blocking(full, True)
        run = self.start_ranks(6, "-q", err=f"/dev/fd/{full}", pass_fds=[full])
        os.close(full)
        limit = time.monotonic() + TIME
        while "\nended after step 6" not in "\n" + self.left("out0") and time.monotonic() < limit:
            time.sleep(0.05)
        time.sleep(1)
        self.assertEqual((self.left("code0"), self.left("code1")), ("", ""))
        with open(pipe, "rb") as heard:
            told = heard.read().lstrip(b"x").decode()
        self.assertEqual(run.wait(TIME), 0)
        self.assertEqual((self.left("code0"), self.left("code1"), self.left("err1")), ("3\n", "3\n", ""))
        self.assertEqual(told.count("step 6 could not be saved"), 1, told)


if __name__ == "__main__":
    unittest.main()
