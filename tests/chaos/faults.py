"""Faults of a job, and the conditions that must hold afterwards. Each function is one kind of fault;
it raises Wrong."""

import re
import signal
import time

from job import state_of, wait_all, wait_for
from untrusted_peers import UntrustedPeers

ENDLESS = "run.steps=1000000000"
LINGER = 0.5  # seconds after which plait run ends ranks that a rank lost before the rendezvous leaves waiting
TIMEOUT = 3  # seconds, of jobs with a stopped rank; more than a loaded machine may keep a healthy one waiting


class Wrong(Exception):
    pass


def check(condition, text):
    if not condition:
        raise Wrong(text)


# Moments. ------------------------------------------------------------------------------------------------------------------------

def saving(job):
    """Whether a checkpoint is being written."""
    folder = job.run_dir / "ckpt"
    try:
        return any(entry.name.startswith(".tmp-") for entry in folder.iterdir())
    except OSError:
        return False


def await_moment(job, rng, moment):
    """Waits for it, then a little longer. `moment`: "start" (the ranks may not have met), "step", "save"."""
    if moment == "start":
        check(job.find_ranks(), "the ranks do not start")
        time.sleep(rng.uniform(0, 0.3))
        return
    check(job.find_ranks(), "the ranks do not start")
    first = rng.randint(1, 40)
    over = lambda: any(state_of(rank.pid) in ("", "Z") for rank in job.ranks)
    wait_for(lambda: job.step_now() >= first or over())
    if moment == "step":
        time.sleep(rng.uniform(0, 0.2))
    else:
        wait_for(lambda: saving(job) or over(), pause=0)
        time.sleep(rng.choice([0, 0, rng.uniform(0, 0.01)]))
    check(not over(), "a rank ended by itself: " + str(job.errors()))


# Errors of survivors. -------------------------------------------------------------------------------------------------------------

DOING = re.compile(r"(step|saving|loading|opening the session|evaluat\w+|resuming|reading a parameter) failed in step (\d+)|"
                   r"(connecting the|rendezvous with the other) ranks failed")
EXCHANGE = re.compile(r"because: \[runtime\] the collective of .+ failed")


def check_text(job, rank, lost, connected):
    text = job.text_of(rank)
    for word in ("terminate called", "Assertion", "Segmentation", "what():", "Sanitizer"):
        check(word not in text, f"rank {rank} shows its inside: {text}")
    if not connected:
        return  # plait run ends such ranks, one after the other: some are silent, some name another that it ended
    errors = [part for part in re.split(r"(?m)^error: ", text)[1:]]
    check(errors, f"rank {rank} ended without an error: {text!r}")
    head = errors[0].split("\n")[0]
    # A rank that joins late finds rank 0 gone already, and cannot know why.
    check(re.search(rf"\brank {lost}\b", head) or "did not reach rank 0" in head, f"rank {rank} does not name rank {lost} as the lost one: {errors[0]}")
    doing = DOING.search(head)
    check(doing, f"rank {rank} does not say what it was doing, and in which step: {errors[0]}")
    if doing[1] != "step":
        return
    # Rank 0 prints each step when it is done; another rank may be one behind or one ahead.
    check(abs(int(doing[2]) - job.step_now() - 1) <= 1, f"rank {rank} names another step than the one after {job.step_now()}: {errors[0]}")
    check(EXCHANGE.search(errors[0]), f"rank {rank} does not name the exchange that failed: {errors[0]}")


def check_survivors(job, lost, since, limit, connected=True):
    """Returns the seconds until each survivor had ended. A loss before the ranks are `connected` is for the launcher to tell."""
    survivors = {i: rank for i, rank in enumerate(job.ranks) if i != lost}
    ended = wait_all(survivors.values(), limit)
    late = [i for i, rank in survivors.items() if rank.ended is None]
    check(ended, f"survivors {late} have not ended {limit} s after rank {lost} was lost: {job.errors()}")
    times = [max(0.0, rank.ended - since) for rank in survivors.values()]
    if not job.launched:
        wait_for(lambda: all(job.popens[i].poll() is not None for i in survivors), 5)
        for i in survivors:
            check(job.popens[i].poll() == 1, f"rank {i} ended with {job.popens[i].poll()}, expected 1: {job.errors()}")
    for i in survivors:
        wait_for(lambda i=i: "error: " in job.text_of(i), 5)  # the launcher passes it on a moment later
        ended_by_launcher = job.launched and not connected and survivors[i].ended - since >= LINGER
        check_text(job, i, lost, connected=not ended_by_launcher)
    return times


