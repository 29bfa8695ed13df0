"""The launcher with shells for workers: output, failures, signals, and no leftover processes."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import default_signals

default_signals.use()
PROBE = os.environ["PLAIT_LAUNCH_PROBE"]
TIME = 60  # seconds for anything; the machine may be busy
WORKS = 'trap "exit 4" INT TERM; echo ready; touch ready$WORKER; while :; do sleep 0.05; done'  # saves and ends when asked to
CONNECTED = """echo '{"connected":true}' >&$REPORTS; """  # from now on ranks notice by themselves that one is lost
DEAF = 'trap "" INT TERM; echo ready; touch ready$WORKER; while :; do sleep 0.05; done'


def behind(*files):
    """Shell text that waits until these files exist."""
    return "".join(f"while [ ! -e {name} ]; do sleep 0.05; done; " for name in files)


def behind_end_of(name):
    """Shell text that waits until the process whose number is in this file has ended and the launcher has seen it."""
    return f"while [ ! -s {name} ] || kill -0 $(cat {name}) 2>/dev/null; do sleep 0.05; done; "


def alive(pid):
    """A process that is there, and no zombie."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # gone before it was opened, or read
        return False


class Launch(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="plait-launch-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def start(self, *commands, grace=30, linger=30, kill_delay=30):
        run = subprocess.Popen([PROBE, str(grace), str(linger), str(kill_delay), *commands], cwd=self.folder, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(run.stdout.close)
        self.addCleanup(run.stderr.close)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        return run

    def end(self, run):
        """Result, what worker 0 said, and the lines of stderr."""
        out, err = run.communicate(timeout=TIME)
        *said, result = out.splitlines()
        self.assertEqual(run.returncode, json.loads(result)["code"])
        return json.loads(result), said, err.splitlines()

    def all(self, *commands, **settings):
        return self.end(self.start(*commands, **settings))

    def until(self, condition):
        end = time.monotonic() + TIME
        while not condition():
            self.assertLess(time.monotonic(), end, "it does not come")
            time.sleep(0.01)

    def read(self, run, others):
        """Waits for worker 0 and so many others to say "ready"."""
        self.assertEqual(run.stdout.readline(), "ready\n")
        while others:
            others -= run.stderr.readline().endswith("] ready\n")

    def pids(self, names):
        self.until(lambda: all((self.folder / name).exists() and (self.folder / name).read_text().endswith("\n") for name in names))
        return [int((self.folder / name).read_text()) for name in names]


class Output(Launch):
    def test_worker_0_speaks_for_itself_and_the_others_with_their_number(self):
        say = 'echo out $WORKER; echo err $WORKER >&2; printf "no end"'
        result, said, err = self.all("echo out $WORKER; echo err $WORKER >&2", say, say)
        self.assertEqual(result, {"codes": [0, 0, 0], "code": 0, "rank": -1, "text": "", "signal": 0})
        self.assertEqual(said, ["out 0"])
        self.assertEqual(sorted(err), ["[rank 1] err 1", "[rank 1] no end", "[rank 1] out 1", "[rank 2] err 2", "[rank 2] no end",
                                       "[rank 2] out 2", "err 0", "started"])

    def test_much_of_it(self):
        result, _, err = self.all("true", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo line $i; done", "head -c 200000 /dev/zero | tr '\\0' x")
        self.assertEqual(result["code"], 0)
        self.assertEqual([line for line in err if line.startswith("[rank 1]")], [f"[rank 1] line {i}" for i in range(1, 20001)])
        self.assertEqual(sum(len(line) - len("[rank 2] ") for line in err if line.startswith("[rank 2]")), 200000)

    def test_they_read_nothing_and_inherit_nothing_else(self):
        result, said, _ = self.all("cat; ls /proc/$$/fd; echo $REPORTS")
        self.assertEqual(result["code"], 0)
        self.assertEqual(set(said[:-1]), {"0", "1", "2", said[-1]})

    def test_each_has_a_group_and_its_share_of_the_cores(self):
        show = "echo $(ps -o pgid= -p $$) $$; grep Cpus_allowed_list /proc/self/status"
        result, said, err = self.all(show, show)
        self.assertEqual(result["code"], 0)
        group, pid = said[0].split()
        self.assertEqual(group, pid)
        cores = [line.split()[-1] for line in said + err if "Cpus_allowed" in line]
        own = os.sched_getaffinity(0)
        if len(own) == 2:
            self.assertEqual(sorted(cores), sorted(map(str, own)))
        elif len(own) > 2:
            self.assertNotEqual(cores[0], cores[1])


class Failures(Launch):
    def test_the_first_one_counts_and_the_others_are_ended(self):
        result, _, _ = self.all(WORKS, behind("ready0", "ready2") + "exit 7", DEAF, linger=0.3, kill_delay=3)
        self.assertEqual(result["codes"], [4, 7, 137])
        self.assertEqual((result["code"], result["rank"]), (7, 1))
        self.assertEqual(result["text"], "[launch] rank 1 failed first: it exited with code 7; the other ranks failed as a consequence")

    def test_others_may_end_by_themselves(self):
        wait = behind_end_of("gone")
        result, _, _ = self.all(wait + "exit 1", CONNECTED + "echo $$ > gone; kill -9 $$", wait + "exit 3")
        self.assertEqual(result["codes"], [1, 137, 3])
        self.assertEqual((result["code"], result["rank"]), (137, 1))
        self.assertIn("rank 1 failed first: it was killed by signal 9 (Killed)", result["text"])

    def test_who_only_heard_of_it_did_not_begin(self):
        """A rank that fails may take its time to end; what it reports shows who began."""
        def report(rank, code, text):
            line = json.dumps({"rank": rank, "code": code, "seconds": 100 + rank, "text": text})
            return f"printf '%s\\n' '{line}' >&$REPORTS; "
        result, _, _ = self.all(CONNECTED + report(0, 13, "rank 2 aborted") + "touch told0; exit 1", behind("told0", "told2") + "sleep 0.3; exit 1",
                                report(2, 6, "[data] no file\n more") + "touch told2; " + behind("told0") + "sleep 0.6; exit 3")
        self.assertEqual((result["code"], result["rank"], result["codes"]), (3, 2, [1, 1, 3]))
        self.assertEqual(result["text"], "[launch] rank 2 failed first: [data] no file")

    def test_who_only_heard_of_it_is_printed(self):
        """Without waiting for the end of the lost rank, which may be stopped; not, if that rank tells it in its own words."""
        def report(rank, code, text):
            line = json.dumps({"rank": rank, "code": code, "seconds": rank, "whole": True, "text": text})
            return f"printf '%s\\n' '{line}' >&$REPORTS; "
        lost = CONNECTED + report(0, 13, "rank 1 is lost") + "exit 1"
        run = self.start(lost, "while [ ! -e printed ]; do sleep 0.05; done; exit 3")
        self.assertEqual([run.stderr.readline() for _ in range(2)], ["started\n", "untold of 0: rank 1 is lost\n"])
        (self.folder / "printed").touch()
        self.assertEqual(self.end(run)[2], [])
        _, _, err = self.all(behind("here") + CONNECTED + report(0, 13, "rank 1: no file") + "touch told; exit 1",
                             "touch here; " + behind("told") + report(1, 6, "no file") + "sleep 1.5; exit 3")
        self.assertEqual(err, ["started"])

    def test_all_alike(self):
        def report(rank):
            line = json.dumps({"rank": rank, "code": 10, "seconds": rank, "text": "not finite"})
            return f"printf '%s\\n' '{line}' >&$REPORTS; exit 5"
        result, _, _ = self.all(*map(report, range(3)))
        self.assertEqual((result["code"], result["rank"], result["text"]), (5, -1, "[launch] all 3 ranks failed, for the same reason"))

    def test_a_failure_that_all_share_is_told_by_rank_0(self):
        """With what to do; where rank 0 has died before it could, by another one."""
        def report(rank, text):
            line = json.dumps({"rank": rank, "code": 6, "seconds": rank, "whole": True, "shared": True, "text": text})
            return f"printf '%s\\n' '{line}' >&$REPORTS; exit 3"
        result, _, err = self.all("sleep 1.5; " + report(0, "not saved\nfree 2 MiB"), report(1, "not saved"), report(2, "not saved"))
        self.assertEqual(err, ["started"])
        self.assertEqual((result["code"], result["rank"], result["text"]), (3, -1, "[launch] all 3 ranks failed, for the same reason"))
        _, _, err = self.all("kill -9 $$", report(1, "not saved"), report(2, "not saved"))
        self.assertEqual(err, ["started", "untold of all: not saved"])

    def test_a_report_that_is_none(self):
        result, _, _ = self.all('echo "{}" >&$REPORTS; echo nonsense >&$REPORTS; exit 9')
        self.assertEqual(result["code"], 9)

    def test_a_report_right_before_the_end_is_read(self):
        """Behind so much else that the launcher sees the end first: the others know, and have time to end by themselves."""
        line = json.dumps({"rank": 1, "code": 6, "seconds": 100, "text": "[data] no file"})
        for _ in range(8):
            result, _, _ = self.all("timeout 0.8 yes >&$REPORTS; exit 0", f"sleep 0.1; printf '%s\\n' '{line}' >&$REPORTS; exit 3", linger=1000)
            self.assertEqual(result["codes"], [0, 3])

    def test_who_cannot_know_is_ended_soon(self):
        """A worker that is killed before all are connected, or ends without a report: nothing tells the others, which would wait for long."""
        for end, code in (("kill -9 $$", 137), ("exit 3", 3)):
            result, _, _ = self.all("exec sleep 1000", f"sleep 0.2; {end}", "exec sleep 1000", linger=1000)
            self.assertEqual(result["codes"], [143, code, 143])
            self.assertEqual((result["code"], result["rank"]), (code, 1))
            self.assertIn("[launch] rank 1 failed first: it ", result["text"])

    def test_who_knows_ends_by_itself(self):
        report = json.dumps({"rank": 1, "code": 6, "seconds": 1, "text": "no file"})
        for before, end in ((CONNECTED, "kill -9 $$"), ("", f"printf '%s\\n' '{report}' >&$REPORTS; exit 6")):
            wait = "while [ ! -e gone ]; do sleep 0.05; done; sleep 1.5; exit 1"
            result, _, _ = self.all(wait, before + f"touch gone; {end}")
            self.assertEqual(result["codes"][0], 1, result)
            (self.folder / "gone").unlink()

    def test_early_ends_without_a_failure_are_fine(self):
        result, _, _ = self.all("true", "sleep 0.4; exit 0", linger=0.1)
        self.assertEqual(result["codes"], [0, 0])


class Signals(Launch):
    def test_this_test_restores_what_it_inherits_as_ignored(self):
        """Otherwise the tests below would fail wherever this one was started by nohup or with a shell's &."""
        asked = "import default_signals, os, subprocess; default_signals.use(); print(subprocess.call(['sh', '-c', 'kill -{} $$']))"
        for name, number in (("HUP", signal.SIGHUP), ("INT", signal.SIGINT), ("QUIT", signal.SIGQUIT), ("USR1", signal.SIGUSR1)):
            done = subprocess.run([sys.executable, "-B", "-c", asked.format(name)], capture_output=True, text=True, timeout=TIME,
                                  env={**os.environ, "PYTHONPATH": os.path.dirname(default_signals.__file__)},
                                  preexec_fn=lambda: signal.signal(number, signal.SIG_IGN))
            self.assertEqual(done.stdout, f"{-number}\n", done.stderr)

    def interrupt(self, sent, *commands, **settings):
        run = self.start(*commands, **settings)
        self.read(run, len(commands) - 1)
        run.send_signal(sent)
        return self.end(run)[0]

    def test_the_first_is_passed_on_once(self):
        count = 'n=0; trap "n=\\$((n+1)); touch got$WORKER.\\$n" INT TERM; echo ready; while [ $n -lt 1 ]; do sleep 0.05; done; sleep 0.5; exit 4'
        for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
            result = self.interrupt(sent, count, count, count)
            self.assertEqual((result["code"], result["codes"], result["text"]), (4, [4, 4, 4], ""))
            self.assertEqual(sorted(path.name for path in self.folder.glob("got*")), ["got0.1", "got1.1", "got2.1"])

    def test_who_needs_longer_than_the_grace_is_killed(self):
        result = self.interrupt(signal.SIGTERM, WORKS, DEAF, WORKS, DEAF, grace=3)
        self.assertEqual((result["code"], result["codes"]), (128 + 15, [4, 137, 4, 137]))
        self.assertEqual(result["text"], "[launch] ranks 1,3 did not save within 3 s and were killed; --grace SECONDS gives more time")

    def test_the_second_ends_all_at_once(self):
        notes = 'trap "touch got$WORKER" INT; echo ready; while :; do sleep 0.05; done'
        run = self.start(notes, notes)
        self.read(run, 1)
        run.send_signal(signal.SIGINT)
        self.until(lambda: all((self.folder / name).exists() for name in ("got0", "got1")))
        run.send_signal(signal.SIGINT)
        result = self.end(run)[0]
        self.assertEqual((result["code"], result["codes"]), (130, [137, 137]))
        self.assertIn("ranks 0-1 ended at once, without saving: a second signal arrived", result["text"])

    def test_one_that_did_not_wait_for_signals_yet(self):
        result = self.interrupt(signal.SIGINT, "echo ready; exec sleep 30", "echo ready; exec sleep 30")
        self.assertEqual((result["code"], result["codes"]), (130, [130, 130]))
        self.assertIn("ended before there was anything to save", result["text"])

    def test_a_failure_while_saving(self):
        result = self.interrupt(signal.SIGTERM, WORKS, 'trap "exit 3" TERM; echo ready; while :; do sleep 0.05; done')
        self.assertEqual((result["code"], result["rank"]), (3, 1))

    def test_a_signal_to_a_worker_alone(self):
        """They agree among themselves to stop; the launcher waits."""
        result, _, _ = self.all("exit 4", "sleep 0.5; exit 4", linger=0.1)
        self.assertEqual((result["code"], result["codes"]), (4, [4, 4]))


class NobodyIsLeft(Launch):
    # A worker, a child of it that knows nothing of the launcher, and both their numbers in files.
    FAMILY = 'sleep 1000 & echo $! > child$WORKER; echo $$ > own$WORKER; '
    NAMES = [kind + str(i) for i in range(3) for kind in ("own", "child")]

    def test_after_the_launcher_was_killed(self):
        for _ in range(5):
            for path in self.folder.iterdir():
                path.unlink()
            run = self.start(*[self.FAMILY + "wait"] * 3)
            pids = self.pids(self.NAMES)
            self.assertTrue(all(map(alive, pids)))
            run.kill()
            run.wait()
            workers = [int((self.folder / f"own{i}").read_text()) for i in range(3)]
            self.until(lambda: not any(map(alive, workers)))
            for pid in pids:  # no one can end a child of a worker that is killed with the launcher; the test does
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def test_after_the_end(self):
        last = behind("ready2") + behind_end_of("own0") + "exit 5"
        run = self.start(self.FAMILY + "exit 0", self.FAMILY + last, self.FAMILY + DEAF, linger=0.2, kill_delay=0.2)
        pids = self.pids(self.NAMES)
        self.assertEqual(self.end(run)[0]["codes"], [0, 5, 137])
        self.until(lambda: not any(map(alive, pids)))

    def test_no_zombies_meanwhile(self):
        run = self.start(WORKS, "sh -c 'exit 0'", "true", WORKS)
        self.read(run, 1)

        def children():
            return pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
        self.until(lambda: len(children()) == 2)
        run.send_signal(signal.SIGINT)
        self.end(run)


if __name__ == "__main__":
    unittest.main()
