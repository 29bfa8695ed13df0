"""A long run that is saved often, and killed now and then: its processes keep their size, and its files say every step once.

With PLAIT_TEST_ALL=1 the run has 20,000 steps and not 1,500."""

import json
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from chaos import check_metrics
from job import Job, Layout, children_of, state_of, wait_for

ALL = os.environ.get("PLAIT_TEST_ALL") == "1"
STEPS = 20_000 if ALL else 1500
SAVE_EVERY, KILL_EVERY = 50, 500  # steps
KILLS = 10 if ALL else 1  # of a job that restarts itself: the last waits are a minute each
WARM_UP = 0.25  # the part of a run in which buffers still grow to their size
SLOPE = 1024  # bytes of memory for each step
TIME = 900  # seconds
PAGE = os.sysconf("SC_PAGE_SIZE")
LAYOUT = Layout("data=2", 16, "auto")
WORDS = [f"run.steps={STEPS}", f"checkpoint.every={SAVE_EVERY}", "checkpoint.keep=2"]


def resident(pid):
    """Bytes; 0 for a process that is gone."""
    try:
        return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def descriptors(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def slope(points):
    """Of the line with the least squares through (step, value)."""
    n, x, y = len(points), sum(s for s, _ in points), sum(v for _, v in points)
    xx, xy = sum(s * s for s, _ in points), sum(s * v for s, v in points)
    return (n * xy - x * y) / (n * xx - x * x)


class Endurance(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="plait-endurance-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def job(self, name, *words):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        LAYOUT.write(folder)
        job = Job(folder, LAYOUT, True, [*WORDS, *words])
        self.addCleanup(job.close)
        return job

    def observe(self, job):
        """For each rank (step, bytes, descriptors), from time to time, until the job ends."""
        self.assertTrue(job.find_ranks(), job.errors())
        seen = [[] for _ in job.ranks]
        while any(state_of(rank.pid) not in ("", "Z") for rank in job.ranks):
            step = job.step_now()
            for points, rank in zip(seen, job.ranks):
                memory, fds = resident(rank.pid), descriptors(rank.pid)
                if 0 < step < STEPS and memory and fds:  # at its end a run closes what it has
                    points.append((step, memory, fds))
            time.sleep(0.01)
        self.assertTrue(job.wait(TIME) and job.codes() == [0], (job.codes(), job.errors()))
        return [[point for point in points if point[0] > WARM_UP * STEPS] for points in seen]

    def test_a_process_keeps_its_size(self):
        for rank, points in enumerate(self.observe(self.job("whole"))):
            middle = len(points) // 2
            self.assertGreater(middle, 5, f"rank {rank} was seen only {len(points)} times")
            grows = slope([(step, memory) for step, memory, _ in points])
            self.assertLess(grows, SLOPE, f"rank {rank}: bytes for each step")
            # A save opens files for a moment: what stays is the least of many looks.
            first, second = (min(fds for *_, fds in half) for half in (points[:middle], points[middle:]))
            self.assertEqual(first, second, f"rank {rank}: open descriptors, early and late")
            most = [max(fds for *_, fds in half) for half in (points[:middle], points[middle:])]
            print(f"rank {rank}: {len(points)} looks, {grows:.0f} bytes for each step, {second} descriptors, at most {max(most)}")

    def test_a_run_that_is_killed_says_every_step_once(self):
        whole = self.job("whole", "checkpoint.every=0", "checkpoint.at_end=false")
        self.assertTrue(whole.wait(TIME) and whole.codes() == [0], whole.errors())
        expected = whole.steps()
        rng = random.Random(STEPS)
        steps, kills, reached = {}, 0, 0
        while reached < STEPS:
            job = self.job("killed", "--resume", "auto")
            self.assertTrue(job.find_ranks(), job.errors())
            last = reached + rng.randint(KILL_EVERY // 2, KILL_EVERY * 3 // 2)
            over = lambda: any(state_of(rank.pid) in ("", "Z") for rank in job.ranks)
            wait_for(lambda: job.step_now() >= last or over(), TIME)
            if not over():
                rng.choice(job.ranks).kill(signal.SIGKILL)
                kills += 1
            self.assertTrue(job.wait(TIME), job.errors())
            self.assertIn(job.codes(), ([0], [128 + signal.SIGKILL]), job.errors())
            steps.update(job.steps())
            before, reached = reached, job.step_now()
            self.assertGreater(reached, before, job.errors())
        self.assertGreaterEqual(kills, STEPS // (KILL_EVERY * 3))
        check_metrics(job.run_dir / "metrics.ndjson", STEPS)
        self.assertEqual([step for step in expected if steps.get(step) != expected[step]], [])
        print(f"{kills} kills in {STEPS} steps")

    def test_a_job_that_restarts_itself_ends_as_one_that_was_left_alone(self):
        whole = self.job("whole")
        self.assertTrue(whole.wait(TIME) and whole.codes() == [0], whole.errors())
        rng = random.Random(KILLS)
        job = self.job("restarts", "--max-restarts", str(2 * KILLS))
        over = lambda: state_of(job.launcher.pid) in ("", "Z")
        gone, killed_at = set(), 0
        for _ in range(KILLS):
            # New ranks, at work again: they begin behind the newest checkpoint.
            there = lambda: set(children_of(job.launcher.pid)) if not gone & set(children_of(job.launcher.pid)) else set()
            self.assertTrue(wait_for(lambda: len(there()) == LAYOUT.ranks or over(), TIME), job.errors())
            ranks = sorted(there())
            last = killed_at + rng.randint(1, STEPS // (KILLS + 1))
            wait_for(lambda: over() or job.step_now() >= last and resident(ranks[0]), TIME)
            self.assertFalse(over(), job.errors())
            killed_at = job.step_now()
            os.kill(rng.choice(ranks), signal.SIGKILL)
            gone |= set(ranks)
        self.assertTrue(job.wait(TIME) and job.codes() == [0], (job.codes(), job.errors()))
        restarts = (job.run_dir / "restarts.ndjson").read_text().splitlines()
        self.assertEqual([json.loads(line)["restart"] for line in restarts], list(range(1, KILLS + 1)))
        self.assertEqual(self.weights(job), self.weights(whole))
        check_metrics(job.run_dir / "metrics.ndjson", STEPS)
        # The metrics have all that was computed: what a restart computed anew is there before its event.
        lines = [json.loads(line) for line in (job.run_dir / "metrics.ndjson").read_text().splitlines() if line.endswith("}")]
        steps = sum("event" not in line for line in lines)
        print(f"{KILLS} kills: {STEPS / steps:.1%} of the {steps} steps were new")

    def weights(self, job):
        return [path.read_bytes() for path in sorted((job.run_dir / f"ckpt/step-{STEPS:010}").glob("*.safetensors"))]


if __name__ == "__main__":
    unittest.main()
