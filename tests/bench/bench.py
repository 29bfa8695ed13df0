#!/usr/bin/env python3
"""Runs the figures, prints a table, writes <build>/bench.json. Called by run.sh, which builds what this needs."""

import argparse
import json
import os
import pathlib
import platform
import sys
import time

import measure_adapters
import measure_against
import measure_comm
import measure_fixed
import measure_generate
import measure_language
import measure_observe
import measure_parallel
import measure_planning
import measure_saving
import measure_speed
import measure_tokenizing
from bench_common import Bench, Failed

FIGURES = {
    "neuron": measure_speed.neuron,
    "busy": measure_speed.busy,
    "wide": measure_speed.wide,
    "accuracy": measure_fixed.accuracy,
    "memory": measure_fixed.memory,
    "allocations": measure_fixed.allocations,
    "startup": measure_fixed.startup,
    "language": measure_language.language,
    "language-start": measure_language.startup,
    "language-ranks": measure_language.two_ranks,
    "adapters": measure_adapters.adapters,
    "nf4-loss": measure_adapters.nf4_loss,
    "tokenizing": measure_tokenizing.tokenizing,
    "generation": measure_generate.generation,
    "comm": measure_comm.comm,
    "parallel": measure_parallel.parallel,
    "saving": measure_saving.saving,
    "first": measure_observe.first,
    "observing": measure_observe.observing,
    "large-data": measure_observe.large_data,
    "listing": measure_observe.listing,
    "planning": measure_planning.planning,
    "every-rank": measure_planning.every_rank,
    "transient": measure_planning.transient,
    "initial": measure_planning.initial,
    "against": measure_against.against,
}
BUSY = 0.5


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--data", required=True, type=pathlib.Path)
    parser.add_argument("--peer-python", help="a python that has PyTorch; without it those peers are left out")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--against", type=pathlib.Path, help="another checkout, built in its build/release")
    parser.add_argument("--only", action="append", choices=FIGURES)
    options = parser.parse_args()
    if "against" in (options.only or ()) and not options.against:
        parser.error("--only against needs --against TREE, another checkout with a release build")
    return options


def machine():
    names = [
        line.split(":", 1)[1].strip()
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "cpu": names[0] if names else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "kernel": platform.release(),
    }


def number(value):
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if float(value) == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def print_table(rows):
    titles = ("figure", "plait", "unit", "beside", "its value", "ratio", "of rounds", "bar", "")
    lines = [titles]
    for r in rows:
        met = {True: "ok", False: "MISSED", None: ""}[r["met"]]
        ratio = f"{r['ratio']:.3f}" if r["ratio"] is not None else ""
        lines.append((r["figure"], number(r["value"]), r["unit"], r["peer"], number(r["peer_value"]), ratio, r["rounds"], r["bar"], met))
    widths = [max(len(line[i]) for line in lines) for i in range(len(titles))]
    for line in lines:
        left = (0, 2, 3, 6, 7, 8)
        cells = (c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths)))
        print("  ".join(cells).rstrip())


def main():
    options = arguments()
    bench = Bench(options.build, options.data, options.peer_python, options.quick)
    if options.against:
        bench.other = Bench(options.against / "build" / "release", options.data, None, options.quick, options.against)
    figures = options.only or [name for name in FIGURES if name != "against" or options.against]
    about = machine()
    print(f"{about['cpu']}, {about['cores']} cores, load {about['load']:.2f}, Linux {about['kernel']}")
    if about["load"] > BUSY:
        print(f"[bench] warning: the load is {about['load']:.2f}, above {BUSY}: others are running, the speeds are worth little")
    start, failed = time.monotonic(), False
    path = options.build / "bench.json"

    def keep():
        result = dict(schema=1, machine=about, quick=options.quick, seconds=round(time.monotonic() - start, 1))
        path.write_text(json.dumps(result | dict(rows=bench.rows, notes=bench.notes, details=bench.details), indent=1) + "\n")

    for name in figures:
        print(f"[bench] {name} …", file=sys.stderr, flush=True)
        try:
            FIGURES[name](bench)
        except Failed as error:
            print(error, file=sys.stderr)
            bench.notes.append(f"{name} could not be measured: {error}")
            failed = True
        keep()  # a run takes up to an hour, and a later part may fail
    about["load_after"] = os.getloadavg()[0]
    keep()
    print_table(bench.rows)
    for note in bench.notes:
        print(f"[bench] note: {note}")
    print(f"[bench] all figures with every round: {path}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
