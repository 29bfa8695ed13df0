"""Contestants of several ranks: Plait as `plait run` starts it, PyTorch as processes with torchrun's variables."""

import json
import os
import secrets
import shutil
import socket
import statistics
import subprocess
import tempfile

from bench_common import Contestant, Failed

MIB = 2.0**20


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class PlaitRun:
    """Each round is a `plait run` of its own; its first steps are left out. The figure is the median of what its steps took."""

    def __init__(self, bench, name, experiment, steps, skip, *settings):
        self.name, self.skip, self.rounds = name, skip, []
        self.folder = tempfile.mkdtemp(prefix="plait-bench-")
        self.about = {"settings": [str(s) for s in settings], "steps": steps, "skipped": skip}
        every = max(1, steps // 2000)  # of a fast model not every step is told
        command = [bench.build / "bin" / "plait", "run", experiment, "--json", "--quiet", f"run.steps={steps + skip}"]
        command += ["run.progress=false", "checkpoint.at_end=false", f"run.log_every={every}", f"run.out={self.folder}"]
        self.command = [str(part) for part in [*command, *settings]]

    def round(self):
        before = os.times()
        done = subprocess.run(self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        after = os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        try:
            if done.returncode:
                raise Failed(f"[bench] {self.name} ended with code {done.returncode}: {done.stderr.strip()[-400:]}")
            self.rounds.append(self.measure(done) | {"cpu_seconds": cpu})
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def measure(self, done):
        steps = [json.loads(line) for line in done.stdout.splitlines() if '"step"' in line and line.startswith("{")]
        times = [s["step_ms"] / 1e3 for s in steps if s.get("event") == "step" and s["step"] > self.skip]
        # The shortest step is the one that others disturbed least: kept beside the median, for busy machines.
        return {"steps_per_s": 1 / statistics.median(times), "best": 1 / min(times)}

    def median(self, key):
        return statistics.median(r[key] for r in self.rounds)

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)


class TorchRanks(Contestant):
    """One process a rank, each on a core of its own; rank 0 answers for all."""

    def __init__(self, name, command, ranks):
        cores = sorted(os.sched_getaffinity(0))
        common = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        common |= {"GLOO_SOCKET_IFNAME": "lo", "LOCAL_WORLD_SIZE": str(ranks)}
        self.others = []
        for rank in range(1, ranks):
            self.others.append(self._start(command, common, rank, cores[rank % len(cores)]))
        pinned = ["taskset", "-c", cores[0], *command]
        super().__init__(name, pinned, common | {"RANK": "0", "LOCAL_RANK": "0"})

    def _start(self, command, common, rank, core):
        pinned = ["taskset", "-c", core, *command]
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        quiet = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        return subprocess.Popen([str(part) for part in pinned], env=os.environ | common | own, **quiet)

    def close(self):
        super().close()
        for process in self.others:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def held_by_ranks(bench, ranks, *arguments):
    """The memory that each rank of a short run reports: one object per rank."""
    common = {"PLAIT_WORLD_SIZE": str(ranks), "PLAIT_LOCAL_WORLD_SIZE": str(ranks)}
    common["PLAIT_RENDEZVOUS"] = f"127.0.0.1:{free_port()}"
    with tempfile.NamedTemporaryFile("w", prefix="plait-bench-") as secret:  # mode 0600
        secret.write(secrets.token_hex(32))
        secret.flush()
        common["PLAIT_SECRET_FILE"] = secret.name
        command = [str(part) for part in [bench.program("rank"), *arguments]]
        processes = []
        for rank in range(ranks):
            own = common | {"PLAIT_RANK": str(rank), "PLAIT_LOCAL_RANK": str(rank)}
            processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | own))
        texts = [p.communicate()[0] for p in processes]
    codes = [p.returncode for p in processes]
    if any(codes):
        raise Failed(f"[bench] ranks ended with codes {codes}; their messages are above")
    return [json.loads(text) for text in texts]
