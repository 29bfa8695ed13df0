"""plait export, and weights that other programs wrote: what the ecosystem's readers see."""

import json
import pathlib
import struct
import unittest

from support import RankCase

NAMES = {"model.linear1.weight": [16, 8], "model.linear1.bias": [16], "model.linear2.weight": [3, 16], "model.linear2.bias": [3]}


def read_safetensors(path):
    """Name -> (shape, values), by the format's description alone."""
    data = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])
    assert header.pop("__metadata__") == {"format": "pt"}
    tensors, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        assert entry["dtype"] == "F32" and entry["data_offsets"][0] == end
        end = entry["data_offsets"][1]
        tensors[name] = entry["shape"], struct.unpack(f"<{(end - entry['data_offsets'][0]) // 4}f",
                                                      data[8 + size + entry["data_offsets"][0]:8 + size + end])
    assert 8 + size + end == len(data)
    return tensors


def read_folder(folder):
    """The same of a folder of the hub: one file, or shards with their index, as transformers reads it."""
    folder = pathlib.Path(folder)
    if (folder / "model.safetensors").exists():
        return read_safetensors(folder / "model.safetensors")
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    tensors = {}
    for file in set(index["weight_map"].values()):
        of_file = read_safetensors(folder / file)
        assert set(of_file) == {name for name, at in index["weight_map"].items() if at == file}
        tensors |= of_file
    assert index["metadata"]["total_size"] == sum(4 * len(values) for _, values in tensors.values())
    return tensors


def write_safetensors(path, tensors):
    """tensors: name -> (shape, values)."""
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        piece = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(head)) + head + data)


def parallel(**topology):
    return [f"topology.{key}={value}" for key, value in topology.items()] + ["model.layers[0].parallel=column",
                                                                             "model.layers[3].parallel=row"]


