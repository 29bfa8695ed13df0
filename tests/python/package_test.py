"""What else the Python package does: experiments, checkpoints, texts, generation, the bar, the wheel."""

import importlib.util
import logging
import math
import os
import pathlib
import subprocess
import sys
import types
import unittest
import weakref
import zipfile

from support import ROOT, TIME, TINY, WEIGHT, Case, batch, shaped

import plait
from plait import toml


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
        self.assertEqual([tokenizer.encode(of(b"\xff")) for of in (bytes, bytearray, memoryview)], [[0xFF]] * 3)
        for odd, name in ((5, "int"), (None, "NoneType"), ([1], "list")):
            with self.assertRaisesRegex(TypeError, f"the text is a {name}, expected str or bytes"):
                tokenizer.encode(odd)

    def test_conversations(self):
        said = [{"role": "user", "text": "Hello"}]
        self.assertIn("chatml", plait.chat_templates())
        self.assertEqual(plait.chat_text("chatml", [{"role": "user", "content": "Hello"}]), plait.chat_text("chatml", said))
        for odd in ("Hello", {"role": "user"}, {"text": "Hello"}, {"role": "user", "content": [{"type": "text"}]}, {"role": "user", "text": None}):
            with self.assertRaisesRegex(TypeError, "message 1 of the conversation is .*, expected"):
                plait.chat_text("chatml", [*said, odd])
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
        with self.assertRaisesRegex(plait.InvalidError, "this Session is closed"):
            session.evaluate()
        session.cancel()  # of nothing
        for source, overrides, path in ((TINY, {"run.steps": None}, "run.steps"), ({**TINY, "run": {"steps": None}}, (), "run.steps"), ({"run": None}, (), "run"),
                                        ({**TINY, "model": {"layers": [{}, {"type": None}]}}, (), r"model.layers\[1\].type")):
            with self.assertRaisesRegex(TypeError, rf"\[python\] {path} is None, which is no value of TOML; leave the key out"):
                self.engine.experiment(source, overrides)
        with self.assertRaisesRegex(TypeError, "the key 1 of run is a int, expected str"):
            self.engine.experiment({"run": {1: 2}})
        for odd in ("yes", True, []):
            with self.assertRaisesRegex(ValueError, "resume is .*, expected one of None, 'never', 'auto', 'must'"):
                self.session(resume=odd)
        with self.assertRaisesRegex(ValueError, "kind is 'bad', expected one of 'parameter', 'output', 'result'"):
            self.session().view(WEIGHT, "bad")
        with self.assertRaisesRegex(ValueError, "what is 'all', expected one of 'everything'"):
            self.engine.checkpoints.compare("a", "b", "all")
        with self.assertRaisesRegex(ValueError, "dtype is 'f64', expected one of None, 'f32', 'bf16', 'f16'"):
            self.engine.checkpoints.export("a", "b", dtype="f64")

    def test_a_folder_is_no_experiment(self):
        with self.assertRaisesRegex(plait.ConfigError, f"Is a directory; name the file in it, as in {self.folder}/experiment.toml"):
            self.engine.experiment(self.folder)

    def test_what_an_object_says_of_itself(self):
        path = self.folder / "e.toml"
        path.write_text(toml.document(TINY))
        session = self.session()
        for one, said in ((self.engine, plait.version()), (session, "of a dict"), (session.plan, "of a dict"), (plait.Job(), "rank 0 of 1"),
                          (self.engine.experiment(path), repr(str(path))), (self.engine.tokenizer({"type": "bytes"}), "bytes"),
                          (self.engine.experiment(TINY).dataset("eval"), "synthetic, 100 samples")):
            self.assertEqual(repr(one), f"<plait.{type(one).__name__} {said}>")
        session.close()
        self.assertEqual(repr(session), "<plait.Session of a dict, closed>")
        for kind in (getattr(plait, name) for name in plait.__all__):
            for name, member in vars(kind).items() if isinstance(kind, type) else ():
                if callable(member) and not name.startswith("_"):
                    self.assertTrue(member.__doc__, f"{kind.__name__}.{name}")

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
        for odd, name in ((None, "NoneType"), (5, "int"), (b"text", "bytes"), ({"role": "user"}, "dict")):
            with self.assertRaisesRegex(TypeError, f"the prompt is a {name}, expected a text"):
                generator.add(odd)
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
