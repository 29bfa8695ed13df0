"""The memory that is planned for a rank is what its process takes, on every rank of several grids.

The same model in two widths: by what one plan says more than the other, one process must be larger than the other. What a process holds
anyway, its code and what its plugins bring, is in both. Ranks exchange through shared memory: what gloo buffers is its own affair.
Replicas without ZeRO have their gradients there: they are mapped by all and counted once, with the rank they are of.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from job import PLAIT, Job, Layout, read, wait_for

SMALL, LARGE = 1000, 200000  # features
REPLICAS = "data=2"
STEPS = 5
MIB = 2**20
WORDS = ["run.steps=1000000", "run.threads=1", "checkpoint.at_end=false"]


class Memory(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="plait-memory-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def planned(self, layout, rank):
        done = subprocess.run([PLAIT, "plan", "t.toml", *layout.words, *WORDS, "--rank", str(rank), "--json"], cwd=self.folder,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)["memory"]["total"]

    def taken(self, pid, kinds):
        rollup = read(f"/proc/{pid}/smaps_rollup")
        return 1024 * sum(int(re.search(rf"{kind}:\s+(\d+) kB", rollup)[1]) for kind in kinds)

    def of_ranks(self, layout):
        """Bytes planned, and bytes of the process that no file stands behind, of each rank after a few steps."""
        layout.write(self.folder)
        job = Job(self.folder, layout, True, WORDS)
        try:
            self.assertTrue(job.find_ranks(), job.errors())
            self.assertTrue(wait_for(lambda: job.step_now() >= STEPS), job.errors())
            taken = [self.taken(rank.pid, ["Pss_Anon", "Pss_Shmem"] if layout.grid == REPLICAS else ["Pss_Anon"]) for rank in job.ranks]
        finally:
            job.close()
        return [self.planned(layout, rank) for rank in range(layout.ranks)], taken

    def test_every_rank_takes_what_is_planned(self):
        for grid in (REPLICAS, "data=2 zero=1", "data=4 zero=3", "tensor=2", "pipeline=2", "pipeline=2 data=2 zero=2 schedule=zero_bubble"):
            sizes = [self.of_ranks(Layout(grid, width, "shm")) for width in (SMALL, LARGE)]
            for rank, (less, small, more, large) in enumerate(zip(*sizes[0], *sizes[1])):
                planned, taken = more - less, large - small
                text = f"{grid}, rank {rank}: {planned / MIB:.1f} MiB planned, {taken / MIB:.1f} taken"
                print(text)
                # What the heap keeps of freed memory is not planned.
                self.assertLess(taken, planned + 2 * MIB, text)
                # Less: room that a program leaves between its values, and slots, are only taken when they are written.
                self.assertGreater(taken, 0.9 * planned, text)


if __name__ == "__main__":
    unittest.main()
