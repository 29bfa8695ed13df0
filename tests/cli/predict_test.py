"""plait predict: what a checkpoint makes of a dataset, in every format, on every grid."""

import ast
import csv
import ctypes
import fcntl
import io
import json
import math
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest
import zipfile

from support import PLAIT, TIME, TINY, RankCase

SPECIES = ("cat", 'do"g, big', "fox")
ANIMALS = """\
[run]
name = "animals"
steps = 30
[batch]
global = 16
[data.train]
type = "csv"
path = "animals.csv"
target = ["species"]
target_type = "class"
[data.eval]
type = "csv"
path = "animals.csv"
target = ["species"]
target_type = "class"
[model]
layers = [{type = "linear", out = 16}, {type = "relu"}, {type = "linear", out = 3}]
[loss]
type = "cross_entropy"
[[metrics]]
type = "accuracy"
[optimizer]
type = "adamw"
learning_rate = 0.03
"""


def read_npy(data):
    """(shape, values), by the format's description alone."""
    assert data[:8] == b"\x93NUMPY\x01\x00"
    (size,) = struct.unpack_from("<H", data, 8)
    assert (10 + size) % 64 == 0 and data[9 + size:10 + size] == b"\n"
    header = ast.literal_eval(data[10:10 + size].decode())
    assert header["descr"] == "<f4" and header["fortran_order"] is False
    n = math.prod(header["shape"])
    return header["shape"], struct.unpack(f"<{n}f", data[10 + size:])


def read_safetensors(data):
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])
    metadata, tensors = header.pop("__metadata__", {}), {}
    for name, entry in header.items():
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        tensors[name] = tuple(entry["shape"]), struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
    return tensors, metadata


def f32(text):
    return struct.unpack("<f", struct.pack("<f", float(text)))[0]


