"""Tables of numbers and texts as people have them, trained on as they are."""

import gzip
import os
import random
import struct
import subprocess
import unittest
import zipfile

from support import PLAIT, Case

MODEL = """\
[model]
layers = [{type = "linear", out = 3}]
[loss]
type = "cross_entropy"
[[metrics]]
type = "accuracy"
[optimizer]
type = "adam"
learning_rate = 0.05
"""
RUN = "[run]\nsteps = 60\n[batch]\nglobal = 30\n"


def flowers(n, seed, separator=",", header=True):
    """Lines of length, width, colour and kind; the kind follows from the length."""
    draw, lines = random.Random(seed), []
    for _ in range(n):
        kind = draw.randrange(3)
        lines.append([f"{kind * 3 + draw.random():.3f}", f"{2000 + draw.random():.3f}", draw.choice(["red", "blue"]), f"kind {kind}"])
    names = [["length", "width", "colour", "kind"]] if header else []
    return "".join(separator.join(line) + "\n" for line in names + lines)


class Csv(Case):
    def train(self, *overrides):
        """Accuracy at the end."""
        done = self.expect(0, "run", "t.toml", "--json", *overrides)
        return done.event("done")["evaluation"]["metrics"]["accuracy"]

    def test_texts_a_semicolon_and_gzip(self):
        data = 'type = "csv"\npath = "{}"\ntarget = "kind"\ntarget_type = "class"\ncategories = "colour"\ninput = ["length"]\n'
        self.write("t.toml", RUN + "[data.train]\n" + data.format("a.csv") + "[data.eval]\n" + data.format("b.csv.gz") +
                   'fit_on = "a.csv"\n' + MODEL)
        self.write("a.csv", flowers(90, 1, ";"))
        (self.folder / "b.csv.gz").write_bytes(gzip.compress(flowers(60, 2).encode()))
        self.assertGreater(self.train(), 0.9)
        self.assertIn("3 classes: 0 'kind 0', 1 'kind 1', 2 'kind 2'", self.expect(0, "check", "t.toml").err)

    def test_numbers_stand_for_the_same_in_all_datasets(self):
        self.write("a.csv", "x,colour,kind\n1,red,ant\n2,blue,bee\n3,red,cat\n")
        self.write("b.csv", "x,colour,kind\n1,red,ant\n2,grey,cat\n")
        toml = (RUN + '[data.train]\ntype = "csv"\npath = "a.csv"\ntarget = "kind"\ntarget_type = "class"\ncategories = "colour"\n'
                '[data.eval]\ntype = "csv"\npath = "b.csv"\ntarget = "kind"\ntarget_type = "class"\ncategories = "colour"\n' + MODEL)
        self.write("t.toml", toml)
        classes = ['data.train.classes=["ant","bee","cat"]', 'data.eval.classes=["ant","bee","cat"]']
        self.fails(2, ["check", "t.toml"], "t.toml:11:1: data.eval: field 'target': class 1 is 'cat' in [data.eval] (of 2) "
                   "and 'bee' in [data.train] (of 3)", "take the classes from one file (`fit_on`)")
        self.fails(2, ["check", "t.toml", *classes], "field 'input': column 1 is 'colour = grey' in [data.eval] (of 3) "
                   "and 'colour = blue' in [data.train] (of 3)")
        self.fails(2, ["check", "t.toml", *classes, "data.train.encoding=id", "data.eval.encoding=id"],
                   "field 'category': class of column 'colour', 0 is 'grey' in [data.eval] (of 2) and 'blue' in [data.train] (of 2)")
        self.write("b.csv", "kind,colour,x\nant,red,1\ncat,blue,2\n")
        self.fails(2, ["check", "t.toml", "data.eval.fit_on=a.csv"], "field 'input': column 0 is 'colour = blue' in [data.eval] (of 3) "
                   "and 'x' in [data.train] (of 3)")
        self.expect(0, "check", "t.toml", "data.eval.fit_on=a.csv", 'data.eval.input=["x", "colour"]')

    def test_identifiers_among_the_categories(self):
        lines = flowers(40, 1).splitlines()
        self.write("a.csv", "".join(f"{'name' if i == 0 else f'flower {i}'},{line}\n" for i, line in enumerate(lines)))
        self.write("t.toml", RUN + '[data.train]\ntype = "csv"\npath = "a.csv"\ntarget = "kind"\ntarget_type = "class"\ncategories = ["*"]\n' + MODEL)
        said = self.expect(0, "check", "t.toml").err
        self.assertIn("column 'name' has 40 different texts in 40 lines, as names and numbers of lines have: new samples have others", said)
        self.assertNotIn("column 'colour'", said)
        for n, names, told in ((19, 19, False), (20, 20, True), (40, 20, False), (40, 21, True)):
            with self.subTest(n=n, names=names):
                lines = flowers(n, 1).splitlines()
                self.write("n.csv", "".join(f"{'name' if i == 0 else f'flower {i % names}'},{line}\n" for i, line in enumerate(lines)))
                self.assertEqual("different texts" in self.expect(0, "check", "t.toml", "data.train.path=n.csv").err, told)
        self.assertNotIn("different texts", self.expect(0, "check", "t.toml", 'data.train.categories=["colour"]', 'data.train.input=["length"]').err)

    def test_lines_that_are_left_out(self):
        self.write("a.csv", "x,kind\n1,ant\n2,cat\n,dog\n4,ant\n?,\n")
        self.write("t.toml", RUN + '[data.train]\ntype = "csv"\npath = "a.csv"\ntarget = "kind"\ntarget_type = "class"\nmissing = "drop"\n' + MODEL)
        said = self.expect(0, "check", "t.toml").err
        self.assertIn("2 of 5 lines have a missing cell and are left out", said)
        self.assertIn("2 classes: 0 'ant', 1 'cat'", said)

    def test_no_header(self):
        self.write("t.toml", RUN + '[data.train]\ntype = "csv"\npath = "a.csv"\ntarget = "3"\ntarget_type = "class"\ninput = ["0"]\n'
                   '[data.eval]\ntype = "csv"\npath = "a.csv"\ntarget = "3"\ntarget_type = "class"\ninput = ["0"]\n' + MODEL)
        self.write("a.csv", flowers(90, 1, header=False))
        self.assertGreater(self.train(), 0.9)
        self.fails(2, ["check", "t.toml", "data.train.header=true"], "set header = false")

    def test_labels_below_0(self):
        """They are ignored, which is told where they are not those by which files mark it."""
        self.write("t.toml", RUN + '[data.train]\ntype = "csv"\npath = "a.csv"\ntarget = "y"\ntarget_type = "i32"\n' + MODEL)
        self.write("a.csv", "x,y\n1,0\n2,-1\n3,-3\n4,2\n5,-100\n6,-4\n")
        for verb in ("check", "run"):
            said = self.expect(0, verb, "t.toml").err
            self.assertEqual(said.count("target of path './a.csv': 4 of 6 integers are below 0, such as -3 in sample 2; "
                                        "the loss cross_entropy ignores labels below 0"), 1, said)
            self.assertNotIn("ignores", self.expect(0, verb, "t.toml", "-q").err)
        self.write("a.csv", "x,y\n1,0\n2,-1\n3,1\n4,2\n5,-100\n")
        self.assertNotIn("ignores", self.expect(0, "check", "t.toml").err)
        self.write("a.csv", "x,y\n1,0\n2,-3\n")  # real numbers are no labels
        self.assertNotIn("ignores", self.expect(0, "check", "t.toml", "data.train.target_type=f32", "loss.type=mse",
                                                'model.layers=[{type="linear",out=1}]', "metrics=[]").err)


