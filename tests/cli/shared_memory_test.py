"""A machine with too little memory for shm, where topology.backend = "auto" takes the next backend on all ranks; and containers, whose
/dev/shm is small or read-only, or whose processes are in PID namespaces of their own: there shm works."""

import json
import os
import pathlib
import re
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

    def run_with(self, *words, kib=None, shm="size=64k"):
        """plait run where /dev/shm is a file system of its own with those options, and so much memory is available."""
        script = f"mount -t tmpfs -o {shm} none /dev/shm"
        if kib is not None:
            self.write("meminfo", re.sub(r"(?m)^MemAvailable:.*$", f"MemAvailable: {kib} kB", pathlib.Path("/proc/meminfo").read_text()))
            script += " && mount --bind meminfo /proc/meminfo"
        done = subprocess.run([*INSIDE, "--", "sh", "-c", script + " && shift && exec \"$@\"", "sh", "-", PLAIT, "run", "t.toml", *WIDE, *words],
                              cwd=self.folder, env=environment(XDG_RUNTIME_DIR=str(self.folder / "own")), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=TIME)
        return Outcome(done)

    def test_a_small_or_read_only_dev_shm_is_no_limit(self):
        for shm in ("size=64k", "ro"):
            done = self.run_with("topology.backend=auto", shm=shm)
            self.assertEqual(done.code, 0, done.err)
            self.assertIn("done after step 2", done.out)
            self.assertNotIn("pass over", done.err)
            self.assertEqual(self.run_with("topology.backend=shm", shm=shm).code, 0)

    def test_auto_takes_the_next_backend_with_one_warning(self):
        for kib, found in ((8192, "8.0 MiB"), (64, "0.1 MiB")):
            done = self.run_with(kib=kib)
            self.assertEqual(done.code, 0, done.err)
            self.assertIn("done after step 2", done.out)
            self.assertEqual(done.err.count("all ranks pass over backend 'shm'"), 1, done.err)
            self.assertRegex(done.err, rf"rank 0 on \S+: .*need \d+\.\d MiB of shared memory, found {found} available on this machine; free some, ")

    def test_a_backend_asked_for_by_name_fails_with_the_reason(self):
        done = self.run_with("topology.backend=shm", kib=8192)
        self.assertEqual(done.code, 3, done.err)
        self.assertRegex(done.err, r"\[shm\] 2 ranks of this machine need \d+\.\d MiB of shared memory, found 8\.0 MiB available on this machine")
        self.assertIn("choose another topology.backend", done.err)

    def test_the_plan_tells_what_the_backend_will_ask_for(self):
        plan, = self.expect(0, "plan", "t.toml", *WIDE, "--json").records
        use, = plan["shared_memory"]
        self.assertEqual((use["backend"], use["ranks"]), ("shm", 2))
        self.assertGreater(use["available"], 0)
        needed = re.search(r"2 ranks of this machine need (\d+\.\d) MiB", self.run_with("topology.backend=shm", kib=8192).err)[1]
        self.assertEqual(f"{use['bytes'] / 2**20:.1f}", needed)
        for words in (["plan", "t.toml", *WIDE], ["plan", "t.toml", *WIDE, "-v"]):
            self.assertIn(f"shared memory of {needed} MiB with all 2 ranks on one machine (shm)", " ".join(self.expect(0, *words).out.split()))
        self.assertIn(f"shared memory of {needed} MiB", self.expect(0, "run", "t.toml", *WIDE, "-v").out)
        stages, = self.expect(0, "plan", "t.toml", *WIDE, "topology.pipeline=2", "--json").records
        self.assertEqual([one["ranks"] for one in stages["shared_memory"]], [4])
        for other in ("topology.backend=gloo", "topology.data=1"):  # no memory is shared
            self.assertEqual(self.expect(0, "plan", "t.toml", *WIDE, other, "--json").records[0]["shared_memory"], [])

    def test_room_for_each_call_but_not_for_all_that_are_under_way(self):
        # Four ranks; the buckets of a stage are reduced at the same time.
        done = self.run_with("topology.pipeline=2", "topology.bucket_mib=1", kib=32768)
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(done.err.count("all ranks pass over backend 'shm'"), 1, done.err)

    def test_no_other_backend_is_left(self):
        names = ["device-reference", "layer-dense", "layer-activation", "layer-dropout", "layer-loss", "layer-metric", "optimizer-adamw",
                 "schedule-constant", "data-synthetic", "comm-shm"]
        done = self.run_with(f"plugins.allow={json.dumps(names)}", kib=64)
        self.assertEqual(done.code, 3, done.err)
        self.assertRegex(done.err, r"rank 0 on \S+: .*of shared memory, found .*; no other backend connects all ranks: ")


if __name__ == "__main__":
    unittest.main()
