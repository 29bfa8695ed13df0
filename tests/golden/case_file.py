"""A JSON file of cases, which a script writes or, with --check, compares."""

import argparse
import json
import pathlib
import sys


def main(path, cases, about):
    """path: of the file. cases: makes them, a list. about: the docstring of the script. Returns the exit code."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    path, text = pathlib.Path(path), "[\n" + ",\n".join(json.dumps(case) for case in cases()) + "\n]\n"
    if not check:
        path.write_text(text)
    elif path.read_text() != text:
        print(f"[golden] {path.name} differs from what the library gives", file=sys.stderr)
        return 1
    return 0
