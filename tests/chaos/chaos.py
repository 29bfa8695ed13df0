"""Real jobs of several ranks, and what goes wrong around them: a seeded driver.

Each round starts a job, lets something happen to it at a random moment, and checks how everybody ended, what they said, what is
left behind, and that the run goes on from its checkpoint to the same losses, bit by bit, as one that was never disturbed.

    PLAIT_BIN=build/dev/bin/plait python3 tests/chaos/chaos.py --rounds 100 [--seed N] [--seconds N] [--only kill,stop] [--comm gloo]
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import faults
from faults import ENDLESS, TIMEOUT, Wrong, check
from job import Job, Layout, shared_memory, wait_for

MORE = 20  # steps after a resume
GRIDS = ["data=2", "data=4", "data=2 tensor=2", "data=2 zero=3", "data=3 zero=2", "data=4 zero=3", "tensor=2", "data=2 tensor=2 zero=3",
         "pipeline=2", "pipeline=4 schedule=zero_bubble", "pipeline=2 data=2 zero=1", "pipeline=2 tensor=2 schedule=interleaved virtual_stages=2"]
# name: function, who starts the ranks (None: either), moments, how often
KINDS = {
    "kill": (faults.kill_rank, None, ["start", "step", "step", "save"], 4),
    "stop": (faults.stop_rank, None, ["step", "save"], 2),
    "launcher": (faults.kill_launcher, True, ["start", "step", "save"], 1),
    "term": (faults.ask_to_stop, None, ["start", "step", "save"], 1),
    "stranger": (faults.disturb, None, ["step"], 2),
}
MEDIAN, WORST = 0.2, 3  # seconds in which survivors of a killed rank end, on a machine that has nothing else to do


def check_metrics(path, last):
    """Every step has one line, once what a resume has taken back is left out."""
    steps = []
    for line in path.read_text().splitlines():
        if not line.endswith("}"):
            continue  # was being written when the job was killed
        record = json.loads(line)
        if record.get("event") == "resume":
            steps = [step for step in steps if step <= record["from_step"]]
        elif "event" not in record:
            steps.append(record["step"])
    missing = sorted(set(range(1, last + 1)) - set(steps))
    twice = sorted(step for step in set(steps) if steps.count(step) > 1)
    check(steps == list(range(1, last + 1)),
          f"{path.name} lacks steps {missing[:3]}, has {twice[:3]} twice, ends with {steps[-1:]}")


class Chaos:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.patience = arguments.patience  # seconds
        self.times, self.references = {}, {}

    def say(self, text):
        print("  " + text, flush=True)

    def note(self, what, times):
        self.times.setdefault(what, []).extend(times)
        self.say("ended after " + ", ".join(f"{t:.3f}" for t in sorted(times)) + " s")

    def job(self, name, layout, launched, words):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        layout.write(folder)
        return Job(folder, layout, launched, words)

    def undisturbed(self, layout, steps):
        """Losses and norms of at least that many steps of a run that nothing happens to."""
        known = self.references.get(str(layout), {})
        if len(known) < steps:
            job = self.job("whole", layout, True, [f"run.steps={2 * steps}", "checkpoint.at_end=false"])
            try:
                check(job.wait() and job.codes() == [0], f"an undisturbed run fails: {job.codes()} {job.errors()}")
                known = self.references[str(layout)] = job.steps()
            finally:
                job.close()
                shutil.rmtree(job.folder)
        return known

    def compare(self, layout, steps, what):
        whole = self.undisturbed(layout, max(steps, default=0))
        wrong = [step for step, figures in steps.items() if whole[step] != figures]
        check(not wrong, f"{what}: step {wrong[:1]} has {steps[wrong[0]] if wrong else ''}, "
                         f"undisturbed {whole[wrong[0]] if wrong else ''}")

    def go_on(self, job, name):
        """Resumes what is left of a job."""
        kept = [int(path.name[5:]) for path in (job.run_dir / "ckpt").glob("step-*")]
        newest = max(kept, default=0)
        again = self.job(name, job.layout, True, [f"run.steps={newest + MORE}", "--resume", "auto"])
        try:
            check(again.wait() and again.codes() == [0], f"does not go on: {again.codes()} {again.errors()}")
            steps = again.steps()
            check(sorted(steps) == list(range(newest + 1, newest + MORE + 1)),
                  f"went on with steps {sorted(steps)[:1]} to {sorted(steps)[-1:]} after a checkpoint of step {newest}: {again.errors()}")
            self.compare(job.layout, steps, "after the resume")
            check_metrics(again.run_dir / "metrics.ndjson", newest + MORE)
            left = [path.name for path in (again.run_dir / "ckpt").iterdir() if path.name.startswith(".")]
            check(not left, f"left among the checkpoints after a resume: {left}")
        finally:
            again.close()

    def round(self, number, seed):
        rng = random.Random(f"{seed} {number}")
        # The first rounds show one of each kind, for a run with few of them.
        kinds = self.arguments.only or list(KINDS)
        kind = kinds[number % len(kinds)]
        if not self.arguments.only and number >= len(kinds):
            kind = rng.choice([kind for kind, (*_, often) in KINDS.items() for _ in range(often)])
        act, launched, moments, _ = KINDS[kind]
        moment = rng.choice(moments)
        launched = rng.random() < 0.5 if launched is None else launched
        layout = Layout(rng.choice(GRIDS), rng.choice([16, 16, 512]), rng.choice(self.arguments.comm))
        words = [ENDLESS, f"checkpoint.every={rng.choice([1, 5]) if moment == 'save' else 20}"]
        if moment == "start":
            words.append("topology.connect_timeout=3")
        if kind == "stop":
            words.append(f"topology.timeout={TIMEOUT}")
        if kind == "stranger":
            words = ["run.steps=60"]
        print(f"round {number}: {kind}, {layout}, {'plait run' if launched else 'ranks of our own'}", flush=True)
        before = shared_memory()
        name = f"round-{number}"
        job = self.job(name, layout, launched, words)
        try:
            act(self, rng, job, moment)
            check(wait_for(lambda: not shared_memory() - before, 5, 0.1), f"left in /dev/shm: {shared_memory() - before}")
            self.compare(layout, job.steps(), "before the fault")
            self.go_on(job, name) if kind != "stranger" else None
        finally:
            self.texts(job)
            job.close()
        shutil.rmtree(job.folder)

    def texts(self, job):
        if self.arguments.texts:
            for who, text in job.errors().items():
                print("\n".join(f"    {who}| {line}" for line in text.splitlines()), flush=True)

    def show_times(self):
        """Whether the times after a kill are within the promised limits."""
        kept = True
        for what, times in sorted(self.times.items()):
            times.sort()
            at = lambda part: times[min(len(times) - 1, int(part * len(times)))]
            print(f"{what}: {len(times)} survivors ended after: median {at(0.5):.3f} s, 90 % {at(0.9):.3f} s, worst {times[-1]:.3f} s")
            if what == "kill":
                kept = at(0.5) <= MEDIAN and times[-1] <= WORST
        return kept


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="the same seed makes the same choices")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="number of the first round")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no round begins later")
    parser.add_argument("--patience", type=float, default=10, help="seconds that survivors may take; the figures are printed anyway")
    parser.add_argument("--promise", action="store_true", help=f"fail where survivors of kills took more than {MEDIAN} s in the median, {WORST} at worst")
    parser.add_argument("--only", type=lambda text: text.split(","), help="kinds of faults: " + ",".join(KINDS))
    parser.add_argument("--comm", type=lambda text: text.split(","), default=["gloo", "auto"], help="backends")
    parser.add_argument("--go-on", action="store_true", help="go on after a round that failed")
    parser.add_argument("--texts", action="store_true", help="show what the jobs print")
    return parser.parse_args()


def main():
    chosen = arguments()
    began = time.monotonic()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="plait-chaos-"))
    chaos = Chaos(chosen, folder)
    print(f"seed {chosen.seed}; {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
    failed = []
    try:
        for number in range(chosen.first, chosen.first + chosen.rounds):
            if time.monotonic() - began > chosen.seconds:
                break
            try:
                chaos.round(number, chosen.seed)
            except Wrong as wrong:
                failed.append(number)
                print(f"FAILED in round {number} of seed {chosen.seed}: {wrong}\n"
                      f"to see it again: {sys.argv[0]} --seed {chosen.seed} --first {number} --rounds 1 --texts", flush=True)
                if not chosen.go_on:
                    break
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    kept = chaos.show_times()
    print(f"seed {chosen.seed}: {len(failed)} rounds failed {failed or ''}")
    if chosen.promise and not kept:
        print(f"FAILED: survivors of kills took too long; at most {MEDIAN} s in the median and {WORST} s at worst are promised")
        return 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
