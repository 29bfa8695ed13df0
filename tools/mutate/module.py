#!/usr/bin/env python3
"""Plants the mutants of a module and counts how many of them the test programs that are named find.

    module.py ROOT PREFIX PROGRAM... [--seed N] [--count N] [--jobs N] [--equivalent FILE] [--own-path]

PREFIX is the beginning of the paths of sources, such as engine/topology; a PROGRAM is one of build/dev/tests/bin, such as unit_topology. One
build has all the mutants, each behind a switch (switched.py), so that a hundred take a few minutes, where mutate.py asks all tests of each.
What is left is what no test of the module notices: larger tests may. Mutants that cannot be switched are left out.
Exit code: 0 if the programs ran, 130 when interrupted.
"""

import argparse
import concurrent.futures
import pathlib
import random
import re
import shutil
import sys
import time

import mutate
import operators
import switched
import workspace

NAMED = re.compile(r"(if \(planted_mutants::on\((\d+)\)\) \{\n#line \d+)\n")
FAULT = re.compile(r"^mutant(\d+):\d+", re.M)
PLACE = re.compile(r"^([^\s:]+):(\d+):\d+: error", re.M)
LEAST_SECONDS = 30.0  # for a program with a mutant


class Module:
    def __init__(self, a):
        self.a, self.space = a, workspace.Workspace(a.root.resolve(), a.own_path)
        self.space.prepare()
        objects = self.space.objects()
        names = [n for n in self.space.listed() if n.startswith(a.prefix) and n.endswith(".cpp") and n in objects]
        if not names:
            raise SystemExit(f"[mutate] no source that is built begins with '{a.prefix}'; name a folder such as engine/topology")
        equivalent = mutate.known_equivalents(a.equivalent.read_text())
        self.texts = {n: (self.space.root / n).read_text() for n in names}
        self.places = {n: switched.bodies(text) for n, text in self.texts.items()}
        drawn = [m for n in names for m in operators.mutations(n, self.texts[n]) if self.usable(m, equivalent)]
        random.Random(a.seed).shuffle(drawn)
        self.mutants = dict(enumerate(drawn[: a.count]))
        self.n_all = len(drawn)
        self.of_doctest = {}

    def usable(self, m, equivalent):
        return switched.body_of(self.places[m.file], m) is not None and not mutate.is_equivalent(m, self.texts[m.file], equivalent)

    def write(self, name):
        """The source with its mutants; faults of the compiler in one name it."""
        inside = {i: m for i, m in self.mutants.items() if m.file == name}
        text = self.texts[name]
        if inside:
            text = switched.planted(text, inside)
            text = NAMED.sub(lambda k: f'{k[1]} "mutant{k[2]}"\n', text)
            text = re.sub(r"((?:else)? \{\n#line \d+)\n", lambda k: f'{k[1]} "{name}"\n', text)
            text = workspace.PREFIX + text
        self.space.write(name, text)

    def build(self):
        """Leaves out mutants that do not compile. Returns how many these are."""
        programs, n = [f"tests/bin/{p}" for p in self.a.programs] + self.space.libraries(), len(self.mutants)
        for name in {m.file for m in self.mutants.values()}:
            self.write(name)
        while not self.space.ninja(["-k", "0", *programs], limit=None):
            wrong = {int(i) for i in FAULT.findall(self.space.output)} or self.at_faults()
            wrong &= set(self.mutants)
            if not wrong:
                raise SystemExit(f"[mutate] {' '.join(self.a.programs)} could not be built:\n{self.space.output[-3000:]}")
            files = {self.mutants.pop(i).file for i in wrong}
            for name in files:
                self.write(name)
        return n - len(self.mutants)

    def at_faults(self):
        """The mutants of functions at whose end a fault is told, as of one that returns nothing."""
        found = set()
        for name, line in PLACE.findall(self.space.output):
            text = self.texts.get(name, "")
            for begin, end in self.places.get(name, ()):
                if text.count("\n", 0, begin) < int(line) <= text.count("\n", 0, end) + 2:
                    found |= {i for i, m in self.mutants.items() if m.file == name and begin <= m.start and m.end <= end}
        return found

    def is_of_doctest(self, program):
        if program not in self.of_doctest:
            self.of_doctest[program] = b"--abort-after=" in (self.space.tree / "build/dev/tests/bin" / program).read_bytes()
        return self.of_doctest[program]

    def run(self, program, limit=None, **variables):
        """(exit code, None where it ran past the limit; output)"""
        words = ["env", "NO_COLOR=1", "PLAIT_VERIFY=1", *[f"{k}={v}" for k, v in variables.items()], self.space.build / "tests/bin" / program]
        if self.is_of_doctest(program):
            words.append("--abort-after=1")  # the first failure suffices
        return self.space.execute(words, limit)

    def reached(self, program):
        """The mutants that a program reaches without one, and the seconds that it takes."""
        folder = self.space.tree / "build/reached" / program
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        started = time.monotonic()
        code, output = self.run(program, **{switched.REACHED: f"{self.space.seen_at}/build/reached/{program}"})
        if code != 0:
            raise SystemExit(f"[mutate] {program} fails without a mutant:\n{output[-3000:]}")
        return {int(f.name) for f in folder.iterdir()} & set(self.mutants), time.monotonic() - started

    def hunt(self):
        """The numbers of the mutants that no program finds."""
        left = set(self.mutants)
        for program in self.a.programs:
            reached, seconds = self.reached(program)
            limit = max(LEAST_SECONDS, 8 * seconds)
            with concurrent.futures.ThreadPoolExecutor(self.a.jobs) as pool:
                tried = sorted(left & reached)
                codes = pool.map(lambda i: self.run(program, limit, **{switched.CHOSEN: i})[0], tried)
                found = {i for i, code in zip(tried, codes) if code != 0}
            left -= found
            print(f"[mutate] {program} ({seconds:.1f} s) reaches {len(reached)} and finds {len(found)}; {len(left)} are left", flush=True)
        return left

    def restore(self):
        for name, text in self.texts.items():
            self.space.write(name, text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("prefix", help="the beginning of the sources' paths")
    parser.add_argument("programs", nargs="+", help="test programs of the dev build")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200, help="a sample of so many mutants")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--equivalent", type=pathlib.Path, default=mutate.EQUIVALENT)
    parser.add_argument("--own-path", action="store_true", help="build the copy at its own path, as where mount namespaces are not allowed")
    module = Module(parser.parse_args())
    try:
        n_wrong = module.build()
        print(f"[mutate] {module.n_all} mutants, {len(module.mutants)} of them planted; {n_wrong} others did not compile", flush=True)
        left = module.hunt()
    except KeyboardInterrupt:
        print("\n[mutate] interrupted", file=sys.stderr)
        return 130
    finally:
        module.restore()
    for i in sorted(left, key=lambda i: (module.mutants[i].file, module.mutants[i].start)):
        m = module.mutants[i]
        line, before, after = operators.difference(module.texts[m.file], m)
        print(f"{m.file}:{line}: {m.operator}\n- {before}\n+ {after}\n")
    n = len(module.mutants)
    print(f"[mutate] {n - len(left)} of {n} found by {', '.join(module.a.programs)}" + (f" ({100 * (n - len(left)) / n:.1f} %)" if n else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
