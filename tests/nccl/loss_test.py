"""Two ranks on emulated GPUs, over NCCL: one is killed in the middle of a run, stops, or has an
NCCL that fails in a step. The other ends within seconds and says which rank it lost, in which step,
and what it was doing.

loss_test.py PLAIT"""

import os
import pathlib
import re
import signal
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
os.environ["PLAIT_BIN"] = sys.argv[1]
import job  # noqa: E402

TIMEOUT = 5  # seconds of a collective
SOON = 12  # seconds in which a survivor ends that waits for no time-out; the machine may be busy
WORDS = ["run.steps=1000000000", "run.device=cuda", f"topology.timeout={TIMEOUT}"]


def expect(condition, text):
    if not condition:
        sys.exit(text)


def run(folder, words, faults, harm):
    """Starts two ranks, and after some steps does harm to the second one (a function of the job).
    Returns the seconds from there to the end of the first one, and its errors."""
    layout = job.Layout("data=2", 16, "nccl")
    folder.mkdir()
    layout.write(folder)
    emulated = {name: value for name, value in os.environ.items() if name.startswith("PLAIT_CUDA_")}
    emulated["PLAIT_NCCL_EMULATOR"] = faults
    ranks = job.Job(folder, layout, False, [*WORDS, *words], emulated)
    try:
        if harm:
            over = lambda: job.state_of(ranks.ranks[0].pid) in ("", "Z")
            job.wait_for(lambda: ranks.step_now() >= 5 or over())
            expect(ranks.step_now() >= 5, f"no steps: {ranks.errors()}")
            harm(ranks)
        begin = time.monotonic()
        expect(job.wait_all([ranks.ranks[0]], 60), f"the survivor does not end: {ranks.errors()}")
        return ranks.ranks[0].ended - begin, ranks.text_of(0)
    finally:
        ranks.close()


def signalled(number):
    return lambda ranks: ranks.ranks[1].kill(number)


def check(name, text, seconds, limit, patterns):
    expect(seconds < limit, f"{name}: the survivor ended after {seconds:.1f} s:\n{text}")
    for word in ("terminate called", "Assertion", "Segmentation", "Sanitizer"):
        expect(word not in text, f"{name}: {text}")
    for pattern in patterns:
        expect(re.search(pattern, text), f"{name}: no '{pattern}' in\n{text}")


def main():
    step = r"step failed in step \d+"
    doing = r"(all_reduce|reduce_scatter|all_gather) of \d+ f\d\d|the collective of .+ failed"
    with tempfile.TemporaryDirectory(prefix="plait-nccl-loss-") as name:
        folder = pathlib.Path(name)
        for graphs in ("true", "false"):
            words = [f"device.graphs={graphs}"]
            seconds, text = run(folder / f"killed-{graphs}", words, "", signalled(signal.SIGKILL))
            lost = r"rank 1 .*is lost"
            check(f"killed, graphs {graphs}", text, seconds, SOON, [step, lost, doing])
            _, text = run(folder / f"fails-{graphs}", words, "error=1:40:2", None)
            check(f"NCCL fails, graphs {graphs}", text, 0, SOON, [step, r"rank 1", doing])
        seconds, text = run(folder / "stopped", [], "", signalled(signal.SIGSTOP))
        check("stopped", text, seconds, TIMEOUT + SOON, [step, r"rank 1", doing])


main()
