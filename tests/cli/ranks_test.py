"""plait run on several ranks, started by itself or by another launcher."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from ranks import environment
from support import PLAIT, TORCHRUN, TIME, RankCase, checkpoint_files

TWO = "topology.data=2"
ALL = os.environ.get("PLAIT_TEST_ALL") == "1"  # repetitions that take minutes
LONG = "run.steps=100000000"


def workers_of(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # gone before it was opened, or read
        return False


def content(path):
    """Nothing of a file that is gone, as one that was written under another name."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


class Ranks(RankCase):
    def start(self, *words, env=None):
        run = subprocess.Popen([PLAIT, *words], cwd=self.folder, env={**self.environment(), **(env or {})}, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for step in (run.stdout.close, run.stderr.close, run.wait, run.kill):
            self.addCleanup(step)
        return run

    def start_long(self, *words):
        """A run that goes on for ever, after its first steps."""
        run = self.start("run", "t.toml", LONG, "--run-dir", "cut", "--json", "run.log_every=20", *words)
        for line in run.stdout:
            if json.loads(line)["event"] == "step":
                return run
        self.fail(run.stderr.read())

    def end(self, run):
        # Not communicate() alone, which does not know what the iterator has read ahead.
        limit = threading.Timer(TIME, run.kill)
        limit.start()
        events = [json.loads(line) for line in run.stdout]
        _, err = run.communicate(timeout=TIME)
        limit.cancel()
        return run.returncode, events, err

    def until(self, condition):
        end = time.monotonic() + TIME
        while not condition():
            self.assertLess(time.monotonic(), end, "it does not come")
            time.sleep(0.01)

    def assert_same_training(self, losses, other):
        self.assertEqual(len(losses), len(other))
        for a, b in zip(losses, other):
            self.assertAlmostEqual(a, b, delta=1e-5 * abs(b) + 1e-7)

    def losses(self, folder="runs"):
        file = next((self.folder / folder).rglob("metrics.ndjson"))
        return [record["loss"] for record in map(json.loads, file.read_text().splitlines()) if "lr" in record]


class Local(Ranks):
    def test_the_result_is_that_of_one(self):
        self.expect(0, "run", "t.toml", "--run-dir", "one", "-q")
        for ranks in (2, 4):
            done = self.expect(0, "run", "t.toml", f"topology.data={ranks}", "--run-dir", f"r{ranks}")
            self.assertIn(f"starting {ranks} ranks on this machine", done.err)
            self.assertEqual(done.out.count("done after step 40"), 1)
            self.assertNotIn("[rank", done.out + done.err)
            self.assert_same_training(self.losses(f"r{ranks}"), self.losses("one"))

    def test_one_rank_speaks_and_writes(self):
        done = self.expect(0, "run", "t.toml", TWO, "--json")
        self.assertEqual([record["event"] for record in done.records if record["event"] != "step"],
                         ["start", "checkpoint", "evaluate", "done"])
        self.assertEqual([record["step"] for record in done.records if record["event"] == "step"], list(range(1, 41)))
        self.assertEqual((done.event("start")["ranks"], done.event("start")["launcher"]), (2, "PLAIT"))
        run, = (self.folder / "runs/tiny").iterdir()
        self.assertEqual(sorted(path.name for path in (run / "log").iterdir()), ["rank-0.log", "rank-1.log"])
        self.assertIn("[session] rank 1", (run / "log/rank-1.log").read_text())
        self.assertEqual(self.expect(0, "run", "t.toml", TWO, "-q", "run.steps=1").err, "")

    def test_weights_of_several_ranks_start_another_run(self):
        """A checkpoint in shards, or the run directory that holds it, is as good as one file of weights."""
        self.expect(0, "run", "t.toml", "topology.tensor=2", "--run-dir", "two", "-q", "model.layers[0].parallel=column")
        expected = self.expect(0, "eval", "t.toml", "--checkpoint", "two", "--json").records[-1]["loss"]
        for i, load in enumerate(("two", "two/ckpt/step-0000000040")):
            for ranks in (["topology.data=1"], ["topology.data=2"]):
                into = f"from{i}{len(ranks[0])}{ranks[0][-1]}"
                self.expect(0, "run", "t.toml", *ranks, f"model.load={load}", "run.steps=1", "optimizer.learning_rate=0",
                            "--run-dir", into, "-q")
                found = self.expect(0, "eval", "t.toml", "--checkpoint", into, "--json").records[-1]["loss"]
                self.assertAlmostEqual(found, expected, delta=1e-6)
        self.fails(2, ["run", "t.toml", "model.load=own"], "'./own' is not a checkpoint and contains none")

    def test_an_evaluation_runs_on_the_ranks_of_the_file(self):
        """The last batch is incomplete; the checkpoint comes from one rank."""
        column = "model.layers[0].parallel=column"
        self.expect(0, "run", "t.toml", column, "--run-dir", "one", "-q")
        words = ("eval", "t.toml", column, "--checkpoint", "one", "data.eval.samples=101")
        expected = self.expect(0, *words, "--json").records
        self.assertEqual(len(expected), 1)
        for ranks, grid in ((2, ("topology.data=2", "topology.zero=3")), (2, ("topology.tensor=2",)),
                            (2, ("topology.pipeline=2", "batch.micro=4")), (4, ("topology.data=2", "topology.tensor=2"))):
            with self.subTest(grid):
                done = self.expect(0, *words, *grid, "--json")
                self.assertIn(f"starting {ranks} ranks on this machine", done.err)
                found, = done.records
                self.assertEqual((found["samples"], found["step"]), (101, 40))
                self.assertAlmostEqual(found["loss"], expected[0]["loss"], delta=1e-5)
                self.assertAlmostEqual(found["metrics"]["accuracy"], expected[0]["metrics"]["accuracy"], delta=1e-6)
                alone = self.expect(0, *words, *grid, "--json", "--one-rank")
                self.assertNotIn("starting", alone.err)
                self.assertAlmostEqual(alone.records[0]["loss"], expected[0]["loss"], delta=1e-5)
        said = self.expect(0, *words, TWO).out
        self.assertEqual(said.count("checkpoint of step 40"), 1)
        self.assertEqual(said.count("accuracy"), 1)
        self.fails(2, [*words[:3], "--checkpoint", "nowhere", TWO], "'nowhere' does not exist")

    def test_a_run_of_several_ranks_is_evaluated_on_as_many(self):
        done = self.expect(0, "run", "t.toml", TWO, "topology.zero=3", "--run-dir", "two", "--json")
        trained = done.event("done")["evaluation"]
        done = self.expect(0, "eval", "two", "--json")
        self.assertIn("starting 2 ranks on this machine", done.err)
        alone = self.expect(0, "eval", "two", "--one-rank", "--json")
        self.assertNotIn("starting", alone.err)
        for found in (done.records[0], alone.records[0]):
            self.assertAlmostEqual(found["metrics"]["accuracy"], trained["metrics"]["accuracy"], delta=1e-6)

    def test_an_axis_follows_from_the_ranks_that_are_started(self):
        column = "model.layers[0].parallel=column"
        done = self.expect(0, "run", "t.toml", column, "topology.data=0", "topology.tensor=2", "batch.micro=4", "batch.accumulation=2",
                           "~batch.global", "--ranks", 4, "--run-dir", "four", "run.steps=3", "-v")
        self.assertIn("batch: 16 samples = micro-batch 4 x accumulation 2 x data 2", done.out)
        manifest = json.loads(next((self.folder / "four/ckpt").glob("step-*/MANIFEST.json")).read_text())
        self.assertEqual(manifest["world"], {"data": 2, "tensor": 2, "pipeline": 1})
        # Its run.toml has the grid that ran.
        self.assertIn("starting 4 ranks", self.expect(0, "eval", "four", "--json").err)
        words = ("eval", "t.toml", "--checkpoint", "four", "topology.data=0")
        self.assertIn("starting 2 ranks", self.expect(0, *words, "--ranks", 2).err)
        self.assertNotIn("starting", self.expect(0, *words, "--ranks", 1).err)
        self.fails(2, ("run", "t.toml", "topology.data=0", "topology.tensor=2", "topology.pipeline=2", "--ranks", 6),
                   "topology.data: is to follow from the number of ranks, but pipeline = 2 and tensor = 2 make 4, which does not divide "
                   "the 6 ranks that were started", "start 4 or 8")
        self.fails(2, ("check", "t.toml", "topology.data=0", "topology.tensor=0"),
                   "topology.tensor", "only one axis can follow from the number of ranks, and topology.data is 0, too")
        self.fails(2, ("run", "t.toml", "topology.data=2", "--ranks", 3), "data = 2, tensor = 1 make 2 ranks, but 3 were started")
        self.expect(0, "check", "t.toml", "topology.data=0")
        self.assertEqual(self.expect(0, "plan", "t.toml", "topology.data=0", "--json").records[0]["topology"]["data"], 1)

    def test_ranks_write_metrics_of_their_own(self):
        grid = ("topology.data=2", "topology.tensor=2", "model.layers[0].parallel=column")
        self.expect(0, "run", "t.toml", *grid, "--run-dir", "four", "-q", "run.steps=10", "run.log_every=5", "run.rank_metrics=data",
                    "run.metrics_ranks=[3]")
        folder = self.folder / "four/metrics"
        self.assertEqual(sorted(path.name for path in folder.glob("*.ndjson")), ["data-0.ndjson", "data-1.ndjson", "rank-3.ndjson"])
        for name, place in (("data-1", (2, 0, 1, 0)), ("rank-3", (3, 0, 1, 1))):
            lines = [json.loads(line) for line in (folder / f"{name}.ndjson").read_text().splitlines()]
            self.assertEqual([(line["event"], line["run"], line["step"]) for line in lines], [("rank", name, 5), ("rank", name, 10)])
            for line in lines:
                self.assertEqual(tuple(line[key] for key in ("rank", "pipeline", "data", "tensor")), place)
                self.assertGreater(line["busy_ms"], 0)
                self.assertLessEqual(line["busy_ms"] + line["data_ms"], line["step_ms"] * 1.01)
                self.assertGreaterEqual(line["wait_ms"], 0)
            self.assertTrue(list((folder / name).glob("events.out.tfevents.*")))
        self.expect(0, "run", "t.toml", *grid, "--run-dir", "four", "-q", "run.steps=15", "run.log_every=5", "run.rank_metrics=all",
                    "--resume", "must")
        self.assertEqual(len(list(folder.glob("rank-*.ndjson"))), 4)
        self.assertEqual([json.loads(line).get("from_step") for line in (folder / "rank-3.ndjson").read_text().splitlines()][2:], [10, None])
        self.expect(0, "run", "t.toml", "--run-dir", "none", "-q", "run.steps=2")
        self.assertFalse((self.folder / "none/metrics").exists())

    def test_each_rank_has_its_cores(self):
        cores = len(os.sched_getaffinity(0))
        most = int(os.environ.get("OMP_THREAD_LIMIT", cores))
        done = self.expect(0, "run", "t.toml", TWO, "run.steps=1")
        self.assertIn(f"({min(max(1, cores // 2), most)} thread", done.out)

    def test_the_device_has_no_more_threads_than_openmp_grants(self):
        done = self.expect(0, "run", "t.toml", "run.steps=1", "run.threads=3", env={"OMP_THREAD_LIMIT": "1"})
        self.assertIn("(1 thread)", done.out)
        self.assertIn("computes on 1 thread (OMP_THREAD_LIMIT allows no more, expected 3); raise or unset", done.out + done.err)
        done = self.expect(0, "run", "t.toml", "run.steps=1", "run.threads=1", env={"OMP_THREAD_LIMIT": "1"})
        self.assertIn("(1 thread)", done.out)
        self.assertNotIn("OMP_THREAD_LIMIT", done.out + done.err)

    def test_what_is_wrong_is_said_once(self):
        for words, texts in ((["topology.data=3"], ["batch.global", "3"]), (["model.layers[0].out=0"], ["model.layers[0].out"]),
                             (["topology.data=100000", "batch.global=100000"], ["100000 ranks", "1024 at most"])):
            outcome = self.fails(2, ["run", "t.toml", TWO, *words], *texts)
            self.assertEqual(outcome.err.count("error:"), 1)
            self.assertNotIn("starting", outcome.err)

    def test_what_all_ranks_find_is_said_once(self):
        """Files that are opened when the ranks have met; the launcher adds its own line."""
        self.expect(0, "run", "t.toml", "--run-dir", "one", "-q", "run.steps=1")
        for words, text in (
            (["eval", "t.toml", "--checkpoint", "nowhere"], "'nowhere' does not exist"),
            (["eval", "t.toml", "--checkpoint", "one", "--dataset", "evall"],
             "(did you mean 'eval'?)"),
            (["run", "t.toml", "model.load=nowhere"], "model.load names 'nowhere'"),
            (["run", "t.toml", "--run-dir", "absent", "--resume", "must"],
             "there is no checkpoint to resume from in 'absent'")):
            with self.subTest(words=words):
                err = self.fails(2, [*words, "topology.data=4"], text).err
                errors = [line for line in err.splitlines() if "error: " in line]
                self.assertEqual(len(errors), 2, err)
                self.assertRegex(errors[0], r"^(\[rank \d\] )?error: \[")
                self.assertIn(text, errors[0])
                self.assertRegex(errors[1], r"^error: \[launch\] (all 4 ranks|rank \d) failed")

    def test_plan_for_a_rank(self):
        plan = self.expect(0, "plan", "t.toml", TWO, "--rank", "1", "--json").records[0]
        self.assertEqual(plan["parameter_count"], 195)
        self.fails(2, ["plan", "t.toml", TWO, "--rank", "2"], "--rank is 2, but [topology] has ranks 0 to 1")
        said = self.expect(0, "run", "t.toml", TWO, "topology.virtual_stages=2", "run.steps=1").err
        self.assertEqual(said.count("topology.virtual_stages has no effect"), 1)
        self.fails(2, ["plan", "t.toml", "--rank", "-1"], "--rank: expected a whole number of 0 or more, found '-1'")

    def test_a_signal_saves_and_resuming_changes_nothing(self):
        for sent in (signal.SIGINT, signal.SIGTERM):
            shutil.rmtree(self.folder / "cut", ignore_errors=True)
            run = self.start_long(TWO)
            run.send_signal(sent)
            code, events, err = self.end(run)
            self.assertEqual(code, 4, err)
            self.assertEqual([event["event"] for event in events if event["event"] != "step"], ["checkpoint", "interrupted"])
            self.assertEqual(err.count("to resume: plait run t.toml"), 1)
            self.assertNotIn("[rank", err)
            step = int(re.search(r"after step (\d+)", err)[1])
            words = events[-1]["resume"].replace(LONG, f"run.steps={step + 20}").split()[1:]
            self.expect(0, *words, "-q")
        self.expect(0, "run", "t.toml", TWO, f"run.steps={step + 20}", "--run-dir", "whole", "-q")
        self.assertEqual(checkpoint_files(self.folder / "cut"), checkpoint_files(self.folder / "whole"))

    def test_a_killed_rank_ends_the_run(self):
        for which in (0, 2):
            shutil.rmtree(self.folder / "cut", ignore_errors=True)
            run = self.start_long("topology.data=4")
            workers = workers_of(run.pid)
            self.assertEqual(len(workers), 4)
            os.kill(workers[which], signal.SIGKILL)
            code, events, err = self.end(run)
            self.assertEqual(code, 137, err)
            self.assertIn(f"rank {which} failed first: it was killed by signal 9", err)
            self.assertEqual(events[-1]["rank"], which)
            self.assertFalse(any(map(alive, workers)))
            if which != 0:  # connected ranks learn of it themselves, and say so before they are ended
                self.assertIn("lost", err.split("[launch]")[0])

    def test_ranks_record_their_last_collectives(self):
        """Of two replicas one is stopped: the other tells in which call it waited, and plait status who is missing."""
        words = (TWO, "run.log_every=20", "topology.timeout=5", "topology.backend=gloo", "checkpoint.every=2000")
        run = self.start_long(*words)
        workers = workers_of(run.pid)
        # The next save, for which a rank may wait as well, is far away.
        self.until(lambda: os.path.lexists(self.folder / "cut/ckpt/latest"))
        os.kill(workers[1], signal.SIGSTOP)
        self.addCleanup(lambda: alive(workers[1]) and os.kill(workers[1], signal.SIGKILL))
        records = self.folder / "cut/log"
        self.until(lambda: (records / "rank-0.calls.json").exists())
        os.kill(workers[1], signal.SIGKILL)
        self.end(run)
        record = json.loads((records / "rank-0.calls.json").read_text())
        self.assertEqual((record["schema"], record["rank"], record["ranks"]), (1, 0, 2))
        self.assertGreater(record["step"], 2000)
        self.assertIn("rank 1", record["error"])
        group, = record["groups"]
        self.assertEqual((group["group"], group["backend"], group["ranks"]), ("data.0", "gloo", [0, 1]))
        numbers = [call["number"] for call in group["calls"]]
        self.assertEqual(numbers, list(range(numbers[-1] - 15, numbers[-1] + 1)))
        self.assertLess(group["finished"], numbers[-1])  # it waits in one of the calls under way
        self.assertRegex(group["calls"][-1]["call"], r"^all_reduce of \d+ f32 \(sum\), ")
        told = rf"\n  group data\.0: rank 0 started call {numbers[-1]} \(all_reduce of \d+ f32 \(sum\), .*\); rank 1 left no record\n"
        self.assertRegex(self.expect(0, "status", "cut").out, told)
        recorded = {"rank": 0, "started": numbers[-1], "finished": group["finished"], "call": group["calls"][-1]["call"]}
        found = {"group": "data.0", "backend": "gloo", "number": numbers[-1], "call": group["calls"][-1]["call"],
                 "ranks": [recorded, {"rank": 1, "started": None, "finished": None, "call": None}]}
        self.assertEqual(self.expect(0, "status", "cut", "--json").records[0]["collectives"], [found])
        # Of a rank that is behind, and of files that are damaged.
        group["calls"], group["finished"] = group["calls"][:-1], None
        (records / "rank-1.calls.json").write_text(json.dumps({**record, "rank": 1}))
        self.assertRegex(self.expect(0, "status", "cut").out, rf"started call {numbers[-1]} \(.*\), rank 1 only call {numbers[-1] - 1}\n")
        found["ranks"][1] = {"rank": 1, "started": numbers[-2], "finished": None, "call": group["calls"][-1]["call"]}
        self.assertEqual(self.expect(0, "status", "cut", "--json").records[0]["collectives"], [found])
        for damaged in ("", "[]", "{}", '{"rank": 1, "groups": [1]}', '{"rank": "x", "groups": []}', "[" * 100000):
            (records / "rank-1.calls.json").write_text(damaged)
            self.assertRegex(self.expect(0, "status", "cut").out, told)
        # A resumed run removes them.
        self.expect(0, "run", "t.toml", *words, f"run.steps={record['step'] + 20}", "--run-dir", "cut", "--resume", "must", "-q")
        self.assertEqual(list(records.glob("*.calls.json")), [])
        self.assertEqual(self.expect(0, "status", "cut", "--json").records[0]["collectives"], [])

    def test_a_rank_that_is_killed_before_it_connects_ends_the_run(self):
        for which in (0, 3):
            run = subprocess.Popen([PLAIT, "run", "t.toml", "topology.data=4", "topology.connect_timeout=1000", LONG], cwd=self.folder,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            self.addCleanup(run.kill)
            end = time.monotonic() + TIME
            while len(workers := workers_of(run.pid)) < 4 and time.monotonic() < end:
                time.sleep(0.001)
            os.kill(workers[which], signal.SIGKILL)
            _, err = run.communicate(timeout=TIME)
            self.assertEqual(run.returncode, 137, err)
            self.assertIn(f"rank {which} failed first: it was killed by signal 9", err)
            self.assertFalse(any(map(alive, workers)))

    def test_a_run_that_all_ranks_give_up(self):
        outcome = self.fails(5, ["run", "t.toml", TWO, 'optimizer.type=sgd', "optimizer.learning_rate=1e30", "--json"], "all 2 ranks failed, for the same reason")
        self.assertEqual((outcome.records[-1]["exit"], outcome.records[-1]["rank"]), (5, None))

    def test_no_rank_outlives_the_launcher(self):
        """And none listens at the port at which they met."""
        for _ in range(50 if ALL else 5):
            shutil.rmtree(self.folder / "cut", ignore_errors=True)
            run = self.start_long("topology.data=4")
            workers = workers_of(run.pid)
            self.assertEqual(len(workers), 4)
            port = int(re.search(rb"PLAIT_RENDEZVOUS=127\.0\.0\.1:(\d+)", pathlib.Path(f"/proc/{workers[1]}/environ").read_bytes())[1])
            run.kill()
            run.wait()
            self.until(lambda: not any(map(alive, workers)))
            with self.assertRaises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), TIME)

    def test_the_secret_is_nobodys_business(self):
        run = self.start_long(TWO)
        for worker in workers_of(run.pid):
            words = pathlib.Path(f"/proc/{worker}/cmdline").read_bytes().split(b"\0")
            self.assertEqual(words[1:3], [b"run", b"t.toml"])
            variables = dict(pair.split("=", 1) for pair in pathlib.Path(f"/proc/{worker}/environ").read_text().split("\0") if pair)
            self.assertTrue(variables["PLAIT_SECRET_FD"].isdigit())
            secret = pathlib.Path(f"/proc/{worker}/fd/{variables['PLAIT_SECRET_FD']}").read_bytes()
            self.assertEqual(len(secret), 32)
            known = (pathlib.Path(f"/proc/{worker}/environ").read_bytes() + b"".join(words)
                     + b"".join(content(path) for path in (self.folder / "cut").rglob("*") if path.is_file()))
            for form in (secret, secret.hex().encode()):
                self.assertNotIn(form, known)
            # Only this machine is listened to.
            self.assertEqual(variables["PLAIT_RENDEZVOUS"].split(":")[0], "127.0.0.1")
        run.kill()

    def test_variables_of_a_launcher(self):
        """Those of torchrun are there, too, for scripts that know them."""
        run = self.start_long(TWO)
        for rank, worker in enumerate(workers_of(run.pid)):
            variables = dict(pair.split("=", 1) for pair in pathlib.Path(f"/proc/{worker}/environ").read_text().split("\0") if pair)
            expected = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
            self.assertEqual({name: variables[name] for name in expected}, expected)
            self.assertNotEqual(variables["MASTER_PORT"], variables["PLAIT_RENDEZVOUS"].split(":")[1])
        run.kill()