class Large(Case):
    def test_a_file_of_20_gib_is_not_held_in_memory(self):
        columns, size = 256, 20 * 2**30
        rows = size // (4 * columns)
        for name, kind, shape, length in (("x.npy", "<f4", f"({rows}, {columns})", size), ("y.npy", "|u1", f"({rows},)", rows)):
            head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
            with open(self.folder / name, "wb") as file:  # the rest takes no space on the disk
                file.write(b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head.encode())
                file.truncate(128 + length)
        self.write("t.toml", RUN + '[data.train]\ntype = "npy"\ninput = "x.npy"\ntarget = "y.npy"\n' + MODEL)
        with open(self.folder / "out", "w") as out:
            run = subprocess.Popen([PLAIT, "run", "t.toml"], cwd=self.folder, env=self.environment(), stdout=out, stderr=out)
            _, status, used = os.wait4(run.pid, 0)
            run.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(run.returncode, 0, (self.folder / "out").read_text())
        self.assertLess(used.ru_maxrss, 2**20)  # 1 GiB: a sanitizer's own memory counts, too
        self.fails(2, ["check", "t.toml", "data.train.memory_mib=-1"], "memory_mib")


class Npz(Case):
    @staticmethod
    def npy(kind, shape, values):
        head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
        return b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head.encode() + values

    def archive(self, name, method, zip64=False, seed=5):
        """60 samples of two numbers, of which the first tells the label."""
        draw = random.Random(seed)
        labels = [draw.randrange(3) for _ in range(60)]
        rows = b"".join(struct.pack("<dd", label + 0.1 * draw.random(), draw.random()) for label in labels)
        with zipfile.ZipFile(self.folder / name, "w", method) as file:
            for member, content in (("images", self.npy("<f8", "(60, 2)", rows)), ("labels", self.npy("|u1", "(60,)", bytes(labels)))):
                with file.open(member + ".npy", "w", force_zip64=zip64) as to:
                    to.write(content)

    def test_stored_and_deflated(self):
        losses = []
        for name, method, zip64, mib in (("a.npz", zipfile.ZIP_STORED, False, 256), ("b.npz", zipfile.ZIP_DEFLATED, True, 256),
                                         ("c.npz", zipfile.ZIP_STORED, True, 0), ("d.npz", zipfile.ZIP_DEFLATED, False, 0)):
            self.archive(name, method, zip64)
            self.write("t.toml", RUN + f'[data.train]\ntype = "npz"\npath = "{name}"\ninput = "images"\ntarget = "labels"\nmemory_mib = {mib}\n' + MODEL)
            losses.append(self.expect(0, "run", "t.toml", "--json").event("done")["loss"])
        self.assertEqual(len(set(losses)), 1)
        self.assertLess(losses[0], 0.9)

    def test_labels_below_0(self):
        (self.folder / "x.npy").write_bytes(self.npy("<f4", "(2, 2)", struct.pack("<4f", 1, 2, 3, 4)))
        model = MODEL.replace('[[metrics]]\ntype = "accuracy"\n', "")
        for kind, letter in (("<i4", "i"), ("<i8", "q")):
            (self.folder / "y.npy").write_bytes(self.npy(kind, "(2,)", struct.pack(f"<2{letter}", 1, -2)))
            self.write("t.toml", RUN + '[data.train]\ntype = "npy"\ninput = "x.npy"\ntarget = "y.npy"\n' + model)
            self.assertIn("target './y.npy': 1 of 2 integers is below 0, such as -2 in sample 1; the loss", self.expect(0, "run", "t.toml").err)
        head = '{"x": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]}, "y": {"dtype": "I32", "shape": [2], "data_offsets": [8, 16]}}'
        (self.folder / "a.safetensors").write_bytes(struct.pack("<Q", len(head)) + head.encode() + struct.pack("<2f2i", 1, 2, -5, 0))
        self.write("t.toml", RUN + '[data.train]\ntype = "safetensors"\npath = "a.safetensors"\ninput = "x"\ntarget = "y"\n' + model)
        self.assertIn("tensor 'y' of path './a.safetensors': 1 of 2 integers is below 0, such as -5 in sample 0", self.expect(0, "run", "t.toml").err)

    def test_no_samples(self):
        for name, kind, shape in (("x.npy", "<f4", "(0, 2)"), ("y.npy", "|u1", "(0,)")):
            (self.folder / name).write_bytes(self.npy(kind, shape, b""))
        self.archive("a.npz", zipfile.ZIP_STORED)
        full, empty = 'type = "npz"\npath = "a.npz"\ninput = "images"\ntarget = "labels"\n', 'type = "npy"\ninput = "x.npy"\ntarget = "y.npy"\n'
        self.write("t.toml", RUN + "[data.train]\n" + full + "[data.eval]\n" + empty + MODEL)
        self.fails(2, ["check", "t.toml"], "t.toml:10:1: data.eval: dataset 'npy' of plugin 'data-npy' has no samples to evaluate; give it some, or leave it out")
        self.write("t.toml", RUN + "[data.train]\n" + empty + MODEL)
        said = self.plait("run", "t.toml")
        self.assertNotEqual(said.code, 0)
        self.assertIn("[data.train] has no samples, expected at least one to train on", said.err)
        self.assertNotIn("use batch.global = 0", said.err)

    def test_what_is_wrong_with_it(self):
        self.write("t.toml", RUN + '[data.train]\ntype = "npz"\npath = "a.npz"\ninput = "images"\ntarget = "labels"\n' + MODEL)
        self.archive("a.npz", zipfile.ZIP_DEFLATED)
        whole = (self.folder / "a.npz").read_bytes()
        self.fails(2, ["check", "t.toml", "data.train.input=x"], "input names array 'x', which does not exist; the arrays are 'images', 'labels'")
        for content, text in ((whole[:-30], "it has no directory of a zip file"), (b"", "it has no directory of a zip file"),
                              (whole[:120] + bytes(40) + whole[160:], "array 'images' of path './a.npz'"), (whole[40:], "offset")):
            (self.folder / "a.npz").write_bytes(content)
            self.fails(2, ["check", "t.toml"], text)
        (self.folder / "a.npz").write_bytes(whole)
        self.write("u.toml", RUN + '[data.train]\ntype = "npy"\ninput = "a.npz"\n' + MODEL)
        self.fails(2, ["check", "u.toml"], 'set type = "npz"')


