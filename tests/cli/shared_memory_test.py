"""A machine whose /dev/shm is too small or read-only, as in a container: topology.backend = "auto" takes the next backend on all ranks."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from ranks import environment
from support import PLAIT, TIME, Case, Outcome, TINY

# 2 ranks with 6 MiB of gradients each.
WIDE = ["model.layers[0].out=131072", "topology.data=2", "run.steps=2", "batch.global=8"]
INSIDE = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--user", "--map-root-user"])


def unavailable():
    if not shutil.which("unshare"):
        return "needs unshare"
    done = subprocess.run([*INSIDE, "--", "mount", "-t", "tmpfs", "none", "/dev/shm"], capture_output=True, text=True)
    return done.stderr.strip() if done.returncode else ""


class SharedMemory(Case):
    def setUp(self):
        super().setUp()
        if why := unavailable():
            self.skipTest(f"this system allows no mount namespace: {why}")
        self.write("t.toml", TINY)
        (self.folder / "own").mkdir(mode=0o700)

    def run_with(self, mount, *words):
        """plait run where /dev/shm is a file system of its own, with those options."""
        script = f"mount -t tmpfs -o {mount} none /dev/shm && shift && exec \"$@\""
        done = subprocess.run([*INSIDE, "--", "sh", "-c", script, "sh", "-", PLAIT, "run", "t.toml", *WIDE, *words], cwd=self.folder,
                              env=environment(XDG_RUNTIME_DIR=str(self.folder / "own")), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=TIME)
        return Outcome(done)

    def test_auto_takes_the_next_backend_with_one_warning(self):
        for mount, reason in (("size=8m", "free in /dev/shm"), ("size=64k", "free in /dev/shm"),
                              ("ro", "no file can be made in shared memory (/dev/shm): Read-only file system")):
            done = self.run_with(mount)
            self.assertEqual(done.code, 0, done.err)
            self.assertIn("done after step 2", done.out)
            self.assertEqual(done.err.count("all ranks pass over backend 'shm'"), 1, done.err)
            self.assertEqual(done.err.count(reason), 1, done.err)
            self.assertRegex(done.err, r"rank 0 on \S+: ")
            self.assertRegex(done.err, r"\d+\.\d MiB .*needed|need \d+\.\d MiB of shared memory, found \d+\.\d MiB free")
            self.assertIn("--shm-size=64m", done.err)

    def test_a_backend_asked_for_by_name_fails_with_the_reason(self):
        done = self.run_with("size=8m", "topology.backend=shm")
        self.assertEqual(done.code, 3, done.err)
        self.assertRegex(done.err, r"\[shm\] 2 ranks of this machine need \d+\.\d MiB of shared memory, found 8\.0 MiB free in /dev/shm")
        self.assertIn("--shm-size=64m", done.err)

    def test_room_for_each_call_but_not_for_all_that_are_under_way(self):
        # Four ranks; the buckets of a stage are reduced at the same time.
        done = self.run_with("size=32m", "topology.pipeline=2", "topology.bucket_mib=1")
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(done.err.count("all ranks pass over backend 'shm'"), 1, done.err)

    def test_no_other_backend_is_left(self):
        names = ["device-reference", "layer-dense", "layer-activation", "layer-dropout", "layer-loss", "layer-metric", "optimizer-adamw",
                 "schedule-constant", "data-synthetic", "comm-shm"]
        done = self.run_with("size=64k", f"plugins.allow={json.dumps(names)}")
        self.assertEqual(done.code, 3, done.err)
        self.assertRegex(done.err, r"rank 0 on \S+: .*of shared memory, found .*; no other backend connects all ranks: ")

    def test_enough_is_used(self):
        done = self.run_with("size=64m")
        self.assertEqual(done.code, 0, done.err)
        self.assertNotIn("pass over", done.err)


if __name__ == "__main__":
    unittest.main()