class Joined(Ranks):
    """Ranks with the variables of each launcher, set by this test."""

    def variables(self, rank, launcher):
        r, n = str(rank), "2"
        return {"torchrun": {"RANK": r, "WORLD_SIZE": n, "LOCAL_RANK": r, "LOCAL_WORLD_SIZE": n, "MASTER_ADDR": "localhost", "MASTER_PORT": "1",
                             "TORCHELASTIC_RUN_ID": "x", "TORCHELASTIC_ERROR_FILE": str(self.folder / r / "error.json")},
                "Slurm": {"SLURM_PROCID": r, "SLURM_LOCALID": r, "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "5", "SLURM_STEP_NUM_TASKS": n,
                          "SLURM_STEP_TASKS_PER_NODE": n, "SLURM_NODEID": "0"},
                "Open MPI": {"OMPI_COMM_WORLD_RANK": r, "OMPI_COMM_WORLD_SIZE": n, "OMPI_COMM_WORLD_LOCAL_RANK": r,
                             "OMPI_COMM_WORLD_LOCAL_SIZE": n, "PMIX_NAMESPACE": "7"},
                "MPICH": {"PMI_RANK": r, "PMI_SIZE": n, "MPI_LOCALRANKID": r, "MPI_LOCALNRANKS": n},
                "PLAIT": {"PLAIT_RANK": r, "PLAIT_WORLD_SIZE": n, "PLAIT_RENDEZVOUS": f"file:{self.folder}/own/m"}}[launcher]

    def run_both(self, launcher, *words, env=None):
        runs = [self.start("run", "t.toml", *words, env={**self.variables(rank, launcher), **(env or {})}) for rank in (0, 1)]
        ends = [run.communicate(timeout=TIME) for run in runs]
        return [run.returncode for run in runs], ends

    def test_each_launcher(self):
        self.expect(0, "run", "t.toml", "--run-dir", "one", "-q")
        for launcher in ("torchrun", "Slurm", "Open MPI", "MPICH", "PLAIT"):
            codes, ends = self.run_both(launcher, TWO, "--run-dir", "r-" + launcher)
            self.assertEqual(codes, [0, 0], ends)
            self.assertIn(f"2 ranks, launcher {launcher}: ", ends[0][1])
            self.assertIn("done after step 40", ends[0][0])
            self.assertEqual(ends[1], ("", ""))
            self.assert_same_training(self.losses("r-" + launcher), self.losses("one"))
        self.assertEqual(list((self.folder / "own").rglob("*rendezvous*")), [])  # nothing is left of it

    def test_a_secret_and_a_port(self):
        secret = self.folder / "secret"
        secret.write_bytes(os.urandom(32))
        secret.chmod(0o600)
        for port in range(29517, 29617):  # whichever is free
            env = {"PLAIT_RENDEZVOUS": f"127.0.0.1:{port}", "PLAIT_SECRET_FILE": str(secret)}
            codes, ends = self.run_both("PLAIT", TWO, "-q", "run.steps=2", env=env)
            if "in use" not in ends[0][1]:
                break
        self.assertEqual(codes, [0, 0], ends)

    def test_a_failure_is_told_to_torchrun(self):
        for rank in "01":
            (self.folder / rank).mkdir()
        codes, ends = self.run_both("torchrun", TWO, "batch.global=15")
        self.assertEqual(codes, [2, 2], ends)
        for rank in "01":
            told = json.loads((self.folder / rank / "error.json").read_text())["message"]
            self.assertIn("batch.global", told["message"])
            self.assertGreater(int(told["extraInfo"]["timestamp"]), 1700000000)
            self.assertNotIn("py_callstack", told["extraInfo"])  # torchrun would show that in place of the message
            self.assertIn("batch.global", ends[int(rank)][1])  # and to the user, by every rank
        self.assertEqual(ends[1][0], "")

    def test_one_rank_of_a_machine_lists_the_problems_of_a_file(self):
        wrong = ["model.layers[0].out=0", "batch.global=0"]
        for launcher in ("Open MPI", "torchrun"):
            codes, ends = self.run_both(launcher, TWO, *wrong)
            self.assertEqual(codes, [2, 2], ends)
            self.assertIn("[config] 2 problems in the experiment:\n", ends[0][1])
            for text in ("model.layers[0].out", "batch.global"):
                self.assertIn(text, ends[0][1])
            self.assertRegex(ends[1][1], r"^error: \[config\] 2 problems in the experiment, the "
                                         r"first: .{20,160}\n$")

    def test_the_problems_of_a_file_are_listed_before_another_rank_can_end(self):
        """mpirun kills all ranks when the first one has ended; rank 2 does not even come."""
        wrong = ["model.layers[0].out=0", "batch.global=0"]
        three = {"OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_LOCAL_SIZE": "3"}
        runs = [self.start("run", "t.toml", "topology.data=3", *wrong, env={**self.variables(rank, "Open MPI"), **three}) for rank in (0, 1)]
        self.assertEqual(runs[1].wait(TIME), 2)
        runs[0].kill()
        listed, short = [run.communicate(timeout=TIME)[1] for run in runs]
        self.assertIn("[config] 2 problems in the experiment:\n", listed)
        for text in ("model.layers[0].out", "batch.global"):
            self.assertIn(text, listed)
        self.assertIn("2 problems in the experiment, the first: ", short)

    def test_a_wrong_number_of_ranks_is_told_before_the_others_come(self):
        run = self.start("run", "t.toml", env={"RANK": "0", "WORLD_SIZE": "3", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "29511"})
        said = run.stderr.readline() + run.stderr.readline()
        time.sleep(0.5)
        self.assertIsNone(run.poll(), "it tells the others for 10 s")
        run.kill()
        self.assertIn("make 1 rank, but 3 were started", said)

    def test_threads_of_one_process_are_no_ranks(self):
        threads = 'topology.backend="threads"'
        said = ("backend 'threads' connects ranks that are threads of one process, as of a host "
                "program; plait starts 2 processes; leave topology.backend out")
        self.fails(2, ["run", "t.toml", TWO, threads], "topology.backend: " + said)
        self.fails(2, ["check", "t.toml", TWO, threads], "topology.backend: " + said)
        problem, = self.expect(2, "check", "t.toml", TWO, threads, "--json").records[0]["problems"]
        self.assertEqual((problem["path"], problem["file"]),
                         ("topology.backend", f"override '{threads}'"))
        self.expect(0, "check", "t.toml", threads)

    def test_a_rank_that_cannot_start_tells_the_others(self):
        for failing in (0, 1):
            runs = [self.start("run", "t.toml", TWO, "--run-dir", "r",
                               env={**self.variables(rank, "PLAIT"), **({"PLAIT__OPTIMIZER__TYPE": "nobody"} if rank == failing else {})})
                    for rank in (0, 1)]
            began = time.monotonic()
            ends = [run.communicate(timeout=TIME) for run in runs]
            self.assertLess(time.monotonic() - began, 30)  # topology.connect_timeout is 60 s
            self.assertEqual(runs[failing].returncode, 2, ends)
            self.assertIn("unknown optimizer 'nobody'", ends[failing][1])
            self.assertEqual(runs[1 - failing].returncode, 1, ends)
            self.assertIn(f"rank {failing} aborted: ", ends[1 - failing][1])
            self.assertIn("unknown optimizer 'nobody'", ends[1 - failing][1])
        self.assertFalse((self.folder / "r").exists())

    def test_another_number_of_ranks_than_the_topology(self):
        codes, ends = self.run_both("Slurm", "topology.data=4", "--run-dir", "r")
        self.assertEqual(codes, [2, 2], ends)
        for _, err in ends:
            self.assertIn("topology", err)
        self.assertFalse((self.folder / "r").exists())

    def test_variables_that_make_no_sense(self):
        self.fails(2, ["run", "t.toml"], "PLAIT_RANK is set, but PLAIT_WORLD_SIZE is not", env={"PLAIT_RANK": "0"})
        self.fails(2, ["run", "t.toml"], "LOCAL_RANK is '2', expected a whole number from 0 to 1",
                   env={**self.variables(0, "torchrun"), "LOCAL_RANK": "2"})
        env = {**self.variables(1, "Slurm"), "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_NODEID": "1", "SLURM_LOCALID": "0"}
        self.fails(2, ["run", "t.toml", TWO], "of the 2 ranks of this job only 1 are on this machine", "PLAIT_RENDEZVOUS=HOST:PORT", env=env)

    def test_a_variable_of_time_counts_more_than_the_topology(self):
        env = {**self.variables(0, "PLAIT"), "PLAIT_CONNECT_TIMEOUT": "0.3"}
        self.fails(1, ["run", "t.toml", TWO], "did not connect within 0.3 s; missing: rank 1 of 2", env=env)

    def test_env_shows_it(self):
        facts = self.expect(0, "env", "--json", env=self.variables(1, "Open MPI")).records[0]["job"]
        self.assertEqual((facts["source"], facts["rank"], facts["size"], facts["local_size"]), ("Open MPI", 1, 2, 2))
        self.assertTrue(facts["rendezvous"].startswith(f"file:{self.folder}/own/plait/openmpi-7-"))
        shown = self.expect(0, "env", env=self.variables(1, "MPICH")).out
        self.assertIn("MPICH: rank 1 of 2 (1 of 2 on this machine), rendezvous at file:", shown)
        self.assertIn("none, single rank: no launcher has set its variables", self.expect(0, "env").out)
        self.assertIn("PLAIT_WORLD_SIZE is not; set both", self.expect(0, "env", env={"PLAIT_RANK": "0"}).out)
        batch = self.expect(0, "env", env={"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}).out
        self.assertIn("a batch script, not a task of srun", batch)


class Launchers(Ranks):
    """The real ones, where they are installed."""

    def check(self, *command):
        self.expect(0, "run", "t.toml", "--run-dir", "one", "-q")
        done = subprocess.run([*command, PLAIT, "run", "t.toml", TWO, "--run-dir", "r"], cwd=self.folder, env=self.environment(),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=2 * TIME)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("done after step 40"), 1)
        self.assertEqual((done.stdout + done.stderr).count("2 ranks, launcher "), 1)
        self.assert_same_training(self.losses("r"), self.losses("one"))
        self.assertEqual(list((self.folder / "own").rglob("*rendezvous*")), [])

    @unittest.skipUnless(TORCHRUN, "torchrun is neither installed nor named by PLAIT_TORCHRUN")
    def test_torchrun(self):
        self.check(TORCHRUN, "--standalone", "--nproc-per-node", "2", "--no-python")

    @unittest.skipUnless(shutil.which("mpirun.openmpi"), "Open MPI is not installed")
    def test_open_mpi(self):
        self.check("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "2")

    @unittest.skipUnless(shutil.which("mpirun.mpich"), "MPICH is not installed")
    def test_mpich(self):
        self.check("mpirun.mpich", "-n", "2")


if __name__ == "__main__":
    unittest.main()
