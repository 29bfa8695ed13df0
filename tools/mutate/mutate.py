#!/usr/bin/env python3
"""Plants mutants in the sources and counts how many the tests find.

    mutate.py ROOT [--seed N] [--count N] [--jobs N] [--seconds N] [--seconds-again N] [--bar PERCENT] [--only PREFIX] [--equivalent FILE]
              [--own-path]

A seed draws the same mutants of the same sources: an operator (operators.py), then one of its places in engine/ and plugins/. They are
compiled in a copy of the tree (workspace.py), all in one build, each behind a switch (switched.py); each test runs once to learn which it
reaches. For each mutant the tests that reach it run, first the ones of its module (suite.py), until one fails or the time for a mutant is
over. A mutant that cannot be switched, such as a constant's, is built alone. Mutants that do not compile are replaced. In a second round, in
which it is known what tests find, the mutants that have tests left are given these, with more time. What is known is kept in build/mutate/,
so that the same command continues after an interruption; survivors are tried again when the tree has changed.
Mutants that change nothing a test could see stand with the reason in equivalent.txt. Exit code: 0 if at least 90 % are found, 1 if not,
130 when interrupted.
"""

import argparse
import collections
import itertools
import json
import pathlib
import random
import signal
import sys
import time

import operators
import planting
import suite
import switched
import workspace

FOUND = ("killed", "timed out")
EQUIVALENT = pathlib.Path(__file__).with_name("equivalent.txt")


def known_equivalents(text):
    """{(file, line before, line after)}; entries are separated by empty lines: the file, "- before", "+ after", "= reason"."""
    found = set()
    for number, entry in enumerate(text.split("\n\n")):
        lines = [line for line in entry.strip().split("\n") if line and not line.startswith("#")]
        if not lines:
            continue
        marks = [line[:2] for line in lines[1:]]
        if marks[:2] != ["- ", "+ "] or "= " not in marks[2:3]:
            raise SystemExit(f"[mutate] the list of equivalent mutants: entry {number + 1} is not a file and lines that begin with '- ', '+ ' and '= ':\n{entry}")
        found.add((lines[0], lines[1][2:], lines[2][2:]))
    return found


def is_equivalent(m, text, equivalent):
    """Whether an entry says so; one that fits several places says nothing of any."""
    _, before, after = operators.difference(text, m)
    return (m.file, before, after) in equivalent and operators.one_line(text).count(before) == 1


def drawn(root, sources, seed, equivalent):
    """The mutants of a seed, without end, each once: (mutation, text of its file)."""
    texts = {name: (root / name).read_text() for name in sources}
    places = collections.defaultdict(list)
    for name, text in texts.items():
        for m in operators.mutations(name, text):
            places[m.operator].append(m)
    choice, left = random.Random(seed), {op: list(places[op]) for op in operators.OPERATORS if places[op]}
    while left:
        operator = choice.choice(sorted(left))
        m = left[operator].pop(choice.randrange(len(left[operator])))
        if not left[operator]:
            del left[operator]
        if not is_equivalent(m, texts[m.file], equivalent):
            yield m, texts[m.file]


class Records:
    """What is known about mutants, one JSON object a line."""

    def __init__(self, path, tree):
        self.path, self.tree, self.known = path, tree, {}
        if path.exists():
            for line in path.read_text().splitlines():
                if line.endswith("}"):  # an interruption may have cut the last one
                    record = json.loads(line)
                    self.known[record["key"]] = record

    def get(self, key):
        """A mutant that was found, or does not compile, stays so; another is tried again in another tree."""
        record = self.known.get(key)
        return record if record and (record["tree"] == self.tree or record["outcome"] != "survived") else None

    def add(self, record):
        self.known[record["key"]] = record
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")


