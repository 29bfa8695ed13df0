"""Training from Python: runs, loops, interrupts, own batches, parameters as tensors. NumPy and PyTorch are used where they are installed."""

import array
import copy
import gc
import importlib.util
import math
import pickle
import random
import signal
import subprocess
import sys
import threading
import types
import unittest
import unittest.mock
import weakref

from support import ROOT, TIME, TINY, WEIGHT, Case, batch, shaped

import plait
from plait import tensors, toml
from plait.session import _evaluation


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
                for refused, name in ((session.step, "step"), (lambda: session.load(self.folder), "load"), (session.profile, "profile")):
                    with self.assertRaisesRegex(plait.StateError, rf"\[python\] {name}\(\) inside of a run of the same session, or before a loop over train"):
                        refused()
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

    def test_an_evaluation_of_numbers_that_are_not_finite(self):
        """The library writes them as texts; here they are numbers, and a dataset may be called like one."""
        made = _evaluation('{"step": 3, "dataset": "nan", "samples": 2, "loss": "nan", "token_perplexity": "inf", "seconds": 0.5, '
                           '"metrics": {"accuracy": 0.5, "margin": "-inf"}}')
        self.assertTrue(math.isnan(made.pop("loss")))
        self.assertEqual(made, {"step": 3, "dataset": "nan", "samples": 2, "token_perplexity": math.inf, "seconds": 0.5,
                                "metrics": {"accuracy": 0.5, "margin": -math.inf}})
        # Of the library: weights of 0 leave a loss of nothing.
        (self.folder / "e.csv").write_text("x,label,weight\n" + "0.5,1,0\n" * 4)
        csv = {"type": "csv", "path": str(self.folder / "e.csv"), "input": ["x"], "target": ["label"], "target_type": "i32", "weight": "weight"}
        session = self.session(source={**TINY, "data": {"train": csv, "eval": csv}})
        found = session.evaluate()
        self.assertIsInstance(found["loss"], float)
        self.assertTrue(math.isnan(found["loss"]))
        self.assertEqual((found["dataset"], found["samples"]), ("eval", 4))

    def test_an_interrupt_ends_an_evaluation_at_once(self):
        text = f"""
import os, plait, signal, threading
def interrupted(call):
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    call()
def cause(call):
    try:
        call()
    except KeyboardInterrupt as e:
        return type(e.__cause__).__name__
def loop():
    for step in session.train():
        if step.step == 2:
            interrupted(lambda: session.evaluate("long"))
long = {{"type": "synthetic", "samples": 200000, "shape": [8], "classes": 3}}
linear = [{{"type": "linear", "out": n}} for n in (4096, 4096, 3)]  # about 7e12 operations
session = plait.Engine().experiment({{**{TINY!r}, "data": {{**{TINY!r}["data"], "long": long}}, "model": {{"layers": linear}}}}).plan().session(files=False)
print(cause(lambda: interrupted(lambda: session.evaluate("long"))), session.evaluate()["samples"])
print(cause(loop), session.evaluate()["samples"], session.step().step)
"""
        with self.script(text) as run:
            out, err = run.communicate(timeout=TIME)
        self.assertEqual((run.returncode, out.split()[:4], out.split()[4:]), (0, ["Cancelled", "100", "Cancelled", "100"], ["3"]), err)

    def test_an_interrupt_stops_no_later_call(self):
        """Wherever it comes: in a call that it ends, in one that it does not end, between two."""
        text = f"""
import array, os, plait, random, signal, threading
zeros = memoryview(array.array("f", [0.0] * 8)).cast("B").cast("f", (1, 8))
session = plait.Engine().experiment({TINY!r}).plan().session(files=False)
draw, came = random.Random(1), 0
calls = (session.evaluate, lambda: session.predict({{"x": zeros}}), lambda: session.read("{WEIGHT}"), session.state_dict, session.step,
         lambda: session.save("kept"), lambda: list(session.train()), session.run)
for i in range(160):
    call = calls[i % len(calls)]
    timer = threading.Timer(0.001 + 0.004 * draw.random(), os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        while timer.is_alive():
            call()
        timer.join()
    except KeyboardInterrupt:
        came += 1
    assert session.evaluate()["samples"] == 100
    if i % 4 == 0:
        assert session.run().step >= 40
print(came)
"""
        with self.script(text) as run:
            out, err = run.communicate(timeout=TIME)
        self.assertEqual(run.returncode, 0, err)
        self.assertEqual(int(out), 160)

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

    def test_what_is_no_batch(self):
        session, (x, label) = self.session(), batch()
        with self.assertRaisesRegex(ValueError, r"the batch has no fields; step\(\) without one takes the next batch of \[data.train\]"):
            session.step({})
        for odd in ((x, label), [x], x):
            with self.assertRaisesRegex(TypeError, r"the batch is a \w+, expected a dict \{field: array\}"):
                session.step(odd)
        with self.assertRaisesRegex(TypeError, "the batch has the key 1, expected the name of a field as a str"):
            session.step({1: x})
        with self.assertRaisesRegex(TypeError, "the batch is a memoryview"):
            session.predict(x)
        self.assertEqual(session.describe()["step"], 0)

    def test_bad_samples_of_an_own_batch_are_its_own(self):
        x, label = batch()
        for bad, text in (([-100] * 16, "the weights of all samples .* correct the weights or the labels of the batch that was fed"),
                          ([3] * 16, r"\[feed\] field 'label' is 3 in step 1, which is out of range")):
            with self.assertRaisesRegex(plait.DataError, text):
                self.session({"guard.nonfinite_limit": 1}).step({"x": x, "label": array.array("i", bad)})
        self.assertTrue(self.session().step({"x": shaped([math.nan] * 128, 16, 8), "label": label}).skipped)
        told = [text for _, text in self.lines if "is not finite" in text]
        self.assertRegex(told[-1], "field 'x' of its sample 0 is nan: correct the batch that was fed")

    def test_labels_of_64_bits(self):
        """They are converted where that loses nothing; with NumPy and without."""
        (x, label), losses = batch(), []
        for hidden in ({"numpy": None}, {}):
            with unittest.mock.patch.dict(sys.modules, hidden):
                for labels in (label, array.array("q", label)):
                    losses.append(self.session().step({"x": x, "label": labels}).loss)
                for odd in (2**31, -2**31 - 1):
                    with self.assertRaisesRegex(ValueError, f"'label' has the number {odd}, expected i32, from -2147483648 to 2147483647"):
                        self.session().step({"x": x, "label": array.array("q", [*label[:15], odd])})
        self.assertEqual(losses, losses[:1] * 4)
        with self.assertRaisesRegex(plait.Error, "field 'x' is i64, expected f32"):
            self.session().step({"x": memoryview(array.array("q", [1] * 128)).cast("B").cast("q", (16, 8)), "label": label})

    def test_a_fork_is_refused_and_ends(self):
        text = f"""
import os, plait
session = plait.Engine().experiment({TINY!r}).plan().session(files=False)
def refused(use):
    try:
        use()
    except plait.StateError as e:
        assert str(os.getppid()) in str(e) and "spawn" in str(e), e
        return True
for step in (steps := session.train()):
    if step.step == 2:
        child = os.fork()
        if child == 0:
            uses = session.describe, lambda: session.read("{WEIGHT}"), session.plan.describe, lambda: next(steps), session.cancel
            done = all([refused(use) for use in uses])
            session.close()
            del steps
            os._exit(7 if done else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
print(step.step)
"""
        with self.script(text) as run:
            out, err = run.communicate(timeout=TIME)
        self.assertEqual((run.returncode, out), (0, "7\n40\n"), err)

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

    def test_a_request_behind_the_last_step_of_two_ranks_stops_no_later_call(self):
        text = f"""
import plait
session = plait.Engine().experiment({TINY!r}, ["topology.data=2", "~data.eval"]).plan().session(files=False)
print(session.run(lambda step: step.step == 40).step, session.evaluate("train")["samples"])
"""
        env = {"PLAIT_WORLD_SIZE": "2", "PLAIT_RENDEZVOUS": f"file:{self.folder}/meet"}
        ranks = [self.script(text, {**env, "PLAIT_RANK": str(rank)}) for rank in range(2)]
        for run in ranks:
            out, err = run.communicate(timeout=TIME)
            self.assertEqual((run.returncode, out), (0, "40 200\n"), err)


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

    def test_copies_of_tensors(self):
        """Have their own memory: the best weights are kept so."""
        session = self.session()
        best, expected = copy.deepcopy(session.state_dict()), session.read(WEIGHT).tolist()
        view = session.view(WEIGHT)
        copies = [copy.copy(view), copy.deepcopy(view), pickle.loads(pickle.dumps(view)), copy.deepcopy(session.view(WEIGHT, read_only=True))]
        read = session.read(WEIGHT)
        shared = copy.deepcopy([read, read])
        self.assertIs(shared[0], shared[1])
        for _ in range(20):
            session.step()
        self.assertNotEqual(session.read(WEIGHT).tolist(), expected)
        gc.collect()
        for one in (*copies, best[WEIGHT], shared[0]):
            self.assertEqual((one.dtype, one.shape, one.tolist(), one.read_only), ("f32", (16, 8), expected, False))
            one.buffer()[0, 0] = 7.0
        session.load_state_dict({WEIGHT: read})
        self.assertEqual(view.tolist(), expected)
        for shape in ((), (2, 0), (3,)):
            one = tensors.Tensor("bf16", shape)
            self.assertEqual((pickle.loads(pickle.dumps(one)).shape, copy.deepcopy(one).tolist()), (shape, one.tolist()))
        for use in (copy.copy, copy.deepcopy, pickle.dumps):
            with self.assertRaisesRegex(TypeError, "lies on a device"):
                use(tensors.Tensor("f32", (1,), 16, device=(2, 0)))

    def test_objects_of_the_library_are_not_copied(self):
        session = self.session()
        for one in (session, session.plan, self.engine, plait.Job(), self.engine.tokenizer({"type": "bytes"}), {"kept": session.adapters}):
            for use in (copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(TypeError, "it cannot be copied or pickled; share it"):
                    use(one)
        with self.assertRaisesRegex(TypeError, r"a Session is .*; state_dict\(\) gives copies"):
            copy.copy(session)
        self.assertEqual(session.step().step, 1)

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
            tensors._free_unconsumed()
            self.assertEqual(len(tensors._exports), 1)
            del capsule
            second = tensor.__dlpack__(max_version=version)
            self.assertEqual((len(tensors._exports), len(tensors._offered)), (1, 1))
            del second
        short = tensors.Tensor("f32", (2,))
        held = short.__dlpack__()
        del short
        self.assertEqual(len(tensors._exports), 1)  # the capsule is still held
        del held
        other = tensors.Tensor("f32", (2,))
        other.__dlpack__()
        del other
        self.assertEqual((len(tensors._exports), len(tensors._offered)), (0, 0))
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
        for shown in (numpy.asarray(half), numpy.asarray(half, dtype=numpy.float64), half.__array__()):
            numpy.testing.assert_array_equal(shown, numpy.array([[1], [-2]], numpy.float32))
            with self.assertRaisesRegex(ValueError, "read-only"):
                shown[:] = 5
        own = numpy.array(half)
        own[:] = 5
        self.assertEqual((half.tolist(), session.read(WEIGHT).__array__(numpy.float64).flags.writeable), ([[1.0], [-2.0]], True))
        for use in (lambda: half.__array__(copy=False), lambda: session.read(WEIGHT).__array__(numpy.float64, copy=False)):
            with self.assertRaisesRegex(ValueError, "is a copy, and copy=False was given"):
                use()
        if numpy.lib.NumpyVersion(numpy.__version__) >= "2.0.0":
            with self.assertRaises(ValueError):
                numpy.array(half, copy=False)
        with self.assertRaisesRegex((RuntimeError, BufferError), "(?i)dtype"):
            numpy.from_dlpack(half)
        weight = session.read(WEIGHT)
        weight[1:3, 0] = 5
        numpy.testing.assert_array_equal(numpy.asarray(weight)[:4, 0], [0, 5, 5, 0])
        self.assertEqual((weight[2, 0], [row.shape for row in weight], half[1, 0]), (5, [(8,)] * 16, -2))
        with unittest.mock.patch.dict(sys.modules, {"numpy": None}), self.assertRaisesRegex(TypeError, "parts of a tensor need NumPy"):
            weight[0]
        del half
        self.assertEqual((len(tensors._exports), len(tensors._offered)), (0, 0))
        with self.assertRaisesRegex(TypeError, "'x' is a masked array, whose mask nothing would read"):
            session.predict({"x": numpy.ma.masked_array(x, x > 0)})
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


class Example(Case):
    def test_embed_python(self):
        with self.script((ROOT / "examples/embed_python/ring.py").read_text()) as run:
            out, err = run.communicate(timeout=TIME)
        self.assertEqual((run.returncode, err), (0, ""))
        self.assertGreater(float(out.split("accuracy ")[1].split()[0]), 0.9)


if __name__ == "__main__":
    unittest.main()
