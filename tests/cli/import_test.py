"""plait import and plait export with a format: from a folder of Hugging Face and back, as a user would."""

import json
import shutil
import unittest

from support import Case, ROOT

HF = ROOT / "tests/golden/hf"
TOKENIZER = json.dumps({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})
TEXT = "it is a truth universally acknowledged that a model in possession of a good folder must be in want of a run. " * 12


class Import(Case):
    def imported(self, family, *options):
        """The folder `family`, ready to train on characters."""
        self.write("t.txt", TEXT)
        self.expect(0, "data", "tokenize", "t.txt", "--tokenizer", "chars", "--option", "path=t.txt", "--out", "train", "--yes")
        return self.expect(0, "import", "hf", HF / family, family, *options)

    def losses(self, name, *overrides, out="runs"):
        self.expect(0, "run", f"{name}/experiment.toml", "--data", ".", "run.steps=3", "batch.global=4", f"run.out={out}",
                    "data.train.length=16", f"run.name={name}", "run.resume=never", *overrides)
        newest = sorted((self.folder / out / name).iterdir())[-1]
        lines = [json.loads(line) for line in (newest / "metrics.ndjson").read_text().splitlines()]
        return newest, [line["loss"] for line in lines if "loss" in line and "step" in line]

    def test_there_and_back(self):
        done = self.imported("llama")
        self.assertIn("21 tensors, ", done.out)
        self.assertIn("plait check llama/experiment.toml", done.out)
        self.assertEqual(sorted(p.name for p in (self.folder / "llama").iterdir()),
                         ["config.json", "experiment.toml", "weights.map.json"])
        self.expect(0, "check", "llama/experiment.toml", "--data", ".")
        run, _ = self.losses("llama", "optimizer.learning_rate=0")
        out = self.expect(0, "export", "hf", run, "back").out
        self.assertIn("21 tensors of step 3, bf16", out)
        self.assertEqual((HF / "llama/model.safetensors").read_bytes(), (self.folder / "back/model.safetensors").read_bytes())
        theirs, ours = (json.loads(path.read_text()) for path in (HF / "llama/config.json", self.folder / "back/config.json"))
        self.assertEqual({**ours, **theirs}, ours)
        self.expect(0, "import", "hf", "back", "again")

    def test_samples_beyond_the_places_of_the_model(self):
        self.expect(0, "import", "hf", HF / "llama", "llama")
        self.assertIn("\ncontext_length = 64  # max_position_embeddings\n", (self.folder / "llama/experiment.toml").read_text())
        def said(length, *more):
            fields = ", ".join(f'"{name} i32 [{length}]"' for name in ("tokens: input", "labels: target"))
            return self.expect(0, "plan", "llama/experiment.toml", f"data.train.fields=[{fields}]", *more).err
        self.assertNotIn("context_length", said(64))
        self.assertIn(": samples of [data.train] have 65 tokens, and model.context_length is 64 (llama/experiment.toml:", said(65))
        self.assertNotIn("context_length", said(65, "model.context_length=0"))
        self.assertIn("override 'generate.length=66': generate.length is 66 tokens, and", said(64, "generate.length=66"))

    def test_experts_there_and_back(self):
        """Each is a tensor of the files, and a slice of a parameter here."""
        done = self.imported("olmoe")
        self.assertIn("27 tensors, ", done.out)
        places = json.loads((self.folder / "olmoe/weights.map.json").read_text())["parameters"]
        self.assertEqual(places["h1.mlp.down.weight"],
                         {"tensors": [f"model.layers.1.mlp.experts.{i}.down_proj.weight" for i in range(4)]})
        run, _ = self.losses("olmoe", "optimizer.learning_rate=0", "topology.tensor=2",
                             "model.layers[1].parallel=heads", "topology.backend=shm")
        self.assertIn("45 tensors of step 3, bf16", self.expect(0, "export", "hf", run, "back").out)
        self.assertEqual((HF / "olmoe/model.safetensors").read_bytes(),
                         (self.folder / "back/model.safetensors").read_bytes())
        self.expect(0, "import", "hf", "back", "again")
        first, second = (self.expect(0, "generate", f"{name}/experiment.toml", "--ids", "1,2,3", "--temperature", "0",
                                     "--max-tokens", "8", "--length", "32", "--json").event("sequence")["ids"]
                         for name in ("olmoe", "again"))
        self.assertEqual(first, second)

    def test_exported_in_the_types_of_the_source(self):
        """Of each tensor, where nothing else is asked for; the checkpoint has f32."""
        def types(path):
            data = (self.folder / path / "model.safetensors").read_bytes()
            header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
            return {
                name: entry["dtype"]
                for name, entry in header.items() if name != "__metadata__"
            }

        def written_as(path):
            config = json.loads((self.folder / path / "config.json").read_text())
            return config["dtype"], config["torch_dtype"]

        self.imported("llama")
        run, _ = self.losses("llama")
        # Some libraries keep norms in f32.
        self.expect(0, "export", "hf", run, "mixed", "--dtype", "f16")
        data = (self.folder / "mixed/model.safetensors").read_bytes()
        size = int.from_bytes(data[:8], "little")
        header, values = json.loads(data[8:8 + size]), data[8 + size:]
        begin, end = header["model.norm.weight"]["data_offsets"]
        header["model.norm.weight"] |= {
            "dtype": "F32", "data_offsets": [len(values),
                                             len(values) + 2 * (end - begin)]
        }
        moved = {k: e for k, e in header.items() if k not in ("model.norm.weight", "__metadata__")}
        kept, at = b"", 0
        for entry in sorted(moved.values(), key=lambda e: e["data_offsets"][0]):
            piece = values[slice(*entry["data_offsets"])]
            entry["data_offsets"] = [at, at + len(piece)]
            kept, at = kept + piece, at + len(piece)
        header["model.norm.weight"]["data_offsets"] = [at, at + 2 * (end - begin)]
        text = json.dumps(header).encode()
        (self.folder / "mixed/model.safetensors"
         ).write_bytes(len(text).to_bytes(8, "little") + text + kept + bytes(2 * (end - begin)))

        self.expect(0, "import", "hf", "mixed", "m")
        run, _ = self.losses("m")
        self.assertIn("21 tensors of step 3, f16 and f32",
                      self.expect(0, "export", "hf", run, "own").out)
        self.assertEqual(types("own"), types("mixed"))
        self.assertEqual(sorted(set(types("own").values())), ["F16", "F32"])
        self.assertEqual(written_as("own"), ("float16", "float16"))
        for dtype, name, word in (("f32", "F32", "float32"), ("bf16", "BF16", "bfloat16")):
            self.expect(0, "export", "hf", run, dtype, "--dtype", dtype)
            self.assertEqual(set(types(dtype).values()), {name})
            self.assertEqual(written_as(dtype), (word, word))
        shutil.rmtree(self.folder / "mixed")
        done = self.expect(0, "export", "hf", run, "gone")
        self.assertIn("warning: [export] the weights that the model began with cannot be read (",
                      done.err)
        self.assertIn("plait export --dtype", done.err)
        self.assertEqual(set(types("gone").values()), {"F32"})

    def test_ranks_read_their_own_parts(self):
        """Joined and transposed tensors, and tensors of experts, shared by tensor ranks, replicas that shard them, and stages."""
        for family in ("gpt2", "phi3", "mixtral"):
            self.imported(family)
            _, one = self.losses(family, out="one")
            self.assertEqual(len(one), 3)
            layers = (self.folder / family / "experiment.toml").read_text().split("[[model.layers]]")[1:]
            heads = next(i for i, layer in enumerate(layers) if "decoder_block" in layer)
            for name, overrides in (("tensor", ["topology.tensor=2", f"model.layers[{heads}].parallel=heads"]),
                                    ("zero", ["topology.data=2", "topology.zero=3"]),
                                    ("pipeline", ["topology.pipeline=2"])):
                with self.subTest(family=family, layout=name):
                    _, many = self.losses(family, *overrides, "topology.backend=shm", out=name)
                    for a, b in zip(one, many, strict=True):
                        self.assertAlmostEqual(a, b, delta=2e-5 * abs(a))

    def test_tokenizer_goes_along(self):
        shutil.copytree(HF / "qwen2", self.folder / "model")
        for name in ("tokenizer.json", "tokenizer_config.json", "merges.txt", "chat_template.jinja", "generation_config.json"):
            self.write(f"model/{name}", TOKENIZER if name == "tokenizer.json" else "{}")
        self.write("model/README.md", "not copied")
        self.expect(0, "import", "hf", "model", "in")
        self.assertEqual(sorted(p.name for p in (self.folder / "in").iterdir()),
                         ["chat_template.jinja", "config.json", "experiment.toml", "generation_config.json", "merges.txt",
                          "tokenizer.json", "tokenizer_config.json", "weights.map.json"])

    def test_tokenizer_is_tried(self):
        """A damaged tokenizer is found by the import; one of a kind that is not known is a warning, as training needs none."""
        for code, name, content, *says in (
                (2, "tokenizer.json", TOKENIZER[:-9], "model/tokenizer.json', offset", "is the file complete?"),
                (2, "tokenizer.json", TOKENIZER.replace('"a b"', '"b a"'), "key 'model.merges[0]': 'ba' is no token of the vocabulary"),
                (2, "tokenizer.model", "no model", "model/tokenizer.model', offset", "SentencePiece cannot read it as a model"),
                (2, "vocab.json", '{"a": 0}', "merges.txt': cannot open it")):
            with self.subTest(name=name, content=content):
                shutil.rmtree(self.folder / "model", ignore_errors=True)
                shutil.copytree(HF / "llama", self.folder / "model")
                self.write(f"model/{name}", content)
                self.fails(code, ["import", "hf", "model", "x"],
                           "the tokenizer of 'model' cannot be opened; mend its file, or move it away", *says)
                self.assertFalse((self.folder / "x").exists())
        (self.folder / "model/vocab.json").unlink()
        self.write("model/tokenizer.json", TOKENIZER.replace("BPE", "WordPiece"))
        done = self.expect(0, "import", "hf", "model", "x")
        self.assertIn("warning: [import] the tokenizer of 'model' is not known (path '", done.err)
        self.assertIn("key 'model.type': 'WordPiece' is not known; known are BPE, Unigram); the model learns from token ids alone",
                      done.err)
        self.write("model/tokenizer.json", TOKENIZER)
        self.assertEqual(self.expect(0, "import", "hf", self.folder / "model", "y").err, "")

    def test_fine_tuned(self):
        """As examples/finetune says, with a tokenizer of characters: the model comes back, and has learned."""
        self.expect(0, "import", "hf", HF / "llama", "model")
        chats = (ROOT / "examples/finetune/chats.jsonl").read_text()
        self.write("chats.jsonl", chats)
        letters = "".join(sorted(set(chats + "<|system|>end_of_text")))
        self.assertLessEqual(len(letters), 96)
        text = (self.folder / "model/experiment.toml").read_text()
        before, after = text.split("[data.train]")
        self.write("model/experiment.toml", before + "[data.train]\ntype = \"fine_tune\"\nfiles = \"../chats.jsonl\"\n"
                   f"tokenizer = {{type = \"chars\", characters = {json.dumps(letters)}}}\ntemplate = \"tulu\"\nlength = 128\n\n["
                   + after.split("\n[", 1)[1])
        self.expect(0, "check", "model")
        shown = self.expect(0, "data", "show", "model", "--count", 12).out
        self.assertIn("12 samples of fine_tune", shown)
        self.assertIn("What is 2 + 2?\\n<|assistant|>\\n«4<|end_of_text|>»", shown)
        packed = ["data.train.pack=best_fit", "data.train.reset_attention=true"]
        self.assertRegex(self.expect(0, "check", "model", *packed).err, r"warning: .*nothing reads the field 'first' of \[data.train\]")
        self.assertNotIn("nothing reads", self.expect(0, "check", "model", *packed, "model.layers[1].documents=first").err)
        self.expect(0, "run", "model", "run.steps=12", "batch.global=4", "optimizer.learning_rate=1e-3", "run.name=tuned")
        newest = sorted((self.folder / "runs/tuned").iterdir())[-1]
        lines = [json.loads(line) for line in (newest / "metrics.ndjson").read_text().splitlines()]
        losses = [line["loss"] for line in lines if "loss" in line and "step" in line]
        self.assertLess(losses[-1], losses[0])
        self.expect(0, "export", "hf", newest, "back")
        self.expect(0, "import", "hf", "back", "again")

    def test_refused(self):
        self.imported("llama")
        run, _ = self.losses("llama")
        self.write("kept.txt", "")
        (self.folder / "kept").mkdir()
        self.write("kept/notes.txt", "mine")
        for name, text in (("broken", "{"), ("strange", '{"model_type": "zz"}')):
            shutil.copytree(HF / "llama", self.folder / name)
            self.write(name + "/config.json", text)
        for code, words, *says in (
                (2, ["import", "gguf", HF / "llama", "x"], "unknown format 'gguf'", "hf"),
                (2, ["import", "gguf", HF / "llama"], "[cli] unknown format 'gguf'; known are: hf, peft"),
                (2, ["import", "hff"], "[cli] unknown format 'hff' (did you mean 'hf'?); known are: hf, peft"),
                (2, ["import", "hf"], "[cli] plait import needs FOLDER: the folder of the model, whose weights stay there; see plait import --help"),
                (2, ["import", "hf", HF / "llama"], "[cli] plait import needs OUT: a new folder for experiment.toml, "),
                (2, ["generate", HF / "llama", "--ids", "1"], "llama NEW_FOLDER", "import hf"),
                (2, ["import", "hf", "nowhere", "x"], "'nowhere' is not a folder here", "does not download models"),
                (2, ["export", "hf", "nowhere", "x"], "'nowhere' does not exist", "run directory"),
                (2, ["import", "hf", HF / "llama", "llama"], "'llama' exists; choose another name, or remove this folder"),
                (2, ["import", "hf", HF / "llama", "kept", "--yes"], "'kept' exists; choose another name, or remove this folder: --yes replaces files alone"),
                (2, ["import", "hf", HF / "llama", ""], "[import] the name of the result is empty"),
                (2, ["import", "hf", "broken", "x"], "config.json"),
                (2, ["import", "hf", "strange", "x"], "model_type", "'zz'"),
                (2, ["import", "hf", HF / "llama", "x", "--option", "lik=y"], "--option lik: ",
                 "unknown key 'lik' (did you mean 'like'?)"),
                (2, ["export", run, "x", "--option", "family=llama"], "belong to a format"),
                (2, ["export", "hf", run, "x.safetensors"], "is a file, and a format writes a folder"),
                (2, ["export", "hf", run, "x", "--rename", "a=b"], "names beside a format"),
                (2, ["export", "hf", run, "x", "--option", "family=gemma2"], "gemma2: norm_at is \"pre\", and it has \"both\""),
                (2, ["export", "hf", run, "x", "--option", "family=gemma"], "family 'gemma' is not known; known are gpt2, llama"),
                (2, ["export", "hf", run, "x", "--dtype", "int4"], "int4"),
                (2, ["export", "hf", "kept.txt", "x"], "there is no run.toml beside 'kept.txt'", "--experiment FILE")):
            with self.subTest(words=words):
                self.fails(code, words, *says)
                self.assertFalse((self.folder / "x").exists())
        self.assertNotIn("experiment", self.plait("import", "gguf", HF / "llama", "x").err)
        self.assertEqual((self.folder / "kept/notes.txt").read_text(), "mine")
        # What is there is replaced, and stays where the new one fails.
        self.write("other", "mine")
        self.fails(2, ["import", "hf", "broken", "other", "--yes"], "config.json")
        self.assertEqual((self.folder / "other").read_text(), "mine")
        out = self.expect(0, "import", "hf", HF / "llama", "other", "--yes").out
        self.assertRegex(out, r"\n\d+ tensors, 0\.\d MB, read from \S+llama, not copied\n")
        self.assertTrue((self.folder / "other/experiment.toml").exists())
        self.assertFalse(list(self.folder.glob(".other*")))

    def test_an_activation_that_gated_blocks_lack(self):
        shutil.copytree(HF / "llama", self.folder / "theirs")
        config = json.loads((HF / "llama/config.json").read_text())
        self.write("theirs/config.json", json.dumps({**config, "hidden_act": "relu"}))
        self.fails(2, ["import", "hf", "theirs", "x"], "key 'hidden_act': 'relu' is not supported in a gated MLP, which llama has; "
                   "supported are silu, swish, gelu, gelu_new, gelu_pytorch_tanh, gelu_fast")
        self.write("theirs/config.json", json.dumps({**config, "hidden_act": "mish"}))
        self.fails(2, ["import", "hf", "theirs", "x"], "'mish' is not known; known are silu")

    def test_weights_that_moved(self):
        """The weights are read where they are: a folder that has gone is named, with what to do."""
        shutil.copytree(HF / "llama", self.folder / "model")
        self.imported("llama")
        text = (self.folder / "llama/weights.map.json").read_text()
        self.write("llama/weights.map.json", text.replace(str(HF / "llama"), "../gone"))
        self.fails(2, ["run", "llama/experiment.toml", "--data", ".", "data.train.length=16"], "weights.map.json", "gone",
                   "import the model again")
        self.write("llama/weights.map.json", text.replace(str(HF / "llama"), "../model"))
        self.losses("llama")
        self.fails(2, ["run", "llama/experiment.toml", "--data", ".", "data.train.length=16", "model.layers[1].ffn=40"], "mlp.", "as parameter 'model.h0.mlp.",
                   "take weights that belong to these layers")


if __name__ == "__main__":
    unittest.main()