class Session:
    def __init__(self, arguments):
        self.a, self.root = arguments, arguments.root.resolve()
        self.space = workspace.Workspace(self.root, arguments.own_path)
        print(f"[mutate] the copy is {self.space.tree}" + ("" if self.space.prefix else ", built at its own path"), flush=True)
        tree = self.space.prepare()
        self.objects = self.space.objects()
        self.suite = suite.Suite(self.space, arguments.jobs)
        self.equivalent = known_equivalents(arguments.equivalent.read_text())
        self.others_built = False  # whether libraries have a mutant that was built alone
        self.records = Records(self.space.folder / "known.jsonl", tree)
        for record in self.records.known.values():
            if record["outcome"] in FOUND:
                self.suite.kills[suite.module_of(record["file"])][record["by"]] += 1

    def sources(self):
        return [name for name in self.space.listed()
                if name.startswith(("engine/", "plugins/")) and name.endswith(".cpp") and name in self.objects and name.startswith(self.a.only)]

    def run(self):
        """(the records of the mutants, those that are switched first; how many others did not compile)"""
        source = drawn(self.root, self.sources(), self.a.seed, self.equivalent)
        mutants = planting.Planting(self.space, self.objects, self.records)
        while missing := self.a.count - len(mutants.compiled()):
            if not mutants.add(list(itertools.islice(source, missing))):
                break
        if any(m.switched and self.is_open(self.records.get(m.key)) for m in mutants.compiled()):
            self.learn(mutants.signature())
        results = []
        for mutant in mutants.compiled():
            results.append(self.tried(mutants, mutant))
            self.tell(results[-1], f"{len(results)}/{self.a.count}")
        left = [i for i, r in enumerate(results) if self.is_open(r)]
        for n, i in enumerate(left, 1):
            results[i] = self.tried_again(mutants, mutants.compiled()[i], results[i])
            self.tell(results[i], f"again {n}/{len(left)}")
        return results, len(mutants.all) - len(results)

    def is_open(self, record):
        """Whether there are tests of a mutant that may still run."""
        return record is None or (record.get("left", 0) > 0 and record.get("again", -1) < self.a.seconds_again)

    def learn(self, signature):
        """Which mutants each test reaches, as far as an earlier session of the same mutants does not know."""
        self.space.build_all()
        file = self.space.folder / "reached.json"
        known = json.loads(file.read_text()) if file.exists() else {}
        if known.get("signature") != signature:
            known = {"signature": signature, "tests": {}}

        def learned(tests):
            workspace.write_whole(file, json.dumps({"signature": signature, "tests": tests}))

        print(f"[mutate] the mutants are built; each test runs once without one, {len(known['tests'])} are known", flush=True)
        self.suite.learn(known["tests"], learned)

    def tried(self, mutants, mutant):
        m = mutant.mutation
        if known := self.records.get(mutant.key):
            return known
        line, before, after = operators.difference(mutant.text, m)
        record = {"key": mutant.key, "file": m.file, "line": line, "operator": m.operator, "before": before, "after": after, "tree": self.records.tree}
        return self.hunted(mutants, mutant, record, self.a.seconds)

    def tried_again(self, mutants, mutant, record):
        return self.hunted(mutants, mutant, record | {"again": self.a.seconds_again}, self.a.seconds_again)

    def hunted(self, mutants, mutant, record, seconds):
        """The record with the outcome; `ran` are the tests that have run without finding the mutant, if others are left."""
        started, ran = time.monotonic(), set(record.pop("ran", ()))
        record["outcome"], record["by"], record["left"] = self.hunt(mutants, mutant, seconds, ran)
        record["seconds"] = round(record.get("seconds", 0) + time.monotonic() - started, 1)
        if record["left"]:
            record["ran"] = sorted(ran)
        self.records.add(record)
        return record

    def hunt(self, mutants, mutant, seconds, ran):
        file = mutant.mutation.file
        if mutant.switched:
            if self.others_built:
                self.space.build_all()
                self.others_built = False
            return self.suite.hunt(file, seconds, ran, wanted=lambda test: self.suite.reaches(test, mutant.number),
                                   variables={switched.CHOSEN: str(mutant.number)})
        begun_ns = time.time_ns()
        self.others_built = True
        with mutants.alone(mutant):
            if not self.space.ninja(self.suite.runtime):
                return "killed", "link", 0  # it compiles, but cannot be linked
            self.suite.built = set(self.suite.runtime)
            return self.suite.hunt(file, seconds, ran, ready=lambda test: self.suite.concerned(test, file, begun_ns))

    def tell(self, r, place):
        by = f" by {r['by']}" if r["outcome"] in FOUND else f" {r['by']}" if r["by"] else ""
        print(f"[{place}] {r['outcome']}{by} ({r['seconds']} s): {r['file']}:{r['line']} {r['operator']}", flush=True)


def summary(results, n_others, bar):
    """(text, whether the bar is reached); n_others: mutants that did not compile."""
    count = collections.Counter(r["outcome"] for r in results)
    n = len(results)
    found = sum(count[o] for o in FOUND)
    lines = []
    for r in results:
        if r["outcome"] == "survived":
            lines += [f"{r['file']}:{r['line']}: survived {r['by']} ({r['operator']})", f"- {r['before']}", f"+ {r['after']}", ""]
    seconds = sorted(r["seconds"] for r in results)
    lines.append(f"[mutate] {n} mutants: {count['killed']} killed, {count['timed out']} timed out, {count['survived']} survived; "
                 f"{n_others} others did not compile")
    if undecided := sum(r["outcome"] == "survived" and r.get("left", 0) > 0 for r in results):
        lines.append(f"[mutate] {undecided} of the survivors have tests that there was no time for; raise --seconds-again")
    if n == 0:
        return "\n".join(lines + ["[mutate] nothing was planted"]), False
    lines.append(f"[mutate] {100 * found / n:.1f} % found, at least {bar:g} % wanted; {seconds[n // 2]:.0f} s for half of them, {sum(seconds) / n:.0f} s on average")
    if found < n:
        lines.append(f"[mutate] write a test for each survivor, or add it with the reason to {EQUIVALENT.relative_to(EQUIVALENT.parents[2])}")
    return "\n".join(lines), 100 * found >= bar * n


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60, help="for the tests of one mutant")
    parser.add_argument("--seconds-again", type=float, default=240, help="for the tests of one mutant that these have not found, in the second round")
    parser.add_argument("--bar", type=float, default=90)
    parser.add_argument("--only", default="", help="beginning of the files' paths")
    parser.add_argument("--equivalent", type=pathlib.Path, default=EQUIVALENT)
    parser.add_argument("--own-path", action="store_true", help="build the copy at its own path, as where mount namespaces are not allowed")
    arguments = parser.parse_args()

    def interrupt(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGINT, interrupt)  # also where a shell started this with SIGINT ignored, which tests would inherit
    try:
        session = Session(arguments)
        results, n_others = session.run()
    except KeyboardInterrupt:
        print("\n[mutate] interrupted; the same command continues", file=sys.stderr)
        return 130
    text, reached = summary(results, n_others, arguments.bar)
    print(text)
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
