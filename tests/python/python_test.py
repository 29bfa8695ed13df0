"""Training from Python through the package of bindings/python. NumPy and PyTorch are used where they are installed."""

import array
import gc
import importlib.util
import logging
import math
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import types
import unittest
import weakref
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bindings/python"))
import plait
from plait import tensors, toml

TIME = 120  # seconds for a process
TINY = {
    "run": {"name": "tiny", "steps": 40},
    "batch": {"global": 16},
    "data": {"train": {"type": "synthetic", "samples": 200, "shape": [8], "classes": 3},
             "eval": {"type": "synthetic", "samples": 100, "shape": [8], "classes": 3, "first": 200}},
    "model": {"layers": [{"type": "linear", "out": 16}, {"type": "relu"}, {"type": "linear", "out": 3}]},
    "loss": {"type": "cross_entropy"},
    "metrics": [{"type": "accuracy", "train": True}],
    "optimizer": {"type": "adamw", "learning_rate": 0.01},
}
WEIGHT = "model.linear1.weight"


def batch(n=16, seed=1):
    """(x, label) of n random samples."""
    draw = random.Random(seed)
    return shaped([draw.gauss(0, 1) for _ in range(8 * n)], n, 8), array.array("i", [draw.randrange(3) for _ in range(n)])


def shaped(numbers, *shape):
    return memoryview(array.array("f", numbers)).cast("B").cast("f", shape)