def check_over(job, tidy=True):
    """The whole job has ended and left nothing behind; not `tidy`: rank 0 could not remove the
    rendezvous file."""
    check(job.wait(30), f"the job does not end: {job.processes()}; {job.errors()}")
    check(wait_for(lambda: not job.processes(), 2), f"processes {job.processes()} outlive the job")
    left = [path.name for path in (job.folder / "tmp").iterdir()]
    if tidy:
        left += [path.name for path in (job.folder / "own").iterdir()]
    check(not left, f"left behind: {left}")


# Faults. -------------------------------------------------------------------------------------------------------------------------

def kill_rank(chaos, rng, job, moment):
    await_moment(job, rng, moment)
    lost = rng.randrange(len(job.ranks))
    chaos.say(f"kill -9 of rank {lost} of {len(job.ranks)} ({moment}, after step {job.step_now()})")
    since = time.monotonic()
    job.ranks[lost].kill(signal.SIGKILL)
    times = check_survivors(job, lost, since, chaos.patience, connected=moment != "start")
    chaos.note("kill, start" if moment == "start" else "kill", times)
    if job.launched:
        check(job.wait(30) and job.codes() == [137], f"the launcher ended with {job.codes()}, expected 137")
        check(f"rank {lost} failed first: it was killed by signal 9" in job.errors()["launcher"],
              "the launcher does not say who began: " + job.errors()["launcher"])
    check_over(job, tidy=lost != 0)


def stop_rank(chaos, rng, job, moment):
    await_moment(job, rng, moment)
    lost = rng.randrange(len(job.ranks))
    chaos.say(f"SIGSTOP of rank {lost} of {len(job.ranks)} ({moment}, after step {job.step_now()})")
    since = time.monotonic()
    job.ranks[lost].kill(signal.SIGSTOP)
    times = check_survivors(job, lost, since, TIMEOUT + chaos.patience)
    chaos.note(f"stop (timeout {TIMEOUT} s)", times)
    if state_of(job.ranks[lost].pid) == "T":
        job.ranks[lost].kill(signal.SIGCONT)
    check(wait_all(job.ranks, chaos.patience + 5), "the stopped rank goes on for ever after SIGCONT")
    check_over(job)
    expected = [1] * len(job.codes())
    check(job.codes() == expected, f"after SIGCONT of rank {lost} the job ended with {job.codes()}, expected {expected}: {job.errors()}")


def kill_launcher(chaos, rng, job, moment):
    await_moment(job, rng, moment)
    chaos.say(f"kill -9 of the launcher of {len(job.ranks)} ranks ({moment}, after step {job.step_now()})")
    since = time.monotonic()
    job.launcher.kill(signal.SIGKILL)
    check(wait_all(job.ranks, chaos.patience), "ranks outlive their launcher")
    chaos.note("launcher", [max(0.0, rank.ended - since) for rank in job.ranks])
    check_over(job, tidy=False)


def ask_to_stop(chaos, rng, job, moment):
    await_moment(job, rng, moment)
    whom = [job.launcher] if job.launched else rng.choice([job.ranks, [rng.choice(job.ranks)]])
    chaos.say(f"SIGTERM to {'the launcher' if job.launched else 'one rank' if len(whom) == 1 else 'all ranks'} "
              f"of {len(job.ranks)} ({moment}, after step {job.step_now()})")
    since = time.monotonic()
    for one in whom:
        one.kill(signal.SIGTERM)
    check(job.wait(chaos.patience + 20), f"the job does not end on SIGTERM: {job.errors()}")
    chaos.note("SIGTERM", [max(0.0, one.ended - since) for one in job.ranks])
    if moment != "start":
        check(set(job.codes()) == {4}, f"ended with {job.codes()} on SIGTERM, expected 4: {job.errors()}")
        said = job.text_of(0)
        check("[session] stopped on request" in said, "it does not say that it saved: " + said)
        check("error: [session] stopped" not in said, "it calls a requested stop an error: " + said)
    check_over(job, tidy=moment != "start")


def disturb(chaos, rng, job, moment):
    kind = rng.choice(UntrustedPeers.KINDS)
    chaos.say(f"strangers who {kind} on the ports of {job.layout.ranks} ranks")
    check(job.find_ranks(), "the ranks do not start")
    # Not the launcher: it holds the port open, but does not serve it.
    untrusted = UntrustedPeers([rank.pid for rank in job.ranks], kind, rng.random())
    try:
        ended = job.wait()
        chaos.say(f"{untrusted.connections} connections to {len(untrusted.ports)} ports, "
                  f"{untrusted.most_fds} descriptors at most in one rank")
    finally:
        untrusted.stop()
    check(not untrusted.foreign, f"listens to more than this machine: {untrusted.foreign}")
    check(ended and set(job.codes()) == {0}, f"a stranger stopped the job: {job.codes()} {job.errors()}")
    check(untrusted.most_fds < 200, f"{untrusted.most_fds} descriptors in a rank")
    check_over(job)
