"""Processes that run a round whenever they are asked, taken in turn; rows of the result."""

import json
import os
import pathlib
import statistics
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


class Failed(Exception):
    pass


class Contestant:
    """A program that prints {"ready": true} and then answers each line with one JSON line: a round."""

    def __init__(self, name, command, environment=None):
        self.name = name
        self.rounds = []
        self.process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | (environment or {}),
        )
        self.about = self._answer()

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"[bench] {self.name} ended with code {self.process.wait()}; its message is above")
        return json.loads(line)

    def round(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.rounds.append(self._answer())

    def median(self, key):
        return statistics.median(r[key] for r in self.rounds)

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class Bench:
    """Where everything is, how long to measure, and what came out."""

    def __init__(self, build, data, peer_python, quick, tree=ROOT):
        self.build, self.data, self.peer_python, self.quick = build, data, peer_python, quick
        self.experiments = tree / "tests" / "bench" / "experiments"
        self.other = None  # the same of another checkout, to compare with
        self.rounds = 3 if quick else 5
        self.seconds = 1.0 if quick else 2.0
        self.rows, self.notes, self.details = [], [], {}

    def program(self, name):
        return self.build / "bench" / f"bench_{name}"

    def experiment(self, name):
        return self.experiments / f"{name}.toml"

    def peer(self, script, *arguments):
        return [self.peer_python, HERE / "peers" / script, *arguments]

    def once(self, command, environment=None):
        """The JSON lines that a command prints."""
        done = subprocess.run(
            [str(part) for part in command],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | (environment or {}),
        )
        if done.returncode:
            raise Failed(f"[bench] {pathlib.Path(command[0]).name} ended with code {done.returncode}; its message is above")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def alternate(self, contestants, label, swap=False, rounds=None):
        """Rounds A B C A B C …; what each said is kept under `label`. swap: every other round in reverse order."""
        for i in range(rounds or self.rounds):
            for c in reversed(contestants) if swap and i % 2 else contestants:
                c.round()
                time.sleep(0.1)  # spinning workers of the one before go to sleep
        self.details[label] = {c.name: {"about": c.about, "rounds": c.rounds} for c in contestants}
        for c in contestants:
            c.close()

    def row(self, figure, value, unit, peer="", peer_value=None, ratio=None, bar="", met=None, ratios=()):
        """ratios: of each round; their range is printed."""
        self.rows.append(
            dict(
                figure=figure, value=value, unit=unit, peer=peer, peer_value=peer_value, ratio=ratio, bar=bar, met=met,
                rounds=f"{min(ratios):.3f}-{max(ratios):.3f}" if ratios else "",
            )
        )

    def against(self, figure, value, unit, peer, peer_value, least=None):
        """A row where more is better: the ratio to the peer, and the least it should be."""
        ratio = value / peer_value
        bar = f">= {least:g}" if least else ""
        self.row(figure, value, unit, peer, peer_value, ratio, bar, None if least is None else ratio >= least)

    def at_most(self, figure, value, unit, most, peer="", peer_value=None):
        self.row(figure, value, unit, peer, peer_value, None, f"<= {most:g}", value <= most)