class Split(Case):
    def test_one_file_for_training_and_evaluation(self):
        data = ('type = "split"\npart = "{}"\nvalidation = 0.3\ndataset = {{type = "csv", path = "a.csv", target = "kind", '
                'target_type = "class", input = ["length", "width"]}}\n')
        self.write("a.csv", flowers(200, 4))
        self.write("t.toml", RUN + "[data.train]\n" + data.format("train") + 'normalize = "auto"\n[data.eval]\n' + data.format("validation") + MODEL)
        done = self.expect(0, "run", "t.toml", "--json").event("done")
        samples = done["evaluation"]["samples"]
        self.assertTrue(35 < samples < 85, samples)
        self.assertGreater(done["evaluation"]["metrics"]["accuracy"], 0.9)
        # Statistics are those of the part for training.
        self.assertIn(f"mean and std of {200 - samples} samples of [data.train]", self.expect(0, "run", "t.toml", "run.steps=1").err)
        bound = self.expect(0, "bind", "t.toml").out
        self.assertEqual(bound.count('\n[data.train.normalize."*"]\n'), 1)
        self.assertNotIn("\n[data.eval.normalize", bound)  # inherited, as in the file
        self.write("none.toml", self.expect(0, "bind", "t.toml", "data.eval.normalize={}").out)
        self.assertIn("\nnormalize = {}\n", self.expect(0, "bind", "none.toml").out)
        self.write("bound.toml", bound)
        self.assertEqual(self.expect(0, "run", "bound.toml", "--json").event("done")["loss"], done["loss"])


    def test_parts_are_divided_in_the_same_way(self):
        data = 'type = "split"\npart = "{}"\ndataset = {{type = "csv", path = "{}", target = "kind", target_type = "class", key = "colour"}}\n'
        self.write("a.csv", flowers(200, 4))
        self.write("b.csv", flowers(200, 5))
        train, evaluation = "[data.train]\n" + data.format("train", "a.csv"), "[data.eval]\n" + data.format("validation", "a.csv")
        self.write("t.toml", RUN + train + evaluation + MODEL)
        self.expect(0, "check", "t.toml")
        for key in ("validation=0.2", "test=0.1", "seed=1", "by=input"):
            self.fails(2, ["check", "t.toml", "data.eval." + key], "t.toml:9:1: data.eval: is part \"validation\" by ",
                       "and [data.train] part \"train\" of the same samples by validation = 0.1, test = 0, seed = 0, by = \"\"",
                       "a sample may be in both; give both sections the same of these keys")
        self.expect(0, "check", "t.toml", "data.eval.seed=1", "data.train.seed=1")
        by_key = self.expect(0, "check", "t.toml", "data.train.by=key", "data.eval.by=key", "data.train.validation=0.5", "data.eval.validation=0.5")
        self.assertNotIn("nothing reads", by_key.err)
        self.assertIn("nothing reads the field 'key' of [data.train]", self.expect(0, "check", "t.toml").err)
        # Of one file the samples are the same whichever of its columns are read.
        self.write("c.csv", "".join(f"{line},{i and f'lot {i // 3}' or 'lot'}\n" for i, line in enumerate(flowers(200, 4).splitlines())))
        keyed = data.replace('key = "colour"', 'input = ["length", "width"], key = "KEY"')
        train_by, eval_by = (keyed.replace("KEY", key).format(part, "c.csv") for key, part in (("colour", "train"), ("lot", "validation")))
        self.write("o.toml", RUN + "[data.train]\n" + train_by + "[data.eval]\n" + eval_by + MODEL)
        self.expect(0, "check", "o.toml")
        self.fails(2, ["check", "o.toml", "data.eval.seed=1"], "seed = 1, by = \"\" (the index among 200 samples), and [data.train] part "
                   "\"train\" of the same samples by validation = 0.1, test = 0, seed = 0, by = \"\" (the index among 200 samples)")
        # Of a copy, packed or not, the samples are the same, too.
        self.write("copy.csv", flowers(200, 4))
        (self.folder / "copy.csv.gz").write_bytes(gzip.compress(flowers(200, 4).encode()))
        for copy in ("copy.csv", "copy.csv.gz"):
            other = "[data.eval]\n" + data.format("validation", copy)
            self.write("y.toml", RUN + train + other + MODEL)
            self.expect(0, "check", "y.toml")
            self.fails(2, ["check", "y.toml", "data.eval.seed=1"],
                       "data.eval: is part \"validation\" by ",
                       "and [data.train] part \"train\" of the same samples by")
        # By other columns.
        self.fails(2, ["check", "o.toml", "data.eval.by=key", "data.train.by=key"], "by = \"key\" (of 'lot'), and [data.train]",
                   "by = \"key\" (of 'colour'): a sample may be in both")
        # In blends every part counts.
        blend = '[data.{}]\ntype = "blend"\n[[data.{}.parts]]\n{}[[data.{}.parts]]\n{}'
        def blended(name, part, more):
            return blend.format(name, name, data.format(part, "b.csv"), name, data.format(part, "a.csv") + more)
        self.write("b.toml", RUN + train + blended("eval", "validation", "") + MODEL)
        self.expect(0, "check", "b.toml")
        for first, second in ((train, blended("eval", "validation", "seed = 1\n")),
                              (blended("train", "train", "seed = 1\n"), evaluation),
                              (blended("train", "train", "seed = 1\n"), blended("eval", "validation", ""))):
            self.write("b.toml", RUN + first + second + MODEL)
            self.fails(2, ["check", "b.toml"], "data.eval: is part \"validation\" by ", "a sample may be in both")
        # Of other samples, and twice the same part.
        self.write("u.toml", RUN + train + "[data.eval]\n" + data.format("validation", "b.csv") + "seed = 1\n" + MODEL)
        self.expect(0, "check", "u.toml")
        self.expect(0, "check", "t.toml", "data.eval.part=train", "data.eval.validation=0.5")