class Predict(RankCase):
    def setUp(self):
        super().setUp()
        self.write("t.toml", TINY.replace("out = 16}", 'out = 16, as = "hidden"}'))
        self.expect(0, "run", "t.toml", "--run-dir", "one", "-q", "run.steps=5", "data.eval.samples=101")
        self.before = self.names()

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())

    def lines(self, *words):
        """What is written to standard output, each a sample."""
        return [json.loads(line) for line in self.expect(0, "predict", *words).out.splitlines()]

    def test_every_format_holds_the_same_numbers(self):
        both = ("one", "--output", "output", "--output", "hidden")
        done = self.expect(0, "predict", *both, "--yes", "--to", "p.npz", "--json")
        self.assertEqual(done.records, [{"schema": 1, "file": "p.npz", "format": "npz", "dataset": "eval", "samples": 101, "step": 5,
                                         "outputs": [{"name": "output", "dtype": "f32", "shape": [3]},
                                                     {"name": "hidden", "dtype": "f32", "shape": [16]}]}])
        with zipfile.ZipFile(self.folder / "p.npz") as file:
            self.assertIsNone(file.testzip())
            arrays = {name.removesuffix(".npy"): read_npy(file.read(name)) for name in file.namelist()}
        self.assertEqual({name: shape for name, (shape, _) in arrays.items()}, {"output": (101, 3), "hidden": (101, 16)})
        self.assertEqual(len(set(arrays["output"][1])), 303)  # all samples, and no two alike
        self.expect(0, "predict", *both, "--yes", "--to", "p.safetensors")
        self.assertEqual(read_safetensors((self.folder / "p.safetensors").read_bytes())[0], arrays)
        self.expect(0, "predict", "one", "--yes", "--to", "p.npy")
        self.assertEqual(read_npy((self.folder / "p.npy").read_bytes()), arrays["output"])
        self.expect(0, "predict", *both, "--yes", "--to", "p.csv")
        rows = list(csv.reader(io.StringIO((self.folder / "p.csv").read_text())))
        self.assertEqual(rows[0], ["sample", "output.0", "output.1", "output.2", *(f"hidden.{i}" for i in range(16))])
        self.assertEqual([row[0] for row in rows[1:]], [str(i) for i in range(101)])
        self.assertEqual([f32(cell) for row in rows[1:] for cell in row[1:4]], list(arrays["output"][1]))
        self.assertEqual([f32(cell) for row in rows[1:] for cell in row[4:]], list(arrays["hidden"][1]))
        lines = self.lines(*both)
        self.assertEqual([line["sample"] for line in lines], list(range(101)))
        self.assertEqual([f32(v) for line in lines for v in line["output"]], list(arrays["output"][1]))
        self.expect(0, "predict", *both, "--to", "out", "--format", "jsonl")
        self.assertEqual([json.loads(line) for line in (self.folder / "out").read_text().splitlines()], lines)
        self.assertEqual(self.names(), sorted([*self.before, "p.npz", "p.npy", "p.safetensors", "p.csv", "out"]))

    def test_numbers_do_not_depend_on_ranks(self):
        expected = self.lines("one")
        column = "model.layers[0].parallel=column"
        for words in ([column, "topology.data=2"], [column, "topology.data=2", "topology.tensor=2"],
                      ["topology.pipeline=2"], ["topology.pipeline=2", "topology.data=2", "batch.eval=4"]):
            with self.subTest(words):
                self.expect(0, "predict", "one", *words, "--yes", "--to", "p.jsonl")
                found = [json.loads(line) for line in (self.folder / "p.jsonl").read_text().splitlines()]
                self.assertEqual([line["sample"] for line in found], list(range(101)))
                for a, b in zip(found, expected, strict=True):
                    for x, y in zip(a["output"], b["output"], strict=True):
                        self.assertAlmostEqual(x, y, delta=1e-5)
        self.assertEqual(self.lines("one", "topology.data=2", "--one-rank"), expected)
        self.assertEqual(len(self.lines("one", "--dataset", "train", "data.train.limit=7")), 7)
        self.assertEqual(self.names(), sorted([*self.before, "p.jsonl"]))

    def test_classes_have_their_texts(self):
        draw = random.Random(1)
        rows = []
        for _ in range(90):
            k = draw.randrange(3)
            rows.append([draw.gauss(2 * k, 0.8), draw.gauss(-k, 0.8), SPECIES[k]])
        with (self.folder / "animals.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["length", "weight", "species"], *rows])
        self.write("animals.toml", ANIMALS)
        self.expect(0, "run", "animals.toml", "--run-dir", "animals", "-q")
        accuracy = self.expect(0, "eval", "animals", "--json").records[-1]["metrics"]["accuracy"]
        self.expect(0, "predict", "animals", "--yes", "--to", "p.csv")
        with (self.folder / "p.csv").open(newline="") as file:
            head, *found = csv.reader(file)
        self.assertEqual(head, ["sample", "output.class", *(f"output.{name}" for name in SPECIES)])
        right = [line[1] == row[2] for line, row in zip(found, rows, strict=True)]
        self.assertAlmostEqual(sum(right) / 90, accuracy, places=6)
        self.assertGreater(accuracy, 0.5)
        self.assertEqual([line["output.class"] for line in self.lines("animals")], [line[1] for line in found])
        self.expect(0, "predict", "animals", "--yes", "--to", "p.safetensors")
        _, metadata = read_safetensors((self.folder / "p.safetensors").read_bytes())
        self.assertEqual(json.loads(metadata["classes"]), {"output": list(SPECIES)})
        # A table without labels, and one without what the model reads.
        with (self.folder / "new.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["length", "weight"], *(row[:2] for row in rows[:5])])
        self.write("new.toml", 'extends = "animals.toml"\n[data.new]\ntype = "csv"\npath = "new.csv"\n')
        words = ("new.toml", "--checkpoint", "animals", "--dataset", "new")
        self.assertEqual([line["output"] for line in self.lines(*words)], [line["output"] for line in self.lines("animals")[:5]])
        self.assertEqual([line["output.class"] for line in self.lines(*words)],
                         [line[1] for line in found[:5]])
        self.expect(0, "predict", *words, "--yes", "--to", "new-p.csv")
        with (self.folder / "new-p.csv").open(newline="") as file:
            self.assertEqual(list(csv.reader(file)), [head, *found[:5]])
        self.fails(2, ("predict", *words, 'data.new={type = "synthetic", samples = 5, shape = [2], classes = 3}'),
                   "[data.new] has no field 'input', which the model reads; it has: x, label")

    def test_what_is_refused(self):
        for words, *texts in ((["--yes", "--to", "p.parquet"], "'p.parquet' names no format; known are npy, npz, safetensors, csv, jsonl"),
                              (["--yes", "--to", "p.npy", "--output", "output", "--output", "hidden"], "holds one value, 2 are asked for"),
                              (["--output", "outptu"], "no output 'outptu'; did you mean 'output'?"),
                              (["--format", "npz"], "npz cannot be written to '-'"),
                              (["--to", "none/p.csv"], "cannot write 'none/p.csv'"),
                              (["--dataset", "tset"], "there is no [data.tset]", "there are: "),
                              (["topology.data=2"], "2 replicas", "--one-rank"),
                              (["topology.data=2", "--to", "/dev/null", "--format", "csv"],
                               "/dev/null has no place", "--one-rank"),
                              (["--output", "hidden", "evaluate.outputs=none"], "evaluate.outputs=all"),
                              (["--dataset", "train", "data.train.normalize.x.divide=2", "data.eval.normalize.x.divide=4"],
                               "[data.train] is normalised differently from [data.eval]")):
            with self.subTest(words):
                done = self.plait("predict", "one", *words)
                self.assertIn(done.code, (2, 3), done.err)
                for text in texts:
                    self.assertIn(text, done.err)
        self.fails(2, ("predict", "t.toml"), "plait predict needs --checkpoint DIR")
        self.write("p.csv", "old")
        self.fails(2, ("predict", "one", "--yes", "--to", "p.csv", "--output", "nothing"), "no output 'nothing'")
        self.assertEqual((self.folder / "p.csv").read_text(), "old")
        self.assertEqual(self.names(), sorted([*self.before, "p.csv"]))

    def test_a_file_that_cannot_be_replaced(self):
        """It may be written, and its folder may not: it gets a copy of what is complete."""
        expected = self.expect(0, "predict", "one").out
        (self.folder / "shut").mkdir()
        path = self.folder / "shut" / "p.jsonl"
        path.write_text("old")
        path.parent.chmod(0o555)

        def without_root():  # root writes everywhere, unless it has no CAP_DAC_OVERRIDE
            ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)

        def predict(to):
            return subprocess.run([PLAIT, "predict", "one", "--yes", "--to", to], cwd=self.folder,
                                  env=self.environment(), preexec_fn=without_root,
                                  capture_output=True, text=True, timeout=TIME)

        try:
            done = predict("shut/other.jsonl")
            self.assertIn("cannot write 'shut/other.jsonl': Permission denied", done.stderr)
            done = predict("shut/p.jsonl")
            self.assertEqual((done.returncode, path.read_text()), (0, expected), done.stderr)
            said = self.stopped_elsewhere(without_root)
            self.assertEqual(said.count("stopped on request; nothing was written"), 1, said)
            self.assertEqual(path.read_text(), expected)
        finally:
            path.parent.chmod(0o755)
        self.assertEqual([one.name for one in path.parent.iterdir()], ["p.jsonl"])

    def stopped_elsewhere(self, without_root):
        """Two ranks of one replica, whose file lies in no folder that a later command finds."""
        words = [PLAIT, "predict", "one", "--dataset", "train", "data.train.samples=4000000",
                 "topology.tensor=2", "--yes", "--to", "shut/p.jsonl"]
        with tempfile.TemporaryDirectory() as elsewhere:
            with subprocess.Popen(words, cwd=self.folder, preexec_fn=without_root, text=True,
                                  env=self.environment() | {"TMPDIR": elsewhere},
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:
                until = time.monotonic() + TIME
                while (not any(file.stat().st_size for file in pathlib.Path(elsewhere).glob("p.*"))
                       and run.poll() is None and time.monotonic() < until):
                    time.sleep(0.002)
                run.send_signal(signal.SIGINT)
                said = run.stderr.read()
        self.assertEqual(run.returncode, 4, said)
        return said

    def test_lines_that_were_written_before_a_signal(self):
        words = [PLAIT, "predict", "one", "--dataset", "train", "data.train.samples=1000000"]
        with subprocess.Popen(words, cwd=self.folder, env=self.environment(), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
            first = run.stdout.readline()
            run.send_signal(signal.SIGINT)
            out, err = run.stdout.read(), run.stderr.read()
        self.assertEqual(run.returncode, 4, err)
        lines = [json.loads(line) for line in (first + out).splitlines()]
        self.assertIn(f"stopped on request; {len(lines)} of 1000000 samples were written", err)

    def test_a_file_that_is_there(self):
        self.write("p.csv", "old")
        self.fails(2, ("predict", "one", "--to", "p.csv"), "[predict] 'p.csv' exists; choose another name, or replace it with --yes")
        self.assertEqual((self.folder / "p.csv").read_text(), "old")
        self.expect(0, "predict", "one", "--to", "p.csv", "--yes")
        self.assertNotEqual((self.folder / "p.csv").read_text(), "old")

    def test_a_closed_pipe_and_a_full_disk(self):
        done = subprocess.run(f"{PLAIT} predict one --dataset train | head -n1", shell=True, cwd=self.folder, capture_output=True,
                              env=self.environment(), timeout=TIME)
        self.assertEqual(json.loads(done.stdout)["sample"], 0)
        for words in ("", "topology.tensor=2 -q"):
            done = subprocess.run(["bash", "-c", f"{PLAIT} predict one --dataset train data.train.samples=20000 {words} | head -n1; echo ${{PIPESTATUS[0]}}"],
                                  cwd=self.folder, capture_output=True, text=True, env=self.environment(), timeout=TIME)
            self.assertEqual(done.stdout.splitlines()[1:], ["0"], done.stderr)
            self.assertNotIn("error", done.stderr)
        self.fails(3, ("predict", "one", "--to", "/dev/full", "--format", "csv"), "cannot write '/dev/full': No space left")

    def progress(self, path):
        try:
            return json.loads((self.folder / f"{path}.partial.json").read_text())["samples"]
        except (OSError, ValueError):  # not yet, or not yet whole
            return 0

    def interrupt(self, path, *words, by, at=1, also=()):
        """A command that gets a signal when so many samples are in its file, and one in each of the
        parts `also`; what it says."""
        with subprocess.Popen([PLAIT, "predict", "one", "--yes", "--to", path, *words], cwd=self.folder,
                              env=self.environment(), text=True, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as run:
            until = time.monotonic() + TIME
            while ((self.progress(path) < at or not all(map(self.progress, also)))
                   and run.poll() is None and time.monotonic() < until):
                time.sleep(0.002)
            run.send_signal(by)
            said = run.stderr.read()
        self.assertEqual(run.returncode, 4 if by == signal.SIGINT else -by, said)
        return said

    def test_an_interrupted_file_is_continued(self):
        n = 200000
        words = ["--dataset", "train", f"data.train.samples={n}",
                 "--output", "output", "--output", "hidden"]
        for end, by in (("csv", signal.SIGKILL), ("jsonl", signal.SIGINT), ("npz", signal.SIGKILL),
                        ("safetensors", signal.SIGINT), ("npy", signal.SIGKILL)):
            own = words[:-2] if end == "npy" else words
            with self.subTest(end):
                self.expect(0, "predict", "one", "--yes", "--to", f"whole.{end}", *own)
                said = self.interrupt(f"p.{end}", *own, by=by)
                left = self.progress(f"p.{end}")
                self.assertGreater(left, 0)
                self.assertLess(left, n)
                self.assertFalse((self.folder / f"p.{end}").exists())
                if by == signal.SIGINT:
                    self.assertIn(f"stopped on request; {left} of {n} samples are kept in p.{end}."
                                  "partial; the same command with --resume continues", said)
                    self.interrupt(f"p.{end}", *own, "--resume", by=by, at=left + 1)  # and again
                    self.assertGreater(self.progress(f"p.{end}"), left)
                    left = self.progress(f"p.{end}")
                done = self.expect(0, "predict", "one", "--yes", "--to", f"p.{end}", *own, "--resume")
                self.assertIn(f"continues behind sample {left} of {n}, which p.{end}.partial has",
                              done.err)
                self.assertEqual((self.folder / f"p.{end}").read_bytes(),
                                 (self.folder / f"whole.{end}").read_bytes())
                (self.folder / f"p.{end}").unlink()
                (self.folder / f"whole.{end}").unlink()
                self.assertEqual(self.names(), self.before)

    def test_replicas_are_continued(self):
        n = 120000
        words = ["--dataset", "train", f"data.train.samples={n}", "topology.data=2"]
        self.expect(0, "predict", "one", "--yes", "--to", "whole.csv", *words)
        said = self.interrupt("p.csv", *words, by=signal.SIGINT, also=["p.csv.rank-1"])
        self.assertEqual(said.count("what was predicted is kept in p.csv.partial and beside it; "
                                    "the same command with --resume continues"), 1, said)
        self.assertIn("p.csv.rank-1.partial.json", self.names())
        self.fails(2, ("predict", "one", "--yes", "--to", "p.csv", *words[:-1], "--resume"),
                   "replicas was 2, is now 1")
        self.expect(0, "predict", "one", "--yes", "--to", "p.csv", *words, "--resume")
        self.assertEqual((self.folder / "p.csv").read_bytes(),
                         (self.folder / "whole.csv").read_bytes())
        self.assertEqual(self.names(), sorted([*self.before, "p.csv", "whole.csv"]))

    def test_a_run_may_take_the_states_meanwhile(self):
        words = ["--dataset", "train", "data.train.samples=120000"]
        self.expect(0, "predict", "one", "--yes", "--to", "whole.csv", *words)
        self.interrupt("p.csv", *words, by=signal.SIGINT)
        self.expect(0, "checkpoint", "convert", "one", "bare", "--no-optimizer")
        done = self.expect(0, "predict", "one", "--yes", "--to", "p.csv", "--checkpoint", "bare", *words, "--resume")
        self.assertIn("continues behind sample", done.err)
        self.assertEqual((self.folder / "p.csv").read_bytes(), (self.folder / "whole.csv").read_bytes())

    def test_what_is_not_continued(self):
        words = ["--dataset", "train", "data.train.samples=400000"]
        self.interrupt("p.csv", *words, by=signal.SIGINT)
        left = self.progress("p.csv")
        for changed, text in ((["--output", "hidden"], 'was "output", is now "hidden"'),
                              (["data.train.samples=300000"], "dataset/"),
                              (["batch.eval=8"], "batch was 16, is now 8"),
                              (["data.train.seed=7"], "dataset/")):
            with self.subTest(changed):
                self.fails(2, ("predict", "one", "--yes", "--to", "p.csv", *words, *changed, "--resume"),
                           "p.csv.partial has predictions of something else: ", text,
                           "leave out --resume to begin anew")
        self.assertEqual(self.progress("p.csv"), left)
        with (self.folder / "p.csv.partial").open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.fails(2, ("predict", "one", "--yes", "--to", "p.csv", *words),
                       "another command writes 'p.csv'")
        self.fails(2, ("predict", "one", "--resume"),
                   "--resume continues a file, and standard output is none")
        # Without --resume it begins anew, and with it where nothing is left.
        self.expect(0, "predict", "one", "--yes", "--to", "p.csv", "data.eval.samples=101")
        first = (self.folder / "p.csv").read_bytes()
        self.expect(0, "predict", "one", "--yes", "--to", "p.csv", "data.eval.samples=101", "--resume")
        self.assertEqual((self.folder / "p.csv").read_bytes(), first)
        self.assertEqual(self.names(), sorted([*self.before, "p.csv"]))

    def test_a_mounted_file_that_cannot_be_written(self):
        """It is refused before anything is predicted, not when all is."""
        inside = ["unshare", "--mount"]
        if os.geteuid() != 0:
            inside += ["--user", "--map-root-user"]
        if not shutil.which("unshare") or subprocess.run([*inside, "true"]).returncode:
            self.skipTest("this system allows no mount namespace")
        self.write("p.csv", "old")
        script = """mount --bind p.csv p.csv && mount -o remount,bind,ro p.csv || exit 99
            "$0" predict one --dataset train data.train.samples=1000000 --yes --to p.csv"""
        done = subprocess.run([*inside, "--", "sh", "-c", script, PLAIT], cwd=self.folder,
                              env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=TIME)
        if done.returncode == 99:
            self.skipTest(f"this system mounts no file: {done.stderr}")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("cannot write 'p.csv': Read-only file system", done.stderr)
        self.assertEqual((self.folder / "p.csv").read_text(), "old")


if __name__ == "__main__":
    unittest.main()
