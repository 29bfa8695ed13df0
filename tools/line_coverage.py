#!/usr/bin/env python3
"""How many lines of the sources run, of a build with PLAIT_COVERAGE whose programs have run.

    line_coverage.py ROOT BUILD [--listed FILE] [--bar PERCENT]

Counts the .cpp files of engine/ and plugins/, or the files that are listed in FILE, a file or a
pattern a line, such as tests/fuzz/parsers.txt. Prints the lines that run in each file that is below
the bar, and the sum; every line that does not run is written to BUILD/lines_not_run.txt, as
file:line: text. Exit code: 0 if the sum reaches the bar (90 %), 1 if not.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys


def listed_in(page, root):
    files = []
    for line in page.read_text().splitlines():
        pattern = line.split("#", 1)[0].strip()
        if not pattern:
            continue
        found = sorted(file.relative_to(root).as_posix() for file in root.glob(pattern))
        if not found:
            raise SystemExit(f"[coverage] {page}: there is no file '{pattern}'; correct the line")
        files += found
    return files


def sources(root):
    return [file.relative_to(root).as_posix() for folder in ("engine", "plugins") for file in sorted((root / folder).rglob("*.cpp"))]


def counts_of(root, build, files):
    """{file: {line: how often it ran}} of `files`, over every object that holds them."""
    names = {pathlib.PurePath(file).name + ".gcno" for file in files}
    notes = [note.resolve() for note in sorted(build.rglob("*.gcno")) if note.name in names]
    counts = {file: collections.Counter() for file in files}
    for start in range(0, len(notes), 50):
        done = subprocess.run(["gcov", "--json-format", "--stdout", *notes[start : start + 50]], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, cwd=build, text=True)
        if done.returncode:
            raise SystemExit(f"[coverage] gcov ended with code {done.returncode}: {done.stderr.strip()[-400:]}")
        for unit in filter(None, done.stdout.splitlines()):
            for source in json.loads(unit)["files"]:
                try:
                    file = pathlib.Path(source["file"]).relative_to(root).as_posix()
                except ValueError:
                    continue  # of the system
                for line in source["lines"] if file in counts else ():
                    counts[file][line["line_number"]] += line["count"]
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--listed", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--bar", type=float, default=90, metavar="PERCENT")
    options = parser.parse_args()
    root, build = options.root.resolve(), options.build.resolve()
    counts = counts_of(root, build, listed_in(options.listed, root) if options.listed else sources(root))
    missing = [file for file, lines in counts.items() if not lines]
    if options.listed and missing:
        raise SystemExit(f"[coverage] no program has been built with {', '.join(missing)}; correct {options.listed}")
    counts = {file: lines for file, lines in counts.items() if lines}
    if missing:
        print(f"[coverage] not in this build, and not counted: {len(missing)} files, such as {missing[0]}")
    with open(build / "lines_not_run.txt", "w") as out:
        for file, lines in counts.items():
            text = (root / file).read_text().splitlines()
            out.writelines(f"{file}:{at}: {text[at - 1].strip()}\n" for at in sorted(lines) if not lines[at])
    ran = {file: sum(1 for count in lines.values() if count) for file, lines in counts.items()}
    for file, lines in counts.items():
        if 100 * ran[file] < options.bar * len(lines):
            print(f"{100 * ran[file] / len(lines):6.1f} % of {len(lines):4} lines  {file}")
    total = sum(map(len, counts.values()))
    percent = 100 * sum(ran.values()) / total
    print(f"{percent:6.1f} % of {total} lines of {len(counts)} files; at least {options.bar:g} % are asked for")
    return 0 if percent >= options.bar else 1


if __name__ == "__main__":
    sys.exit(main())
