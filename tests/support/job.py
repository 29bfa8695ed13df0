"""A training job of several ranks under observation: the test knows every process, however it was
started."""

import json
import math
import os
import pathlib
import re
import select
import signal
import subprocess
import time

from ranks import environment, model, variables

PLAIT = os.environ.get("PLAIT_BIN", "plait")
LIMIT = 120  # seconds after which anything counts as hanging


class Layout:
    """A grid of ranks ("data=2 zero=1", keys of [topology]), a model, and how ranks exchange. Stages get micro-batches to overlap."""

    def __init__(self, grid, width, comm):
        self.grid, self.width, self.comm = grid, width, comm
        sizes = dict(word.split("=") for word in grid.split())
        self.ranks = math.prod(int(sizes.get(axis, 1)) for axis in ("pipeline", "data", "tensor"))
        self.words = [f"topology.{word}" for word in grid.split()] + ["topology.backend=" + comm]
        if "pipeline" in sizes:
            self.words.append("batch.accumulation=4")

    def __str__(self):
        return f"{self.grid} (width {self.width}, {self.comm})"

    def write(self, folder):
        (folder / "t.toml").write_text(model(self.width, steps=0))


def read(path):
    try:
        return pathlib.Path(path).read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""


def children_of(pid):
    return [int(child) for child in read(f"/proc/{pid}/task/{pid}/children").split()]


def state_of(pid):
    """A letter, as ps shows it; "" for a process that is gone."""
    return read(f"/proc/{pid}/stat").rpartition(")")[2].strip()[:1]


def wait_for(condition, seconds=LIMIT, pause=0.001):
    """Whether it came within the time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True


class Process:
    """One process. When it ended is known to the millisecond, even if it is not our child."""

    def __init__(self, pid):
        self.pid, self.ended = pid, None
        self.fd = os.pidfd_open(pid)

    def kill(self, number):
        signal.pidfd_send_signal(self.fd, number)

    def close(self):
        os.close(self.fd)


def wait_all(processes, seconds):
    """Waits until all have ended, or the time is over; notes when each did. Returns whether all have."""
    end = time.monotonic() + seconds
    while True:
        open_ones = {p.fd: p for p in processes if p.ended is None}
        if not open_ones:
            return True
        poll = select.poll()
        for fd in open_ones:
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(max(0, (end - time.monotonic()) * 1000)):
            open_ones[fd].ended = time.monotonic()
        if time.monotonic() >= end and any(p.ended is None for p in processes):
            return False


class Job:
    """A job in a folder of its own. `launched`: plait run starts the ranks; else we do, and so learn
    how each of them ended. `more`: environment variables."""

    def __init__(self, folder, layout, launched, words, more=None):
        self.folder, self.layout, self.launched, self.more = folder, layout, launched, more or {}
        self.run_dir = folder / "run"
        self.token = f"{folder.name}.{time.monotonic_ns()}"
        self.command = [PLAIT, "run", "t.toml", *layout.words, *words, "--run-dir", "run", "--json"]
        self.popens, self.ranks, self.launcher = [], [], None
        for name in ("tmp", "own"):
            (folder / name).mkdir(mode=0o700, exist_ok=True)
        for rank in range(1 if launched else layout.ranks):
            self.popens.append(self._start(rank))
        if launched:
            self.launcher = Process(self.popens[0].pid)
        else:
            self.ranks = [Process(popen.pid) for popen in self.popens]

    def _environment(self, rank):
        kept = environment(PLAIT_CHAOS=self.token, TMPDIR=str(self.folder / "tmp"), XDG_RUNTIME_DIR=str(self.folder / "own"))
        kept.update(self.more)
        if not self.launched:
            kept.update(variables(rank, self.layout.ranks, f"file:{self.folder}/own/rendezvous"))
        return kept

    def _start(self, rank):
        with open(self._file(rank, "out"), "wb") as out, open(self._file(rank, "err"), "wb") as err:
            return subprocess.Popen(self.command, cwd=self.folder, env=self._environment(rank), stdin=subprocess.DEVNULL,
                                    stdout=out, stderr=err, start_new_session=True)

    def _file(self, rank, kind):
        return self.folder / f"{self.token}.{rank}.{kind}"

    def find_ranks(self):
        """Waits until all ranks are started; False when the job ended before."""
        if self.launched:
            found = []

            def all_there():
                found[:] = children_of(self.launcher.pid)
                return len(found) == self.layout.ranks or state_of(self.launcher.pid) in ("", "Z")
            wait_for(all_there)
            try:
                self.ranks = [Process(pid) for pid in found]  # in the order of their ranks
            except ProcessLookupError:
                return False
        return len(self.ranks) == self.layout.ranks

    # What it says. ---------------------------------------------------------------------------------------------------------------

    def records(self):
        """The output of rank 0, step by step."""
        lines = read(self._file(0, "out")).splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def steps(self):
        """The figures of each step, by its number."""
        return {r["step"]: (r["loss"], r["grad_norm"]) for r in self.records() if r["event"] == "step"}

    def step_now(self):
        """The newest step; from the end of the output, for this is asked often."""
        try:
            with open(self._file(0, "out"), "rb") as out:
                out.seek(max(0, os.fstat(out.fileno()).st_size - 2000))
                return max((int(step) for step in re.findall(rb'"event":"step","step":(\d+),', out.read())), default=0)
        except FileNotFoundError:
            return 0

    def text_of(self, rank):
        """All that a rank has written to its standard error."""
        if not self.launched:
            return read(self._file(rank, "err"))
        prefix, others, own = f"[rank {rank}] ", re.compile(r"\[rank \d+\] "), []
        for line in read(self._file(0, "err")).splitlines():
            if line.startswith(prefix):
                own.append(line[len(prefix):])
            elif rank == 0 and not others.match(line) and "[launch]" not in line:
                own.append(line)
        return "\n".join(own)

    def errors(self):
        return {"launcher": read(self._file(0, "err"))} if self.launched else {r: self.text_of(r) for r in range(self.layout.ranks)}

    # How it ends. ----------------------------------------------------------------------------------------------------------------

    def wait(self, seconds=LIMIT):
        """Whether the whole job ends in time."""
        return wait_all(self.everybody(), seconds) and wait_for(self.reaped, 5)

    def reaped(self):
        return all(popen.poll() is not None for popen in self.popens)

    def everybody(self):
        return self.ranks + ([self.launcher] if self.launcher else [])

    def codes(self):
        """Of the launcher, or of all ranks."""
        return [popen.poll() for popen in self.popens]

    def processes(self):
        """Every process of the job that still runs, children of children included."""
        mark = b"PLAIT_CHAOS=" + self.token.encode() + b"\0"
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                if mark in pathlib.Path(f"/proc/{entry}/environ").read_bytes() and state_of(entry) not in ("", "Z"):
                    found.append(int(entry))
            except OSError:
                pass
        return found

    def close(self):
        """Nothing of it stays, whatever happened."""
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for popen in self.popens:
            popen.wait()
        for process in self.everybody():
            process.close()


def shared_memory():
    """Files that plait keeps in /dev/shm and no process has mapped."""
    try:
        names = {name for name in os.listdir("/dev/shm") if name.startswith("plait")}
    except FileNotFoundError:
        return set()
    if names:
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                maps = read(f"/proc/{entry}/maps")
                names = {name for name in names if name not in maps}
    return names
