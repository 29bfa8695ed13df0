"""plait data show: documents of token files, texts, conversations, samples of experiments, and what it refuses."""

import gzip
import json
import struct
import unittest
import zipfile

from support import Case, ROOT, TINY

CHAT = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo\n"}]}
MODEL = """
[batch]
global = 1
[model]
layers = [{type = "embedding", vocabulary = 257, width = 8}, {type = "linear", out = 257}]
[loss]
type = "cross_entropy"
[optimizer]
type = "adamw"
"""


class Show(Case):
    def show(self, *words):
        return self.expect(0, "data", "show", *words)

    def test_without_a_file(self):
        self.assertIn("tinyshakespeare", self.show().out)
        self.assertIn("mnist", {record["set"] for record in self.show("--json").records})

    def test_token_files(self):
        self.write("a.jsonl", "".join(json.dumps({"text": t}) + "\n" for t in ("one", "two\ttabs", "three", "four")))
        self.expect(0, "data", "tokenize", "a.jsonl", "--tokenizer", "bytes", "--append-eod", "--out", "o")
        for name in ("o.bin", "o.idx", "o"):
            out = self.show(name).out
            self.assertIn("4 documents, 24 tokens, u16", out)
            self.assertIn("document 0: 4 tokens\n  text    one<|endoftext|>\n  ids     111 110 101 256\n", out)
            self.assertIn("two\\ttabs<|endoftext|>", out)
            self.assertNotIn("four", out)
        first, document = self.show("o.bin", "--from", 3, "--json").records
        self.assertEqual(first, {"schema": 1, "documents": 4, "tokens": 24, "dtype": "u16"})
        self.assertEqual(document, {"schema": 1, "document": 3, "n_tokens": 5, "tokens": [*b"four", 256], "text": "four<|endoftext|>"})
        (self.folder / "o.json").unlink()
        done = self.show("o.bin", "--count", 1)
        self.assertIn("the tokenizer is not known; name it with --tokenizer", done.err)
        self.assertNotIn("text", done.out)
        self.assertIn("<256?>", self.show("o.bin", "--tokenizer", "chars", "--option", "characters=abc").out)

    def test_texts(self):
        self.write("a.jsonl", json.dumps({"body": "first"}) + "\n" + json.dumps({"body": "second"}) + "\n")
        out = self.show("a.jsonl", "--tokenizer", "bytes", "--field", "body", "--from", 1).out
        self.assertEqual(out, "document 1: 6 tokens\n  text    second\n  ids     115 101 99 111 110 100\n")
        self.write("b.txt", "x" * 100)
        self.assertIn("... (36 more)", self.show("b.txt", "--tokenizer", "bytes").out)

    def test_conversations(self):
        self.write("c.jsonl", json.dumps(CHAT) + "\n" + json.dumps({"prompt": "a", "completion": "b"}) + "\n")
        done = self.show("c.jsonl", "--tokenizer", "bytes", "--template", "chatml")
        self.assertIn("sample 0: 65 tokens, 13 learned, 4031 of padding\n", done.out)
        self.assertIn("  text    <|im_start|>user\\nhi<|im_end|>\\n<|im_start|>assistant\\n«yo\\n<|im_end|>»\n", done.out)
        self.assertIn("ends turns with '<|im_end|>', which is no special token of the tokenizer", done.err)
        self.write("p.jsonl", json.dumps({"prompt": "a", "completion": "b"}) + "\n")
        self.assertIn("  text    a«b<|endoftext|>»\n  ids     97 98\n  labels  98 256\n", self.show("p.jsonl", "--tokenizer", "bytes").out)

    def test_experiments(self):
        self.write("c.jsonl", json.dumps(CHAT) + "\n")
        self.write("e.toml", MODEL + """
[data.train]
type = "blend"
weights = [1, 1]
samples = 4
[[data.train.parts]]
type = "fine_tune"
files = ["c.jsonl"]
tokenizer = {type = "bytes"}
template = "tulu"
length = 50
[[data.train.parts]]
type = "fine_tune"
files = "c.jsonl"
template = "zephyr"
length = 50
[data.train.parts.tokenizer]
type = "bytes"
""")
        out = self.show("e.toml").out
        self.assertIn("4 samples of blend, tokens i32 [50], labels i32 [50]", out)
        self.assertIn("sample 1:", out)
        self.assertIn("<|user|>\\nhi\\n<|assistant|>\\n«yo\\n<|endoftext|>»", out)
        self.assertEqual(self.show("e.toml", "data.train.weights=[3, 1]", "--count", 1, "--json").records[0]["samples"], 4)
        bound = self.expect(0, "bind", "e.toml").out
        self.assertIn('parts = [{type = "fine_tune", files = ["c.jsonl"], tokenizer = {type = "bytes"}, template = "tulu"', bound)
        self.write("bound.toml", bound)
        self.assertEqual(self.show("bound.toml", "--json").out, self.show("e.toml", "--json").out)
        self.expect(0, "run", "e.toml", "run.steps=3")

    def test_samples_without_tokens(self):
        self.write("t.toml", TINY)
        self.assertIn("shown is [data.train]; --dataset NAME shows another", self.show("t.toml", "--count", 1).out)
        self.fails(2, ["data", "show", "t.toml", "--samples", 1], "--count N shows N samples, --figures-of N")
        out = self.show("t.toml", "--dataset", "eval", "--count", 1).out
        self.assertRegex(out, r"100 samples of synthetic, \w+ f32 \[8\], \w+ i32 \[\]\n")
        self.assertRegex(out, r"\nsample 0\n  \w+( -?\d\S*){8}\n")
        self.assertRegex(out, r"(?m)^\[data\.eval\] synthetic: .*\bfirst = 200\b.*\n\[data\.train\] synthetic: .*\bsamples = 200\b")
        self.assertRegex(out, r"(?m)^  label  3 classes: 0 \(\d+\), 1 \(\d+\), 2 \(\d+\)$")
        self.assertRegex(out, r"(?m)^  x +column +min +max +mean +std +missing$")
        listed = {record["dataset"]: record["options"] for record in self.show("t.toml", "--json").records if "dataset" in record}
        self.assertEqual((listed["eval"]["first"], listed["train"]["first"], listed["train"]["type"]), (200, 0, "synthetic"))

    def test_a_table(self):
        self.write("a.csv", "length;colour;kind\n1;red;x\n2.5;;y\n;blue;x\n4.5;red;x\n")
        out = self.show("a.csv").out
        self.assertIn("4 samples of csv, input f32 [1], category i32 [2]\n", out)
        self.assertRegex(out, r"(?m)^   +length +1 +4\.5 +2\.66667 +1\.433\d+ +1$")
        self.assertIn("  category  colour  2 classes: blue (1), red (2); 1 missing\n  category  kind  2 classes: x (3), y (1)\n", out)
        self.assertIn("sample 0\n  input 1\n  category red x\nsample 1\n  input 2.5\n", out)
        facts, statistics, *samples = self.show("a.csv", "--json").records
        self.assertEqual(facts["fields"][0]["columns"], ["length"])
        self.assertEqual(facts["fields"][1]["classes"], [["blue", "red"], ["x", "y"]])
        self.assertEqual(statistics["statistics"]["input"][0]["nan"], 1)
        kind = statistics["statistics"]["category"][1]
        self.assertAlmostEqual(kind.pop("std"), 0.75**0.5 / 2)
        self.assertEqual(kind, {"column": "kind", "min": 0, "max": 1, "mean": 0.25, "nan": 0, "counts": {"x": 3, "y": 1}})
        self.assertEqual(len(samples), 3)
        self.assertIn("csv, input f32 [1], target i32 []", self.show("a.csv", "--option", "target=kind", "--option", "target_type=class",
                                                                     "--option", "input=length").out)
        self.fails(2, ["data", "show", "a.csv", "--option", "targt=kind"], "did you mean 'target'?")
        self.fails(2, ["data", "show", "none.csv"], "[data] cannot read 'none.csv': No such file")

    def test_how_many_samples_figures_are_of(self):
        """It follows from the data alone, whatever else the machine does."""
        with open(self.folder / "t-images-idx3-ubyte", "wb") as file:
            file.write(struct.pack(">BBBBIII", 0, 0, 8, 3, 1100, 256, 256))  # of 64 KiB each
            file.truncate(16 + 1100 * 256 * 256)
        few = ["t-images-idx3-ubyte", "--count", 1, "--width", 1]
        self.assertIn("  figures from 550 evenly spaced samples (--figures-of N for more):\n", self.show(*few).out)
        self.assertIn("  figures from 10 evenly spaced samples:\n", self.show(*few, "--figures-of", 10).out)
        self.write("t.toml", TINY)
        statistics, = (record for record in self.show("t.toml", "--json", "--figures-of", 60).records if "statistics" in record)
        self.assertEqual(statistics["samples_read"], 50)  # every fourth of 200
        statistics, = (record for record in self.show("t.toml", "--json").records if "statistics" in record)
        self.assertEqual(statistics["samples_read"], 200)

    def test_an_image(self):
        images = struct.pack(">BBBBIII", 0, 0, 8, 3, 2, 4, 4) + bytes([0, 0, 255, 255] * 2 + [128] * 8 + [0] * 15 + [9])
        (self.folder / "t-images-idx3-ubyte").write_bytes(images)
        out = self.show("t-images-idx3-ubyte").out
        self.assertIn("2 samples of idx, image u8 [4,4]\n", out)
        self.assertRegex(out, r"sample 0\n    (██|##)\n  ")
        (self.folder / "t-labels-idx1-ubyte.gz").write_bytes(gzip.compress(struct.pack(">BBBBI", 0, 0, 8, 1, 2) + bytes([7, 3])))
        (self.folder / "t-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
        for name in ("t-images-idx3-ubyte.gz", "t-labels-idx1-ubyte.gz"):
            out = self.show(name).out
            self.assertIn("  label  2 classes: 3 (1), 7 (1)\n", out)
            self.assertIn("  label 7\n", out)
        self.assertEqual(self.show("t-images-idx3-ubyte", "--json").records[2]["image"][:4], [0, 0, 255, 255])

    def test_a_folder_of_idx_files(self):
        folder = self.folder / "digits"
        folder.mkdir()
        for name, n in (("t10k", 2), ("train", 3)):
            images = struct.pack(">BBBBIII", 0, 0, 8, 3, n, 4, 4) + bytes(range(16)) * n
            labels = struct.pack(">BBBBI", 0, 0, 8, 1, n) + bytes(range(n))
            (folder / f"{name}-images-idx3-ubyte").write_bytes(images)
            (folder / f"{name}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
        out = self.show("digits").out
        self.assertIn("t10k: idx t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte.gz\ntrain: idx train-images-idx3-ubyte, ", out)
        self.assertIn("shown is train; --dataset NAME shows another\n3 samples of idx, image u8 [4,4], label u8 []\n", out)
        self.assertIn("\n2 samples of idx, ", self.show("digits", "--dataset", "t10k").out)
        listed = {record["dataset"]: record["options"] for record in self.show("digits", "--json").records if "dataset" in record}
        self.assertEqual(set(listed), {"t10k", "train"})
        self.assertEqual(listed["train"]["labels"], "digits/train-labels-idx1-ubyte.gz")
        self.fails(2, ["data", "show", "digits", "--dataset", "eval"],
                   "[data] 'digits' has no dataset 'eval'; --dataset takes t10k, train")
        # Without one of the default's name the first is shown; labels alone are an error of the dataset.
        for path in folder.glob("train-*"):
            path.unlink()
        self.assertIn("2 samples of idx, ", self.show("digits").out)
        # On a narrow terminal no line is wider than it, but for words such as names of files.
        for columns in (24, 40, 80):
            for line in self.on_terminal("data", "show", "digits", columns=columns).splitlines():
                self.assertTrue(len(line) <= columns or " " not in line.strip(), f"{columns}: {line}")
        self.write("wide.csv", "a_long_name,b\n1.5,-123456.75\n2.25,3\n")
        narrow = self.on_terminal("data", "show", "wide.csv", "--count", 1, columns=40)
        self.assertIn("  input  a_long_name\n    min 1.5, max 2.25, mean 1.875, std\n", narrow)
        self.assertIn("  input  column           min   max  ",
                      self.on_terminal("data", "show", "wide.csv", "--count", 1, columns=100))

    def test_a_folder_of_images(self):
        if "data-images" not in self.expect(0, "plugins").out:
            self.skipTest("built without libpng or libjpeg")
        golden = ROOT / "tests/golden/images"
        for path, name in (("cat/1.png", "rgb.png"), ("cat/2.PNG", "rgb.png"), ("dog/1.png", "palette.png")):
            (self.folder / "photos" / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / "photos" / path).write_bytes((golden / name).read_bytes())
        out = self.show("photos", "--count", 1).out
        self.assertIn("3 samples of images, image u8 [3,7,5], label i32 []\n", out)
        self.assertIn("  label  2 classes: cat (2), dog (1)\n", out)
        self.assertRegex(out, r"sample 0\n(  [ .+x#░▒▓█]{5}\n){4}  label cat\n")
        self.assertIn("image u8 [1,100,150]", self.show("photos", "--option", "size=[100, 150]", "--option", "channels=1").out)
        larger = self.show("photos", "--option", "size=[100, 150]", "--count", 1).out
        self.assertRegex(larger, r"sample 0\n(  [ .+x#░▒▓█]{50}\n){17}  label cat\n")  # each of 3 x 3 pixels
        facts, _, sample, *_ = self.show("photos", "--json").records
        self.assertEqual(facts["fields"][1]["classes"], [["cat", "dog"]])
        self.assertEqual((len(sample["image"]), sample["label"]), (105, [0]))
        (self.folder / "photos/dog/2.jpg").write_bytes((golden / "plain.jpg").read_bytes())
        several = self.show("photos", "--from", 3)
        self.assertIn("4 samples of images, image u8 [3,7,5], label i32 []\n", several.out)
        self.assertRegex(several.out, r"sample 3\n(  [ .+x#░▒▓█]{5}\n){4}  label dog\n")
        self.assertIn("/photos: images of 2 sizes, width x height: 5 x 7 (3), 22 x 19 (1); all are scaled to 5 x 7, that of the "
                      "first; to train on them set size = [H, W]", several.err)
        self.fails(2, ["data", "show", "photos", "--option", "size=[]"],
                   "photos/dog/2.jpg': the image has 22 x 19 pixels, expected 5 x 7", "set size = [H, W]")
        self.write("images.toml", """
[run]
steps = 2
[batch]
global = 2
[data.train]
type = "images"
path = "photos"
size = [6, 6]
flip = true
normalize.image = {divide = 255}
[model]
layers = [{type = "flatten"}, {type = "linear", out = 2}]
[loss]
type = "cross_entropy"
[optimizer]
type = "sgd"
""")
        self.expect(0, "run", "images.toml")
        self.assertIn("label cat", self.show("images.toml").out)
        self.fails(2, ["check", "images.toml", "data.train.path=photo"], "photo", "not found")

    def test_two_folders_of_images_blended(self):
        if "data-images" not in self.expect(0, "plugins").out:
            self.skipTest("built without libpng or libjpeg")
        golden = ROOT / "tests/golden/images"
        for path, name in (("a/cat/1.png", "rgb.png"), ("a/dog/1.png", "palette.png"), ("b/cat/1.jpg", "plain.jpg"), ("b/cat/2.png", "rgb.png"),
                           ("b/dog/1.png", "rgb.png"), ("c/cat/1.png", "rgb.png"), ("c/elk/1.png", "rgb.png")):
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_bytes((golden / name).read_bytes())
        part = '[[data.train.parts]]\ntype = "images"\npath = "{}"\nsize = [8, 8]\nflip = true\n'
        toml = """
[run]
steps = 6
[batch]
global = 4
[data.train]
type = "blend"
normalize.image = {divide = 255}
""" + part.format("a") + part.format("b") + """
[model]
layers = [{type = "flatten"}, {type = "linear", out = 2}]
[loss]
type = "cross_entropy"
[optimizer]
type = "sgd"
"""
        self.write("t.toml", toml)
        out = self.show("t.toml", "--count", 5).out
        self.assertIn("5 samples of blend, image u8 [3,8,8], label i32 []\n", out)
        self.assertIn("  label  2 classes: cat (3), dog (2)\n", out)
        # Samples that are flipped by epoch are the same on every layout, and in a resumed run.
        losses = {}
        for name, words in (("one", []), ("two", ["topology.data=2"]), ("micro", ["batch.micro=1"])):
            self.expect(0, "run", "t.toml", "--run-dir", name, "run.log_every=1", *words, "-q")
            losses[name] = [json.loads(line)["loss"] for line in (self.folder / name / "metrics.ndjson").read_text().splitlines()
                            if '"event"' not in line]
            self.assertEqual(len(losses[name]), 6)
            for one, other in zip(losses["one"], losses[name]):
                self.assertAlmostEqual(one, other, delta=1e-5)
        self.expect(0, "run", "t.toml", "--run-dir", "parts", "run.log_every=1", "run.steps=3", "-q")
        self.expect(0, "run", "t.toml", "--run-dir", "parts", "run.log_every=1", "--resume", "must", "-q")
        lines = [json.loads(line) for line in (self.folder / "parts/metrics.ndjson").read_text().splitlines()]
        self.assertEqual([line["loss"] for line in lines if "event" not in line], losses["one"])
        self.write("t.toml", toml.replace('path = "b"', 'path = "c"'))
        self.fails(2, ["check", "t.toml"], "field 'label': class 1 is 'elk' in parts[1] (images) (of 2) and 'dog' in parts[0] (of 2)",
                   "give folders of images the same folders of classes")

    def test_images_without_folders_of_classes(self):
        (self.folder / "photos").mkdir()
        (self.folder / "photos/1.PNG").write_bytes(b"")
        (self.folder / "empty").mkdir()
        expected = "expected a folder with one folder of images (PNG, JPEG) for each class"
        for name, says in (("photos", "holds images, but no folder for each class"), ("photos/1.PNG", "is one image"),
                           ("empty", "is an empty folder")):
            self.fails(2, ["data", "show", name], f"'{name}' {says}, {expected}")
        self.fails(2, ["data", "show", "none.png"], "there is no such file or folder: 'none.png'")

    def test_decimal_commas(self):
        self.write("own.csv", "a;b\n1,5;2\n-2,5;3\n")
        self.assertIn("'-2,5' may be numbers: --option decimal=,", self.show("own.csv").err)
        with_option = self.show("own.csv", "--option", "decimal=,")
        self.assertIn("csv, input f32 [2]", with_option.out)
        self.assertNotIn("may be numbers", with_option.err)
        self.write("words.csv", "a;b\n1,5;2\nten;3\n")
        self.assertNotIn("may be numbers", self.show("words.csv").err)

    def test_colours(self):
        values = bytes([255, 0, 0] * 16 + [0, 0, 255] * 16)  # two rows of each colour, 8 wide; as channels, rows, columns:
        planes = b"".join(values[c::3] for c in range(3))
        head = (b'{"image":{"dtype":"U8","shape":[1,3,4,8],"data_offsets":[0,96]},'
                b'"dark":{"dtype":"U8","shape":[1,1,4,8],"data_offsets":[96,128]}}')
        (self.folder / "a.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + planes + bytes([0] * 16 + [9] * 16))
        colors = {"NO_COLOR": "", "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        rows = {kind: self.on_terminal("data", "show", "a.safetensors", env={**colors, "COLORTERM": kind}) for kind in ("truecolor", "")}
        cells = {"truecolor": ("38;2;255;0;0;48;2;255;0;0", "38;2;0;0;255;48;2;0;0;255"), "": ("38;5;196;48;5;196", "38;5;21;48;5;21")}
        for kind, (red, blue) in cells.items():
            self.assertIn("  " + f"\033[{red}m▀" * 8 + "\033[0m\n  " + f"\033[{blue}m▀" * 8 + "\033[0m\n", rows[kind])
        self.assertIn("  " + "\033[38;5;232;48;5;232m▀" * 8 + "\033[0m\n  " + "\033[38;5;255;48;5;255m▀" * 8, rows[""])

    def test_arrays(self):
        def npy(kind, shape, values):
            head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
            return b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head.encode() + values
        halves = npy("<f2", "(2, 1)", struct.pack("<2e", 0.5, float("nan")))
        (self.folder / "a.npy").write_bytes(halves)
        out = self.show("a.npy").out
        self.assertIn("2 samples of npy, input f16 [1]\n", out)
        self.assertRegex(out, r"(?m)^   +0 +0\.5 +0\.5 +0\.5 +0 +1$")
        with zipfile.ZipFile(self.folder / "a.npz", "w") as file:
            file.writestr("one.npy", halves)
            file.writestr("two.npy", npy("|u1", "(2,)", bytes([4, 4])))
        out = self.show("a.npz").out
        self.assertIn("2 samples of npz, one f16 [1], two u8 []\n", out)
        self.assertIn("  two  1 class: 4 (2)\n", out)
        header = b'{"t":{"dtype":"F32","shape":[2,9,9],"data_offsets":[0,648]}}'
        (self.folder / "a.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(644) + struct.pack("<f", 2))
        self.assertIn("2 samples of safetensors, t f32 [9,9]\n", self.show("a.safetensors").out)

    def test_described(self):
        """What plugins say of options that are items: the kind, not a choice of texts."""
        self.assertIn('table: {type = "NAME", ...} of a tokenizer', self.expect(0, "plugins", "fine_tune").out)
        items = [item for plugin in self.expect(0, "plugins", "--json").records[0]["plugins"] for item in plugin["items"]]
        parts, = (option for item in items if item["name"] == "blend" for option in item["options"] if option["name"] == "parts")
        self.assertEqual((parts["type"], parts["kind"]), ("list of tables", "plait.dataset/1"))
        self.assertNotIn("choices", parts)

    def test_refused(self):
        self.write("t.toml", TINY)
        self.write("a.jsonl", json.dumps(CHAT) + "\n")
        self.write("bad.idx", "MMIDIDX")
        self.write("bad.bin", "")
        self.write("empty.jsonl", "\n")
        self.write("e.toml", MODEL + """
[data.train]
type = "fine_tune"
files = ["a.jsonl", "none.jsonl"]
tokenizer = {type = "byte"}
length = 50
""")
        for words, *says in ((["none.bin"], "cannot read 'none.bin': No such file"),
                             (["bad.bin"], "'bad.idx' was cut off", "plait data tokenize"),
                             (["none.jsonl"], "cannot read 'none.jsonl'"),
                             (["x.gz"], "the name of 'x.gz' does not tell", "NAME.csv.gz"),
                             (["a.jsonl"], "holds texts; name the tokenizer with --tokenizer"),
                             (["empty.jsonl", "--tokenizer", "bytes"], "'empty.jsonl' has nothing in it"),
                             (["a.jsonl", "--count", 0], "--count"),
                             (["a.jsonl", "--tokenizer", "byte"], "unknown tokenizer 'byte' (did you mean 'bytes'?)"),
                             (["t.toml", "--dataset", "evil"], "no dataset 'evil' (did you mean 'eval'?); there are: train, eval"),
                             (["t.toml", "--from", 200], "--from 200: there are 200 samples, from 0"),
                             (["e.toml"], "e.toml:", "data.train.tokenizer.type: unknown tokenizer 'byte' (did you mean 'bytes'?)"),
                             (["none.toml"], "none.toml")):
            with self.subTest(words=words):
                self.fails(2, ["data", "show", *words], *says)
        self.write("idx.toml", MODEL + '[data.train]\ntype = "idx"\nimages = "x-images-idx3-ubyte.gz"\nlabels = "x-labels-idx1-ubyte.gz"\n')
        said = self.plait("data", "show", "idx.toml")
        self.assertIn("'x-images-idx3-ubyte.gz': cannot open it: No such file or directory", said.err)
        hint = "--data DIR (or PLAIT_DATA) names the folder that such paths start from"
        self.assertIn(hint, said.err)
        (self.folder / "there").mkdir()
        self.assertNotIn(hint, self.plait("data", "show", "idx.toml", "--data", "there").err)
        self.assertNotIn(hint, self.plait("data", "show", "idx.toml", f"data.train.images={self.folder}/none.gz").err)
        self.fails(2, ["check", "e.toml", 'data.train.tokenizer.type=bytes'], "data.train.files: file 'none.jsonl' not found")
        self.fails(2, ["data", "show", "a.jsonl", "--tokenizer", "bytes"], "a.jsonl', line 1, key 'messages': no template says",
                   "chatml, llama2, llama3")
        self.fails(2, ["data", "show", "a.jsonl", "--tokenizer", "bytes", "--template", "chat"], "found \"chat\"", "did you mean 'chatml'")


if __name__ == "__main__":
    unittest.main()