class Case(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="plait-python-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.lines = []
        self.engine = plait.Engine(log=lambda level, text: self.lines.append((level, text)))

    def session(self, overrides=(), source=TINY, **options):
        options = {"files": False, **options}
        return self.engine.experiment(source, overrides).plan().session(**options)

    def script(self, text, env=None):
        """A process of this interpreter, with the package in its path."""
        return subprocess.Popen([sys.executable, "-B", "-c", text], env={**os.environ, "PYTHONPATH": str(ROOT / "bindings/python"), **(env or {})},
                                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Training(Case):
    def test_a_run_and_its_steps_one_by_one_are_the_same(self):
        whole = []
        last = self.session().run(lambda step: whole.append(step.loss))
        with self.session() as session:
            steps = list(session.train())
        self.assertEqual([step.loss for step in steps], whole)
        self.assertEqual((last.step, last.finished, len(whole)), (40, True, 40))
        self.assertLess(whole[-1], whole[0])
        self.assertEqual(last.samples, 3 * 200 + 16)  # the last batch of an epoch is short
        self.assertIn("accuracy", last.metrics)

    def test_the_session_can_be_used_between_two_steps(self):
        session, found, seen = self.session(), [], []
        for step in session.train():
            if step.step % 10 == 0:
                found.append(session.evaluate()["metrics"]["accuracy"])
                seen.append(session.read(WEIGHT).tolist()[0][0])
                with self.assertRaisesRegex(plait.StateError, "from inside a callback"):
                    session.step()
        self.assertEqual(len(found), 4)
        self.assertEqual(len(set(seen)), 4)
        self.assertEqual(session.evaluate()["metrics"]["accuracy"], found[-1])

    def test_a_break_saves_and_the_next_session_continues(self):
        run = self.folder / "run"
        for step in self.session(files=True, run_dir=run).train():
            if step.step == 7:
                break
        self.assertEqual([path.name[:5] for path in (run / "ckpt").glob("step-*")], ["step-"])
        gc.collect()
        steps = [step.step for step in self.session(files=True, run_dir=run, resume="must").train()]
        self.assertEqual(steps[-1], 40)
        self.assertIn(steps[0], (8, 9))  # a step may have been in flight
        straight = self.session()
        straight.run()
        resumed = self.session(files=True, run_dir=run, resume="must")
        self.assertEqual(resumed.read(WEIGHT).tolist(), straight.read(WEIGHT).tolist())

    def test_an_exception_ends_a_run_and_is_raised(self):
        class Own(Exception):
            pass

        def fails(step):
            if step.step == 3:
                raise Own
        session = self.session()
        with self.assertRaises(Own):
            session.run(fails)
        with self.assertRaises(Own):
            for step in session.train():
                fails(types.SimpleNamespace(step=3))
        with self.assertRaises(plait.Cancelled):
            session.run(lambda step: True)
        self.assertEqual(session.run().step, 40)

    def test_the_error_of_a_run_reaches_the_loop(self):
        with self.assertRaisesRegex(plait.NumericError, "in a row"):
            for _ in self.session({"optimizer.type": "sgd", "optimizer.learning_rate": 1e30, "guard.nonfinite_limit": 3}).train():
                pass

    def test_a_run_inside_of_a_run(self):
        session, seen = self.session(), []
        for step in session.train():
            seen.append(step.step)
            with self.assertRaisesRegex(plait.StateError, "inside of a run"):
                next(session.train())
            with self.assertRaisesRegex(plait.StateError, "inside of a run"):
                session._do(session.run)
            session.evaluate()
        self.assertEqual(seen, list(range(1, 41)))
        session, seen = self.session(), []

        def nested(step):
            seen.append(step.step)
            with self.assertRaisesRegex(plait.StateError, "inside of a run"):
                session.run()
        session.run(nested)
        self.assertEqual(seen, list(range(1, 41)))

    def test_a_break_leaves_no_request_to_stop(self):
        for last in (1, 5, 38, 39, 40):
            session = self.session()
            for step in session.train():
                if step.step == last:
                    break
            self.assertEqual(session.evaluate()["samples"], 100)
            self.assertEqual(session.run().step, 40)

    def test_another_thread_is_refused_and_never_waits(self):
        session, ended, found = self.session({"run.steps": 2000}), threading.Event(), set()

        def use():
            while not ended.is_set():
                try:
                    session.read(WEIGHT)
                    found.add("read")
                except plait.StateError:
                    found.add("refused")
        other = threading.Thread(target=use, daemon=True)
        for step in session.train():
            if step.step == 1:
                other.start()
            try:
                session.evaluate()
            except plait.StateError:
                found.add("refused")
            if step.step == 100:
                break
        ended.set()
        other.join(TIME)
        self.assertFalse(other.is_alive())
        self.assertTrue(found)

    def test_an_interrupt_saves(self):
        for how in ("session.run(begun)", "[begun(step) for step in session.train()]"):
            text = f"""
import plait
def begun(step):
    if step.step == 5: print("begun", flush=True)
session = plait.Engine().experiment({TINY!r}, {{"run.steps": 100000000}}).plan().session("r")
try:
    {how}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
            with self.script(text) as run:
                self.assertEqual(run.stdout.readline(), "begun\n")
                run.send_signal(signal.SIGINT)
                out, err = run.communicate(timeout=TIME)
            self.assertEqual((run.returncode, out), (0, "interrupted\n"), err)
            self.assertEqual(len(list((self.folder / "r/ckpt").glob("step-*"))), 1)
            subprocess.run(["rm", "-r", str(self.folder / "r")], check=True)

    def test_a_loop_that_is_left_open_at_the_end_of_the_interpreter(self):
        text = f"""
import plait
session = plait.Engine().experiment({TINY!r}).plan().session(files=False)
steps = session.train()
print(next(steps).step)
"""
        with self.script(text) as run:
            out, err = run.communicate(timeout=TIME)
        self.assertEqual((run.returncode, out, err), (0, "1\n", ""))

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_a_tensor_that_outlives_the_package(self):
        text = f"""
import plait, torch
session = plait.Engine().experiment({TINY!r}).plan().session(files=False)
torch.nn.cache = [torch.from_dlpack(session.view("{WEIGHT}")), torch.from_dlpack(session.read("{WEIGHT}"))]
"""
        with self.script(text) as run:
            out, err = run.communicate(timeout=TIME)
        self.assertEqual((run.returncode, err), (0, ""))

    def test_own_batches(self):
        session, (x, label) = self.session(), batch()
        losses = [session.step({"x": x, "label": label}).loss for _ in range(60)]
        self.assertLess(losses[-1], 0.7 * losses[0])
        scores = session.predict({"x": x}).tolist()
        right = sum(row.index(max(row)) == expected for row, expected in zip(scores, label))
        self.assertGreaterEqual(right, 12)

    def test_two_ranks_train_together(self):
        losses = []
        self.session().run(lambda step: losses.append(step.loss))
        text = f"""
import plait
session = plait.Engine().experiment({TINY!r}, {{"topology.data": 2}}).plan().session(files=False)
print([step.loss for step in session.train()])
"""
        env = {"PLAIT_WORLD_SIZE": "2", "PLAIT_RENDEZVOUS": f"file:{self.folder}/meet"}
        ranks = [self.script(text, {**env, "PLAIT_RANK": str(rank)}) for rank in range(2)]
        for run in ranks:
            out, err = run.communicate(timeout=TIME)
            self.assertEqual(run.returncode, 0, err)
            for a, b in zip(eval(out), losses):
                self.assertAlmostEqual(a, b, delta=1e-5)


class Parameters(Case):
    def test_read_write_view_and_checkpoints(self):
        session = self.session()
        self.assertEqual(session.parameters()[WEIGHT], {"shape": [16, 8], "dtype": "f32", "group": "model.default"})
        session.write(WEIGHT, shaped(range(128), 16, 8))
        self.assertEqual(session.read(WEIGHT).tolist()[1], [float(i) for i in range(8, 16)])
        view = session.view(WEIGHT)
        self.assertEqual((view.dtype, view.shape, view.buffer()[2, 3]), ("f32", (16, 8), 19.0))
        view.buffer()[2, 3] = 5.0
        self.assertEqual(session.read(WEIGHT).tolist()[2][3], 5.0)
        session.save(self.folder / "kept")
        session.step()
        self.assertNotEqual(session.read(WEIGHT).tolist()[2][3], 5.0)
        session.load(self.folder / "kept", parameters_only=True)
        self.assertEqual(session.read(WEIGHT).tolist()[2][3], 5.0)
        written = self.engine.checkpoints.export(self.folder / "kept", self.folder / "w.safetensors")
        self.assertEqual((written["tensors"], (self.folder / "w.safetensors").exists()), (4, True))
        with self.assertRaisesRegex(ValueError, r"write of f32 \[2, 8\] to '.*', expected f32 \[16, 8\]"):
            session.write(WEIGHT, shaped(range(16), 2, 8))
        with self.assertRaisesRegex(plait.NotFoundError, "did you mean"):
            session.read("model.linear1.weigth")

    def test_a_view_outlives_the_session(self):
        session = self.session()
        view = session.view(WEIGHT)
        expected = session.read(WEIGHT).tolist()
        session.close()
        del session
        gc.collect()
        self.assertEqual(view.tolist(), expected)

    def test_16_bits(self):
        value = tensors.Tensor("bf16", (2, 2))
        for i, bits in enumerate((0x3F80, 0xC000, 0, 0x7F80)):
            value.buffer()[i // 2, i % 2] = bits
        self.assertEqual(value.tolist(), [[1.0, -2.0], [0.0, math.inf]])
        with self.assertRaisesRegex(AttributeError, "NumPy has no bf16"):
            value.__array_interface__
        self.assertFalse(hasattr(value, "__array_interface__"))

    def test_what_nobody_consumes_is_freed(self):
        tensor = tensors.Tensor("f32", (2, 3))
        for version in (None, (1, 0)):
            capsule = tensor.__dlpack__(max_version=version)
            self.assertEqual(len(tensors._exports), 1)
            del capsule
            self.assertEqual(len(tensors._exports), 0)
        with self.assertRaises(BufferError):
            tensors.Tensor("f32", (2,), read_only=True).__dlpack__()
        self.assertEqual([tensors.Tensor("f32", shape).tolist() for shape in ((2, 0, 3), (0, 2), (2, 0))], [[[], []], [], [[], []]])
        self.assertEqual((tensors.Tensor("f32", ()).tolist(), tensors.Tensor("i32", (1, 1)).item()), (0.0, 0))
        with self.assertRaisesRegex(TypeError, "lies on a device"):
            tensors.Tensor("f32", (1,), 16, device=(2, 0)).item()
        gone = weakref.ref(tensor)
        buffer = tensor.buffer()
        del tensor
        self.assertIsNotNone(gone())
        del buffer
        gc.collect()
        self.assertIsNone(gone())

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "NumPy is not installed")
    def test_numpy(self):
        import numpy
        session = self.session()
        x = numpy.random.default_rng(1).normal(size=(16, 8)).astype(numpy.float32)
        expected = numpy.asarray(session.predict({"x": x}))
        self.assertEqual((expected.dtype, expected.shape), (numpy.float32, (16, 3)))
        for other in (numpy.asfortranarray(x), numpy.repeat(x, 2, axis=0)[::2]):
            numpy.testing.assert_array_equal(numpy.asarray(session.predict({"x": other})), expected)
        shown = numpy.asarray(session.view(WEIGHT))
        shown[:] = 0
        self.assertEqual(numpy.abs(numpy.from_dlpack(session.read(WEIGHT))).max(), 0)
        self.assertEqual(toml.value(numpy.float32(0.5)), "0.5")
        half = tensors.Tensor("bf16", (2, 1))
        half.buffer()[0, 0], half.buffer()[1, 0] = 0x3F80, 0xC000
        numpy.testing.assert_array_equal(numpy.asarray(half), numpy.array([[1], [-2]], numpy.float32))
        for odd in (numpy.zeros((16, 8), ">f4"), numpy.zeros((16, 8), numpy.uint16)):
            with self.assertRaisesRegex(TypeError, "'x' has elements of the format"):
                session.predict({"x": odd})

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_torch(self):
        import torch
        session = self.session()
        x = torch.randn(16, 8)
        found = torch.from_dlpack(session.predict({"x": x}))
        self.assertEqual((found.dtype, found.shape), (torch.float32, (16, 3)))
        self.assertEqual(torch.from_dlpack(tensors.Tensor("bf16", (2,))).dtype, torch.bfloat16)
        turned = x.T.contiguous().T  # of the same numbers, not row-major
        self.assertEqual(session.predict({"x": turned}).tolist(), found.tolist())
        session.write(WEIGHT, torch.arange(128.0).reshape(8, 16).T)
        self.assertEqual(session.read(WEIGHT).tolist(), torch.arange(128.0).reshape(8, 16).T.tolist())
        session.write(WEIGHT, torch.ones(1).expand(16, 8))
        self.assertEqual(session.read(WEIGHT).tolist(), [[1.0] * 8] * 16)
        shown = session.view(WEIGHT, read_only=True)
        self.assertEqual(torch.from_dlpack(shown.copy()).sum(), 128)
        with self.assertRaisesRegex(ValueError, r"write of i64 \[16, 8\]"):
            session.write(WEIGHT, torch.ones(16, 8, dtype=torch.int64))
        weight = torch.from_dlpack(session.view(WEIGHT))
        weight.zero_()
        self.assertEqual(session.read(WEIGHT).tolist(), weight.tolist())
        del weight, found
        gc.collect()
        self.assertEqual(len(tensors._exports), 0)


class Checkpoints(Case):
    def test_they_are_listed_verified_compared_and_rewritten(self):
        checkpoints, session = self.engine.checkpoints, self.session()
        for name in ("a", "b"):
            session.save(self.folder / name)
            session.step()
        found = checkpoints.list(self.folder)
        self.assertEqual([(one["state"], one["parameters"]) for one in found], [("complete", 4)] * 2)
        a, b = sorted(one["path"] for one in found)
        self.assertEqual(checkpoints.describe(a)["step"], 0)
        seen = []
        self.assertTrue(checkpoints.verify(a, progress=lambda done, total: seen.append((done, total)))["intact"])
        self.assertEqual(seen[-1][0], seen[-1][1])
        self.assertEqual((checkpoints.compare(a, a)["equal"], checkpoints.compare(a, b, "parameters")["equal"]), (True, False))
        with self.assertRaises(plait.Cancelled):
            checkpoints.verify(a, progress=lambda done, total: True)
        with self.assertRaises(ZeroDivisionError):
            checkpoints.compare(a, b, progress=lambda done, total: 1 / 0)
        checkpoints.convert(a, self.folder / "again/ckpt/step-0000000001", optimizer=False)
        self.assertTrue(checkpoints.compare(a, self.folder / "again", "parameters")["equal"])

    def test_adapters(self):
        model = {**TINY, "model": {**TINY["model"], "adapters": [{"type": "lora", "name": name, "match": ["model.linear1.weight"], "rank": 2, "alpha": 4.0}
                                                                 for name in ("one", "two")]}}
        session, x = self.session(source=model), batch()[0]
        session.run()
        self.assertEqual([one["name"] for one in session.adapters.list()], ["one", "two"])
        before = session.predict({"x": x}).tolist()
        weight = session.read(WEIGHT).tolist()
        session.adapters.merge()
        self.assertNotEqual(session.read(WEIGHT).tolist(), weight)
        for row, expected in zip(session.predict({"x": x}).tolist(), before):
            for a, b in zip(row, expected):
                self.assertAlmostEqual(a, b, places=4)
        session.adapters.unmerge()
        self.assertEqual(session.read(WEIGHT).tolist(), weight)
        session.save(self.folder / "both")
        session.adapters.reset("one")
        self.assertNotEqual(session.predict({"x": x}).tolist(), before)
        session.adapters.load("one", self.folder / "both")
        self.assertEqual(session.predict({"x": x}).tolist(), before)
        self.assertEqual([a["name"] for a in self.engine.checkpoints.adapters(self.folder / "both")[0]["adapters"]], ["one", "two"])
        with self.assertRaisesRegex(plait.NotFoundError, "two"):
            session.adapters.reset("three")


class Texts(Case):
    def test_a_tokenizer(self):
        tokenizer = self.engine.tokenizer({"type": "bytes"})
        self.assertEqual(tokenizer.encode("é!"), [0xC3, 0xA9, 0x21])
        self.assertEqual(tokenizer.decode([0xC3, 0xA9, 0x21]), "é!")
        self.assertEqual((tokenizer.encode(""), tokenizer.decode([])), ([], ""))
        self.assertEqual(tokenizer.decode([0xC3]), "\ufffd")
        self.assertGreaterEqual(tokenizer.describe()["vocabulary"], 256)
        with self.assertRaises(plait.InvalidError):
            tokenizer.decode([10**6])
        self.assertEqual(tokenizer.encode(b"\xff"), [0xFF])

    def test_conversations(self):
        said = [{"role": "user", "text": "Hello"}]
        self.assertIn("chatml", plait.chat_templates())
        self.assertEqual(plait.chat_text("chatml", said), "<|im_start|>user\nHello<|im_end|>\n")
        self.assertTrue(plait.chat_text("chatml", said, generate=True).endswith("<|im_start|>assistant\n"))
        self.assertEqual(bytes(self.engine.tokenizer({"type": "bytes"}).encode_chat("chatml", said)).decode(), plait.chat_text("chatml", said))


class Experiments(Case):
    def test_a_file_its_overrides_and_what_is_known_of_it(self):
        path = self.folder / "e.toml"
        path.write_text(toml.document(TINY))
        experiment = self.engine.experiment(path, {"run.steps": 7, "optimizer.learning_rate": 0.5, "run.name": "other"})
        self.assertEqual(experiment.describe()["run.steps"]["value"], 7)
        self.assertIn("learning_rate = 0.5", experiment.toml())
        described = experiment.plan().describe()
        self.assertEqual((described["steps"], described["name"], described["parameter_count"]), (7, "other", 16 * 8 + 16 + 3 * 16 + 3))
        self.assertEqual((described["metrics"]["train"], described["metrics"]["evaluation"]), (["accuracy"], ["accuracy"]))
        self.assertIn("matmul", experiment.plan().ir())
        self.assertEqual(experiment.every_rank()["planned_ranks"], 1)
        self.assertEqual(self.engine.experiment(path, ["run.steps=9", "~data.eval"]).describe()["run.steps"]["value"], 9)
        self.assertEqual(self.engine.check(path), [])
        problem, = self.engine.check(path, {"optimizer.type": "adan"})
        self.assertIn("unknown optimizer 'adan'", problem["message"])

    def test_values_in_toml(self):
        self.assertEqual(toml.value([True, 3, 0.5, 1e-7, math.inf, "a", {"k": [], "a b": ()}, pathlib.Path("/p")]),
                         '[true, 3, 0.5, 1e-07, inf, "a", {k = [], "a b" = []}, "/p"]')
        hostile = {"name": 'a "b" \\ \n\t\x00\x1b\x7f é \u202e', "nested": {"a.b": {"": 1}, "list": [{"x": -1}]}, "plain": -math.inf}
        if importlib.util.find_spec("tomllib"):
            import tomllib
            self.assertEqual(tomllib.loads(toml.document(hostile)), hostile)
        for out in ('a "b" \\', "é\t'$(x)'", "日本"):
            self.assertEqual(self.engine.experiment(TINY, {"run.out": out}).describe()["run.out"]["value"], out)

    def test_errors(self):
        with self.assertRaisesRegex(plait.ConfigError, r"2 problems in the experiment(.|\n)*batch.global(.|\n)*run.stepz") as caught:
            self.engine.experiment(TINY, ["run.stepz=7", "batch.global=0"])
        self.assertEqual(caught.exception.code, 2)
        session = self.session()
        with self.assertRaisesRegex(plait.InvalidError, r"field 'x' has shape \(16, 7\), expected up to f32 \(16, 8\)"):
            session.predict({"x": shaped([0] * 112, 16, 7)})
        with self.assertRaisesRegex(plait.NotFoundError, "there is no value 'hidden' to predict; there are: output"):
            session.predict({"x": batch()[0]}, "hidden")
        with self.assertRaisesRegex(TypeError, "'x' is a list, expected a NumPy array, a tensor of DLPack"):
            session.predict({"x": [[0.0] * 8]})
        session.close()
        with self.assertRaises(plait.InvalidError):
            session.evaluate()
        with self.assertRaisesRegex(TypeError, "no value of TOML"):
            self.engine.experiment(TINY, {"run.steps": None})

    def test_what_the_engine_has(self):
        described = self.engine.describe()
        self.assertEqual(described["version"], plait.version())
        self.assertIn("cpu", [device["name"] for device in self.engine.devices()])
        self.assertIn("matmul", [op["name"] for op in self.engine.ops()])
        self.assertEqual(plait.Job().describe()["size"], 1)
        plugin = next(pathlib.Path(os.environ["PLAIT_LIBRARY"]).parent.glob("plait/plugins-*/plait-optimizer-sgd.so"))
        self.assertIn("sgd", str(plait.inspect_plugin(plugin)))
        with self.assertRaises(plait.NotFoundError):
            self.engine.load(self.folder / "absent.so")

    def test_the_log(self):
        self.session(files=True, run_dir=self.folder / "run").run()
        self.assertIn(logging.INFO, [level for level, text in self.lines if "[evaluate]" in text])
        with self.assertLogs("plait", "INFO") as logs:
            plait.Engine().experiment(TINY).plan().session(str(self.folder / "other")).run()
        self.assertTrue(any("[evaluate]" in line for line in logs.output))

    def test_datasets(self):
        data = self.engine.experiment(TINY).dataset("eval")
        self.assertEqual((len(data), data.describe()["samples"], len(data[90:])), (100, 100, 10))
        sample = data[-1]
        self.assertEqual((sample["x"].shape, sample["label"].item() in range(3)), ((8,), True))
        with self.assertRaises(IndexError):
            data[100]
        (self.folder / "a.csv").write_text("a,b,kind\n1,2,x\n3,4,y\n")
        table = self.engine.dataset({"type": "csv", "path": str(self.folder / "a.csv"), "target": "kind", "target_type": "class"})
        self.assertEqual((len(table), next(iter(table[1].values())).tolist()), (2, [3.0, 4.0]))

    def test_objects_are_closed_when_nothing_uses_them(self):
        session = self.session()
        gone = weakref.ref(session)
        list(session.train())
        del session
        self.assertIsNone(gone())


class Generation(Case):
    def test_ids(self):
        model = {**TINY, "generate": {"slots": 2, "length": 12},
                 "data": {"train": {"type": "tokens", "path": "absent.bin", "length": 8}}, "batch": {"global": 1}, "metrics": [],
                 "model": {"layers": [{"type": "embedding", "vocabulary": 16, "width": 8, "std": 0.5},
                                      {"type": "decoder_block", "heads": 2, "rope": "half", "std": 0.5}, {"type": "linear", "out": 16}]}}
        session = self.session({"generate.only": True}, source=model)
        generator = session.generator()
        numbers = [generator.add([1, 2, 3], max_tokens=4, temperature=0.0, best=2, log_probabilities=True), generator.add([4], max_tokens=6, seed=3)]
        found = list(generator.tokens())
        by = [[token for token in found if token.sequence == number] for number in numbers]
        self.assertEqual([len(tokens) for tokens in by], [4, 6])
        for token in by[0]:
            self.assertEqual(token.best[0][0], token.id)
            self.assertAlmostEqual(token.best[0][1], token.log_probability, places=5)
        self.assertEqual([token.finish for token in by[0]], [None, None, None, "length"])
        with self.assertRaisesRegex(plait.InvalidError, "99"):
            generator.add([99])
        with self.assertRaisesRegex(TypeError, "unknown option 'temprature'; known are: temperature"):
            generator.add([1], temprature=0.5)
        with self.assertRaisesRegex(ValueError, "does not fit into 32 bits"):
            generator.add([2**32 + 3])
        with self.assertRaisesRegex(ValueError, "seed is -1, which does not fit"):
            generator.add([1], seed=-1)
        drawn = set()
        for seed in range(8):
            generator.add([1, 2, 3], max_tokens=4, seed=seed)
            drawn.add(tuple(token.id for token in generator.tokens()))
        self.assertGreater(len(drawn), 1)
        with self.assertRaisesRegex(plait.Error, "tokenizer"):
            generator.text("no tokenizer")
        with self.assertRaises(plait.StateError):
            session.generator()


class Example(Case):
    def test_embed_python(self):
        with self.script((ROOT / "examples/embed_python/ring.py").read_text()) as run:
            out, err = run.communicate(timeout=TIME)
        self.assertEqual((run.returncode, err), (0, ""))
        self.assertGreater(float(out.split("accuracy ")[1].split()[0]), 0.9)


class Notebook(Case):
    def test_the_bar(self):
        """With an IPython of ours, which notes what it is given."""
        pictures = []

        class ZMQInteractiveShell:
            pass

        shown = types.SimpleNamespace(update=pictures.append)

        def display(picture, display_id):
            pictures.append(picture)
            return shown
        ipython = types.ModuleType("IPython")
        ipython.get_ipython = ZMQInteractiveShell
        ipython.display = types.ModuleType("IPython.display")
        ipython.display.HTML, ipython.display.display = str, display
        sys.modules |= {"IPython": ipython, "IPython.display": ipython.display}
        try:
            self.session(bar=True).run()
        finally:
            del sys.modules["IPython"], sys.modules["IPython.display"]
        self.assertIn('<progress value="1" max="40"', pictures[0])
        self.assertRegex(pictures[-1], r'<progress value="40" max="40".*</progress> step 40 of 40, loss [\d.]+, [\d,]+ samples/s, 0:0\d$')


class Wheel(Case):
    def test_it_is_made_and_imported(self):
        spec = importlib.util.spec_from_file_location("build_backend", ROOT / "bindings/python/build_backend.py")
        backend = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(backend)
        self.assertEqual(backend.project("version"), plait.__version__)
        name = backend.build_wheel(self.folder)
        self.assertEqual(name, f"plait-{plait.__version__}-py3-none-any.whl")
        site = self.folder / "site"
        zipfile.ZipFile(self.folder / name).extractall(site)
        self.assertEqual(sorted(path.name for path in (site / "plait").iterdir()), sorted(path.name for path in (ROOT / "bindings/python/plait").glob("*.py")))
        done = subprocess.run([sys.executable, "-B", "-I", "-c", f"import sys; sys.path.insert(0, {str(site)!r}); import plait; print(plait.__file__, plait.version())"],
                              capture_output=True, text=True, timeout=TIME)
        self.assertEqual((done.returncode, done.stdout), (0, f"{site}/plait/__init__.py {plait.version()}\n"), done.stderr)
        record = (site / f"plait-{plait.__version__}.dist-info/RECORD").read_text()
        self.assertEqual(len(record.splitlines()), sum(1 for path in site.rglob("*") if path.is_file()))
        built = pathlib.Path(os.environ["PLAIT_LIBRARY"])
        expected = {f"plait/lib/{path.relative_to(built.parent)}" for path in built.parent.glob("plait/plugins-*/*.so")} | {"plait/lib/libplait.so.1"}
        self.assertEqual(set(backend.of_library(built.parent.parent)), expected)
        self.assertGreater(len(expected), 10)
        prefix = self.folder / "prefix"
        (prefix / "lib/plait/plugins-1").mkdir(parents=True)
        (prefix / "lib/libplait.so.1").write_bytes(b"l")
        (prefix / "lib/plait/plugins-1/p.so").write_bytes(b"p")
        with zipfile.ZipFile(self.folder / backend.build_wheel(self.folder, {"prefix": str(prefix)})) as whole:
            self.assertEqual((whole.read("plait/lib/libplait.so.1"), whole.read("plait/lib/plait/plugins-1/p.so")), (b"l", b"p"))
        with self.assertRaisesRegex(SystemExit, "cmake --install"):
            backend.build_wheel(self.folder, {"prefix": str(site)})

    def test_a_library_that_is_not_there(self):
        with self.script("import plait", {"PLAIT_LIBRARY": "/absent/libplait.so.1"}) as run:
            _, err = run.communicate(timeout=TIME)
        self.assertIn("libplait.so.1 cannot be loaded", err)
        self.assertIn("set PLAIT_LIBRARY to the file", err)


if __name__ == "__main__":
    unittest.main()