class Normalized(Case):
    """The same numbers whoever asks: other layouts, an evaluation, a resumed run."""

    MODEL = """\
[model]
layers = [{type = "linear", out = 4}, {type = "tanh"}, {type = "linear", out = 3}]
[loss]
type = "cross_entropy"
[optimizer]
type = "sgd"
learning_rate = 0.1
"""

    def setUp(self):
        super().setUp()
        self.lines = flowers(60, 3).splitlines()
        self.write("a.csv", "\n".join(self.lines) + "\n")
        # A large mean, of which f32 has few digits left, and a column that is constant.
        data = 'type = "csv"\npath = "a.csv"\ntarget = "kind"\ntarget_type = "class"\ninput = ["length", "width"]\n'
        self.toml = "[run]\nsteps = 30\n[batch]\nglobal = 12\n[data.train]\n" + data + "NORMALIZE\n[data.eval]\n" + data + self.MODEL
        self.write("t.toml", self.toml.replace("NORMALIZE\n", 'normalize = "auto"\n'))

    def losses(self, *words, toml="t.toml"):
        done = self.expect(0, "run", toml, "--json", *words)
        return done.event("done")["loss"], done.event("done")["evaluation"]["loss"]

    def numbers(self):
        """Mean and deviation of each column, as one computes them."""
        columns = list(zip(*[[float(cell) for cell in line.split(",")[:2]] for line in self.lines[1:]]))
        mean = [sum(column) / len(column) for column in columns]
        return mean, [(sum((x - m) ** 2 for x in column) / len(column)) ** 0.5 for column, m in zip(columns, mean)]

    def near(self, found, expected):
        for a, b in zip(found, expected):
            self.assertAlmostEqual(a, b, delta=2e-5 * abs(b))

    def test_auto_is_mean_and_std_of_the_columns(self):
        mean, std = self.numbers()
        self.write("given.toml", self.toml.replace("NORMALIZE\n", f"normalize.input = {{mean = {mean}, std = {std}}}\n"))
        self.write("named.toml", self.toml.replace("NORMALIZE\n", 'normalize.input = "auto"\n'))
        self.write("raw.toml", self.toml.replace("NORMALIZE\n", ""))
        found = self.losses()
        self.assertEqual(found, self.losses(toml="named.toml"))
        self.near(found, self.losses(toml="given.toml"))
        self.assertLess(found[1], 0.8 * self.losses(toml="raw.toml")[1])
        once = self.expect(0, "run", "t.toml")
        self.assertEqual(once.err.count("'input' is normalised by mean and std of 60 samples of [data.train]"), 1)

    def test_a_large_mean_is_subtracted_before_anything_is_rounded(self):
        for numbers in ('"auto"', "{input = {mean = 2000.5, std = 0.3}}"):
            exact = self.losses("precision.compute=f64", "data.train.normalize=" + numbers)
            for compute, error in (("f32", 1e-4), ("bf16", 0.02), ("f16", 0.005)):
                for found, expected in zip(self.losses("precision.compute=" + compute, "data.train.normalize=" + numbers), exact):
                    self.assertAlmostEqual(found, expected, delta=error * expected, msg=f"{compute} {numbers}")

    def test_the_same_on_every_layout(self):
        alone = self.losses()
        for layout in (["topology.data=2"], ["topology.tensor=2"], ["topology.pipeline=2"], ["batch.micro=3"]):
            self.near(self.losses(*layout), alone)

    def test_a_checkpoint_keeps_them(self):
        done = self.expect(0, "run", "t.toml", "--json", "run.steps=10", "checkpoint.every=10")
        path, loss = done.event("done")["run_dir"], done.event("done")["evaluation"]["loss"]
        # The training set grows by lines that would change mean and std beyond recognition.
        self.write("b.csv", "\n".join([*self.lines, *["900,-50,red,kind 0"] * 60]) + "\n")
        again = self.expect(0, "eval", "t.toml", "data.train.path=b.csv", "--checkpoint", path, "--json")
        self.assertEqual(again.records[-1]["loss"], loss)
        self.assertNotIn("is normalised by", again.err)
        resumed = self.expect(0, "run", "t.toml", "data.train.path=b.csv", "--resume", "auto", "--run-dir", path, "run.steps=11", "--json")
        self.assertNotIn("is normalised by", resumed.err)
        other = self.expect(0, "run", "t.toml", "run.steps=11", "--json").event("done")["loss"]
        self.assertNotEqual(resumed.event("done")["loss"], other)
        self.fails(2, ["eval", "t.toml", 'data.train.input=["length"]', 'data.eval.input=["length"]', "--checkpoint", path], "parameter")

    def test_numbers_of_training_that_fit_no_other_samples(self):
        self.fails(2, ["check", "t.toml", 'data.eval.input=["length"]'], "data.eval.normalize", "field 'input' is normalised by the columns of "
                   "[data.train], whose samples are f32 (2), here they are f32 (1)", "give both samples of the same shape, or this one mean and std")
    def test_what_cannot_be_normalised(self):
        self.write("raw.toml", self.toml.replace("NORMALIZE\n", ""))
        for key, texts in (("normalize.input={mean = [1.0, 2.0, 3.0]}", ["mean has 3 numbers, expected 1, or 2"]),
                           ("normalize.target=auto", ["auto needs real numbers or u8, the field holds i32"]),
                           ("normalize.input={auto = true, mean = 1}", ["has no effect beside auto"]),
                           ("normalize.input=automatic", ['expected "auto" or a table, found "automatic"']),
                           ("normalize=off", ['expected "auto" or a table of fields, found "off"']),
                           ("normalize.input={std = []}", ["is an empty list"]),
                           ("normalize.inptu=auto", ["did you mean 'input'?"])):
            self.fails(2, ["check", "raw.toml", "data.train." + key], *texts)
        self.write("nan.csv", "\n".join([*self.lines, "1,inf,red,kind 0"]) + "\n")
        self.fails(2, ["run", "t.toml", "data.train.path=nan.csv"], "is not finite")


if __name__ == "__main__":
    unittest.main()