class Export(RankCase):
    def train(self, into, *words, steps=5):
        self.expect(0, "run", "t.toml", "--run-dir", into, "-q", f"run.steps={steps}", *words)

    def checkpoint(self, run):
        return max((self.folder / run / "ckpt").glob("step-*"))

    def loss_of(self, load, *words):
        self.train("from", f"model.load={load}", "optimizer.learning_rate=0", "run.resume=never", *words, steps=1)
        loss = self.expect(0, "eval", "t.toml", "--checkpoint", "from", "--json").records[-1]["loss"]
        for path in sorted((self.folder / "from").rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        (self.folder / "from").rmdir()
        return loss

    def test_several_ranks_give_the_weights_of_one(self):
        self.train("one")
        one = read_safetensors(self.checkpoint("one") / "model.safetensors")
        self.assertEqual({name: shape for name, (shape, _) in one.items()}, NAMES)
        layouts = {"grid": parallel(pipeline=2, tensor=2, zero=1), "sharded": parallel(data=2, tensor=2, zero=3),
                   "replicas": parallel(data=2)}
        for name, words in layouts.items():
            self.train(name, *words)
            files = self.expect(0, "export", name, f"{name}.safetensors", "--json").records[0]
            self.assertEqual((files["step"], files["tensors"], files["files"]), (5, 4, [f"{name}.safetensors"]))
            self.expect(0, "export", self.checkpoint(name), f"{name}-shards", "--max-shard-size", "256")
            whole, shards = read_safetensors(self.folder / f"{name}.safetensors"), read_folder(self.folder / f"{name}-shards")
            self.assertEqual(len(list((self.folder / f"{name}-shards").iterdir())), 4)  # three shards, one above the limit
            self.assertEqual(whole, shards)
            self.assertEqual({key: shape for key, (shape, _) in whole.items()}, NAMES)
            for key, (_, values) in whole.items():
                for found, expected in zip(values, one[key][1], strict=True):
                    self.assertAlmostEqual(found, expected, delta=1e-5)
        self.assertEqual([path.name for path in self.folder.iterdir() if path.name.startswith(".tmp")], [])

    def test_one_rank_keeps_every_bit(self):
        self.train("one")
        self.expect(0, "export", "one", "out")
        self.assertEqual((self.folder / "out/model.safetensors").read_bytes(),
                         (self.checkpoint("one") / "model.safetensors").read_bytes())

    def test_a_checkpoint_of_whole_tensors_has_an_index(self):
        self.train("replicas", "topology.data=2")
        self.assertEqual({name: shape for name, (shape, _) in read_folder(self.checkpoint("replicas")).items()}, NAMES)
        self.train("halves", *parallel(tensor=2))
        self.assertFalse((self.checkpoint("halves") / "model.safetensors.index.json").exists())

    def test_other_names_out_and_in_again(self):
        self.train("two", *parallel(tensor=2))
        expected = self.expect(0, "eval", "t.toml", "--checkpoint", "two", "--json").records[-1]["loss"]
        rename = ["--rename", "model.linear1.*=fc_in.*", "--rename", "model.*=*"]
        self.expect(0, "export", "two", "out", "--max-shard-size", "256", *rename)
        self.assertEqual(set(read_folder(self.folder / "out")), {"fc_in.weight", "fc_in.bias", "linear2.weight", "linear2.bias"})
        self.expect(0, "export", "two", "out.safetensors", *rename)
        for load in ("out", "out.safetensors", "out/model.safetensors.index.json"):
            for words in ([], parallel(tensor=2)):
                loss = self.loss_of(load, 'model.load_names=["linear1.*=fc_in.*"]', *words)
                self.assertAlmostEqual(loss, expected, delta=1e-6)
        self.fails(2, ["run", "t.toml", "model.load=out", "run.out=x"], "'./out' (model.load) has no tensor 'model.linear1.weight'",
                   "it has fc_in.bias, fc_in.weight, linear2.bias, linear2.weight", "model.load_names = [\"OURS=THEIRS\"]")
        self.fails(2, ["run", "t.toml", "model.load=two", 'model.load_names=["linear1.bias=nope"]', "run.out=x"],
                   "has no tensor 'nope' for 'model.linear1.bias'")
        self.fails(2, ["run", "t.toml", "model.load=out", 'model.load_names=["lin1.*=fc_in.*"]'],
                   "model.load_names: 'lin1.*' of 'lin1.*=fc_in.*' matches no parameter of model",
                   "model.linear1.bias")
        shards = [path.name for path in (self.folder / "out").glob("model-*.safetensors")]
        self.assertGreater(len(shards), 1)
        self.fails(2, ["run", "t.toml", f"model.load=out/{shards[0]}", "run.out=x",
                       'model.load_names=["linear1.*=fc_in.*"]'],
                   "one of several files of weights; name their folder: model.load = \"./out\"")
        self.fails(2, ["run", "t.toml", "model.load=nowhere", "run.out=x"], "model.load names 'nowhere', which does not exist")
        self.fails(2, ["check", "t.toml", "model.load=nowhere"], "override 'model.load=nowhere': model.load:", "names 'nowhere', which does not exist")
        (self.folder / "empty").mkdir()
        self.fails(2, ["check", "t.toml", "model.load=empty"], "is not a checkpoint and contains none")
        self.write("broken.safetensors", "no header")
        self.fails(2, ["check", "t.toml", "model.load=broken.safetensors"], "broken.safetensors")
        self.fails(2, ["check", "t.toml", "model.load=out"], "'./out' (model.load) has no tensor 'model.linear1.weight'")
        self.expect(0, "check", "t.toml", "model.load=out", 'model.load_names=["linear1.*=fc_in.*"]')
        self.expect(0, "check", "t.toml", "model.load=two")
        self.fails(2, ["check", "t.toml", 'model.load_names=["a*=b", "c"]', "model.load=out"], "the rule 'a*=b' has a '*' on one side only",
                   "the rule 'c' has no '='")
        for key in ("load_names", "load_missing", "load_unexpected"):
            self.fails(2, ["check", "t.toml", f'model.{key}=["a=b"]'], f"model.{key}: is about the weights that model.load names, and it names none")

    def test_files_of_other_kinds(self):
        self.expect(0, "run", "t.toml", "--run-dir", "r", "-q", "run.steps=2", "evaluate.every=1", "checkpoint.every=1", "checkpoint.best=loss")
        self.fails(2, ["export", "r", "x.pt"], "'x.pt': weights are written as safetensors only; name NAME.safetensors")
        self.assertFalse((self.folder / "x.pt").exists())
        self.fails(2, ["export", "r", "hf"], "the format hf comes first, the folder last: plait export hf r FOLDER; a folder of that name is ./hf")
        self.fails(2, ["export", "r", "peft", "a b"], "plait export peft r 'a b'\n")
        self.assertFalse((self.folder / "hf").exists())
        self.expect(0, "export", "r", "./hf")
        self.fails(2, ["export", "hf", "hf", "out"], "there is no run.toml beside 'hf'")  # the format, of that folder
        for name, first, kind in (("zip.pt", b"PK\x03\x04" + bytes(40), "a zip, as torch.save"),
                                  ("old.pt", b"\x80\x02\x8a\x0a" + b"l" * 40, "a pickle, as old torch.save")):
            (self.folder / name).write_bytes(first)
            self.fails(2, ["run", "t.toml", "model.load=" + name, "run.steps=1"], "this is no safetensors file, but " + kind,
                       "safetensors.torch.save_file(torch.load(")
        self.expect(0, "eval", "r", "--checkpoint", "best")  # that of the run

    def test_faults(self):
        self.train("one", steps=1)
        self.expect(0, "export", "one", "out")
        self.fails(2, ["export", "one", "out"], "'out' exists; choose another name, or remove this folder: --yes replaces files alone")
        self.fails(2, ["export", "one", "out", "--yes"], "'out' exists; choose another name")
        (self.folder / "empty").mkdir()
        self.expect(0, "export", "one", "empty", "--yes")
        self.expect(0, "export", "one", "out.safetensors")
        self.expect(0, "export", "one", "out.safetensors", "--yes")
        self.fails(2, ["export", "one", "one", "--yes"], "'one' exists; choose another name")
        self.assertFalse(list(self.folder.glob(".out*")))
        self.fails(2, ["export", "one", "x", "--rename", "model.linear*.bias=b"], "has a '*' on one side only")
        self.fails(2, ["export", "one", "x", "--rename", "model.linaer1.*=a*"], "the rule 'model.linaer1.*=a*' matches no parameter of ",
                   "names are whole, such as 'model.linear1.bias'")
        self.fails(2, ["export", "one", "x", "--rename", "model.linear2.bias=model.linear1.bias"],
                   "'model.linear1.bias' and 'model.linear2.bias' both become 'model.linear1.bias'")
        self.fails(3, ["export", "one", "no/folder/x.safetensors"], "no/folder")
        self.assertFalse((self.folder / "x").exists())
        shard = self.folder / "out/model.safetensors"
        tensors = read_safetensors(shard)
        for weight_map, text in (({"model.linear1.bias": "../out/model.safetensors"}, "expected a file beside it"),
                                 ({"nothing": "model.safetensors"}, "'nothing' is in 'model.safetensors', which has none")):
            (self.folder / "bad").mkdir(exist_ok=True)
            write_safetensors(self.folder / "bad/part.safetensors", tensors)
            write_safetensors(self.folder / "bad/model.safetensors", tensors)
            (self.folder / "bad/model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
            self.fails(2, ["run", "t.toml", "model.load=bad/model.safetensors.index.json", "run.out=x"], text)
        for text in ("[]", "{", '{"weight_map": []}'):
            (self.folder / "bad/model.safetensors.index.json").write_text(text)
            self.fails(2, ["run", "t.toml", "model.load=bad/model.safetensors.index.json", "run.out=x"], "model.safetensors.index.json'")


if __name__ == "__main__":
    unittest.main()
