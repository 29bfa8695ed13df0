"""Every example as its README says, outside the tree, against an installed Plait, with few steps.

$PLAIT_BUILD is installed into a scratch folder with $PLAIT_CMAKE; or $PLAIT_PREFIX is an installed Plait."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIBDIR = os.environ.get("PLAIT_LIBDIR", "lib")
CMAKE = os.environ.get("PLAIT_CMAKE", "cmake")
TORCHRUN = os.environ.get("PLAIT_TORCHRUN") or shutil.which("torchrun")
IMAGES = "train-images-idx3-ubyte.gz"
# Where MNIST or pictures of its shape may be, the first that has them.
PLACES = (ROOT / "data/mnist", ROOT.parent / "shared/data/mnist", pathlib.Path("/usr/share/datasets/fashion-mnist"))
# In place of the images where there are none: the same shapes.
MADE_UP = '{{type = "synthetic", samples = {}, shape = [28, 28], classes = 10, first = {}}}'
F64 = "precision.compute=f64"  # f32 rounds otherwise on other layouts, and 40 steps on Fashion-MNIST amplify that to 3e-5


def data_folder():
    given = os.environ.get("PLAIT_DATA")
    places = ((pathlib.Path(given),) if given else ()) + PLACES
    return next((place for place in places if (place / IMAGES).exists()), None)


def byte_tokenizer(folder, merges):
    """Files of a tokenizer as GPT-2's: bytes as letters, a few merges, <|endoftext|>. The number of its tokens."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [chr(byte) for byte in printable] + [chr(256 + i) for i in range(256 - len(printable))]
    tokens = [*letters, *(merge.replace(" ", "") for merge in merges), "<|endoftext|>"]
    folder.mkdir()
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    return len(tokens)


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="plait-examples-")
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        cls.prefix = pathlib.Path(os.environ.get("PLAIT_PREFIX") or cls.folder / "prefix")
        if "PLAIT_PREFIX" not in os.environ:
            cls.call(CMAKE, "--install", os.environ["PLAIT_BUILD"], "--prefix", cls.prefix)

    @classmethod
    def call(cls, *command, **more):
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
                              cwd=more.get("cwd", cls.folder), env={k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"})
        if done.returncode:
            raise AssertionError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def copy(self, name, to=None):
        to = self.folder / (to or name)
        shutil.copytree(ROOT / "examples" / name, to)
        return to

    def build(self, folder):
        self.call(CMAKE, "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={self.prefix}", "-DCMAKE_BUILD_TYPE=Release", cwd=folder)
        self.call(CMAKE, "--build", "build", cwd=folder)

    def plait(self, folder, *words):
        """The record that ends a run."""
        out = self.call(self.prefix / "bin/plait", *words, "--json", cwd=folder.parent)
        return [json.loads(line) for line in out.splitlines()][-1]

    def train(self, name, *words):
        """Checks and runs an example on images, or on made-up samples where there are none; the last record, and which it was."""
        folder, data = self.copy(name), data_folder()
        samples = ("data.train=" + MADE_UP.format(2000, 0), "data.eval=" + MADE_UP.format(1000, 2000))
        words += ("--data", data) if data else samples
        self.assertTrue((folder / "README.md").exists())
        self.call(self.prefix / "bin/plait", "check", name, *words, cwd=folder.parent)
        return self.plait(folder, "run", name, *words), data is not None

    def test_mnist_mlp(self):
        done, _ = self.train("mnist_mlp", "run.epochs=0", "run.steps=200", "evaluate.batches=2")
        self.assertEqual(done["step"], 200)
        self.assertLess(done["loss"], 2.3)
        self.assertIn("accuracy", done["evaluation"]["metrics"])

    def test_mnist_adamw(self):
        done, real = self.train("mnist_adamw", "run.steps=100", "evaluate.every=50")
        self.assertEqual(done["step"], 100)
        self.assertGreater(done["evaluation"]["metrics"]["accuracy"], 0.7 if real else 0.1)

    def test_shakespeare(self):
        """On a short text of its own: tokens, a few steps, an evaluation."""
        folder, plait = self.copy("shakespeare"), self.prefix / "bin/plait"
        (folder / "input.txt").write_text("".join(f"line {i}: to be, or not to be, that is the question\n" for i in range(800)))
        self.call(plait, "data", "tokenize", "shakespeare/input.txt", "--tokenizer", "chars", "--option", "path=shakespeare/input.txt",
                  "--out", "shakespeare/shakespeare", cwd=folder.parent)
        done = self.plait(folder, "run", "shakespeare", "run.steps=15", "batch.global=4", "batch.eval=4", "evaluate.every=0",
                          "optimizer.schedule.warmup_steps=0", "--data", "shakespeare")
        self.assertEqual(done["step"], 15)
        self.assertLess(done["evaluation"]["metrics"]["perplexity"], 40)
        self.call(plait, "run", "shakespeare/larger.toml", "run.steps=2", "batch.global=2", "batch.eval=2", "evaluate.every=0",
                  "evaluate.batches=1", "optimizer.schedule.warmup_steps=0", "--data", "shakespeare", cwd=folder.parent)
        words = ("tokenizer.path=shakespeare/input.txt", "generate.length=96")
        said = self.call(plait, "generate", "shakespeare", "--checkpoint", done["run_dir"], "--prompt", "line 1", "--max-tokens", "40", *words,
                         cwd=folder.parent)
        self.assertEqual((said[:6], len(said.rstrip("\n")) > 20), ("line 1", True))
        program = self.copy("generate_c")
        self.build(program)
        said = self.call(program / "build/generate_c", "shakespeare/experiment.toml", done["run_dir"], "line 1", *words, cwd=folder.parent)
        self.assertRegex(said, r"(?s)^line 1.*\n60 tokens shown, the other sequence ended after 20\n$")

    def test_gpt2(self):
        """Tiny, with a tokenizer of its own: from random weights, to Hugging Face's folder, from there on, and back."""
        folder, plait = self.copy("gpt2"), self.prefix / "bin/plait"
        (folder / "input.txt").write_text("".join(f"line {i}: to be, or not to be, that is the question\n" for i in range(800)))
        size = byte_tokenizer(folder / "gpt2", ["t h", "th e", "\u0120 the"])
        call = lambda *words: self.call(plait, *words, "--data", "gpt2", cwd=folder.parent)
        call("data", "tokenize", "gpt2/input.txt", "--tokenizer", "gpt2/gpt2", "--append-eod", "--out", "gpt2/train")
        tiny = [f"model.layers[{i}].{key}={value}" for i, key, value in
                ((0, "vocabulary", size), (0, "width", 32), (1, "length", 64), (2, "repeat", 2), (2, "heads", 4), (4, "out", size))]
        tiny += [f"{key}.length=64" for key in ("data.train", "data.eval", "generate")]
        call("check", "gpt2", *tiny)
        done = self.plait(folder, "run", "gpt2", *tiny, "run.steps=12", "batch.global=8", "optimizer.schedule.warmup_steps=0",
                          "--data", "gpt2")
        self.assertEqual(done["step"], 12)
        self.assertLess(done["evaluation"]["metrics"]["perplexity"], size)
        said = call("generate", "gpt2", *tiny, "--checkpoint", done["run_dir"], "--prompt", "line 1", "--max-tokens", "8")
        self.assertEqual(said[:6], "line 1")
        call("export", "hf", done["run_dir"], "folder")
        for path in (folder / "gpt2").iterdir():
            shutil.copy(path, folder.parent / "folder")
        call("import", "hf", "folder", "model")
        call("data", "tokenize", "gpt2/input.txt", "--tokenizer", "model", "--append-eod", "--out", "gpt2/train", "--yes")
        more = self.plait(folder, "run", "model", "run.steps=3", "batch.global=4", "--data", "gpt2")
        self.assertLess(more["loss"], done["loss"] + 0.1)
        call("generate", "model", "--prompt", "line 1", "--max-tokens", "8")
        call("export", "hf", more["run_dir"], "back")
        call("export", "hf", done["run_dir"], "like", "--option", "like=folder")
        for made in ("back", "like"):
            for name in ("config.json", "vocab.json", "merges.txt"):
                self.assertEqual((folder.parent / made / name).read_text(), (folder.parent / "folder" / name).read_text(), (made, name))

    def test_lora(self):
        """Over a tiny GPT-2 with a tokenizer of its own, whose training matters to nobody."""
        gpt2, folder, plait = self.copy("gpt2", "base_of_lora"), self.copy("lora"), self.prefix / "bin/plait"
        (gpt2 / "input.txt").write_text((folder / "sea.txt").read_text() * 20)
        size = byte_tokenizer(gpt2 / "gpt2", ["t h", "th e", "\u0120 the"])
        call = lambda *words: self.call(plait, *words, cwd=folder.parent)
        call("data", "tokenize", "base_of_lora/input.txt", "--tokenizer", "base_of_lora/gpt2", "--append-eod",
             "--out", "base_of_lora/train")
        tiny = [
            f"model.layers[{i}].{key}={value}"
            for i, key, value in ((0, "vocabulary", size), (0, "width", 32), (1, "length", 128),
                                  (2, "repeat", 2), (2, "heads", 4), (4, "out", size))
        ]
        tiny += [f"{key}.length=64" for key in ("data.train", "data.eval", "generate")]
        base = self.plait(folder, "run", "base_of_lora", *tiny, "run.steps=3", "batch.global=4",
                          "optimizer.schedule.warmup_steps=0", "--data", "base_of_lora")
        call("export", "hf", base["run_dir"], "lora_model")
        for path in (gpt2 / "gpt2").iterdir():
            shutil.copy(path, folder.parent / "lora_model")

        call("import", "hf", "lora_model", "base")
        shutil.copy(folder / "lora.toml", folder.parent / "base")
        for voice in ("sea", "law"):
            call("data", "tokenize", f"lora/{voice}.txt", "--tokenizer", "base", "--append-eod", "--out", f"base/{voice}")
        done = self.plait(folder, "run", "base/lora.toml", "run.name=voices", "run.steps=40",
                          "optimizer.learning_rate=0.03")
        answers = {}
        words = ("--prompt", "Tell me", "--max-tokens", "24", "--temperature", "0")
        for voice in ("sea", "law"):
            answers[voice] = call("generate", done["run_dir"], "--adapter", voice, *words)
            call("export", "peft", done["run_dir"], f"{voice}-adapter", "--option", f"adapter={voice}")
            self.assertEqual(sorted(p.name for p in (folder.parent / f"{voice}-adapter").iterdir()),
                             ["adapter_config.json", "adapter_model.safetensors"])
            call("import", "peft", f"{voice}-adapter", f"{voice}-again", "--option", "base=base")
            self.assertEqual(call("generate", f"{voice}-again/experiment.toml", *words),
                             answers[voice])
        alone = call("generate", "base/experiment.toml", *words)
        self.assertEqual(len({alone, *answers.values()}), 3)

    def test_mnist_torchrun(self):
        """Both ways to start two ranks give what one gives."""
        words = ("run.steps=15", "run.log_every=1", "evaluate.batches=2", F64)
        done, _ = self.train("mnist_torchrun", *words)
        self.assertEqual(done["step"], 15)
        folder, data = self.folder / "mnist_torchrun", data_folder()
        words += ("--data", str(data)) if data else ("data.train=" + MADE_UP.format(2000, 0), "data.eval=" + MADE_UP.format(1000, 2000))
        one = self.plait(folder, "run", "mnist_torchrun", "topology.data=1", *words)
        self.assertAlmostEqual(done["loss"], one["loss"], delta=1e-12 * one["loss"])
        if not TORCHRUN:
            self.skipTest("torchrun is neither installed nor named by PLAIT_TORCHRUN; plait run started both ranks")
        out = self.call(TORCHRUN, "--standalone", "--nproc-per-node", "2", "--no-python", self.prefix / "bin/plait", "run",
                        "mnist_torchrun", *words, "--json")
        self.assertEqual(json.loads(out.splitlines()[-1])["loss"], done["loss"])

    def test_mnist_3d(self):
        """Eight ranks in three dimensions give what one gives, and their plan has its stages."""
        words = ("run.steps=8", "run.log_every=1", "evaluate.batches=1", F64)
        done, _ = self.train("mnist_3d", *words)
        self.assertEqual(done["step"], 8)
        data = data_folder()
        words += ("--data", str(data)) if data else ("data.train=" + MADE_UP.format(2000, 0), "data.eval=" + MADE_UP.format(1000, 2000))
        alone = ("topology.pipeline=1", "topology.data=1", "topology.tensor=1")
        one = self.plait(self.folder / "mnist_3d", "run", "mnist_3d", *alone, *words)
        self.assertAlmostEqual(done["loss"], one["loss"], delta=1e-12 * one["loss"])
        plan = self.plait(self.folder / "mnist_3d", "plan", "mnist_3d", *words, "--rank", "5")
        self.assertEqual([stage["rank"] for stage in plan["pipeline"]["stages"]], [0, 1])
        axes = {kernel["collective"]["axis"] for program in plan["programs"] for kernel in program["kernels"] if "collective" in kernel}
        self.assertLessEqual({"tensor", "pipeline", "data"}, axes)

    def test_pipelines(self):
        """The model of the page of strategies can be trained, too."""
        folder, losses = self.copy("pipelines"), []
        for words in ((), ("topology.schedule=zero_bubble",), ("topology.pipeline=1",)):
            losses.append(self.plait(folder, "run", "pipelines", "run.steps=2", *words)["loss"])
        for loss in losses:
            self.assertAlmostEqual(loss, losses[-1], delta=1e-5 * losses[-1])

    def test_embed_c(self):
        folder = self.copy("embed_c")
        self.assertLessEqual(len((folder / "main.c").read_text().splitlines()), 150)
        self.build(folder)
        out = self.call("./build/embed_c", cwd=folder)
        self.assertGreater(float(re.search(r"accuracy on 512 fresh points (\S+)", out)[1]), 0.9)
        self.assertRegex(out, r"model.linear1.bias starts with -?\d")
        self.assertFalse((folder / "runs").exists())

    def test_layer_plugin(self):
        folder = self.copy("layer_plugin")
        self.build(folder)
        plugin = folder / "build/plait-acme-layers.so"
        losses = []
        for device in ("cpu", "reference"):
            done = self.plait(folder, "run", "layer_plugin", "--plugins", plugin, f"run.device={device}")
            self.assertGreater(done["evaluation"]["metrics"]["accuracy"], 0.85)
            losses.append(done["loss"])
        self.assertAlmostEqual(losses[0], losses[1], delta=1e-2)
        self.assertIn("slope = 1.0", self.call(self.prefix / "bin/plait", "plugins", "acme.gate", "--plugins", plugin))
        # Without the plugin the message says what is missing.
        with self.assertRaisesRegex(AssertionError, "(?s)exit 2.*unknown layer 'acme.gate'"):
            self.plait(folder, "check", "layer_plugin")


if __name__ == "__main__":
    unittest.main()
