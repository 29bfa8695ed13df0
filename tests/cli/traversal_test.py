"""Names inside of files, and names that become files: none leads out of its folder.

PLAIT_TEST_ALL=1 tries every name in every place."""

import json
import os
import shutil
import struct
import unittest

from support import TINY, Case

ALL = os.environ.get("PLAIT_TEST_ALL") == "1"
# {out}: the absolute path of a folder beside the one that a name belongs to. It has what a name that leads there would find.
PAYLOADS = [
    "", ".", "..", "/", "../", "../..", "../out", "../out/model.safetensors", "./../out/model.safetensors", "x/../../out/model.safetensors",
    "../../../../../../../../etc/passwd", "{out}", "{out}/model.safetensors", "/{out}/model.safetensors", "//{out}//model.safetensors",
    "../out//model.safetensors", "..//out/model.safetensors", "..///out/model.safetensors", "....//out/model.safetensors", ".../out/model.safetensors",
    "./model.safetensors/../../out/model.safetensors", "model.safetensors/../../out/model.safetensors", "../out/model.safetensors/", "../out/./model.safetensors",
    "..\\out\\model.safetensors", "\\..\\out\\model.safetensors", "C:\\out\\model.safetensors", "%2e%2e/out/model.safetensors",
    "..%2fout%2fmodel.safetensors", "%2e%2e%2fout%2fmodel.safetensors", "..%c0%afout", "file://{out}/model.safetensors", "~", "~/out/model.safetensors",
    "$HOME/out", "$(touch ../out/run)", "`touch ../out/run`", "\u2025/out/model.safetensors", "..\u2215out\u2215model.safetensors", "\uff0e\uff0e\uff0fout",
    "..\0/out/model.safetensors", "../out/model.safetensors\0.safetensors", "model.safetensors\0/../../out/model.safetensors", "..\n/out",
    "../out/model.safetensors\n", " ../out/model.safetensors", "../out/model.safetensors ", "/dev/stdin", "/proc/self/environ", "/proc/self/cwd/../out/model.safetensors",
    "/proc/self/fd/0", "x" * 300, "../" * 2000 + "out", "-", "--help", "CON", "nul", ".hidden", "x/y",
]


def everything(folder, but):
    """Every path below a folder with its size and its time; not what is below `but`."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if but not in path.parents:
            found[str(path)] = (path.lstat().st_size if path.is_file() else 0, path.lstat().st_mtime_ns if path.is_file() else 0)
    return found


class Traversal(Case):
    def setUp(self):
        super().setUp()
        self.assertGreaterEqual(len(PAYLOADS), 40)
        self.root = self.folder  # of all that a test looks at
        self.home = self.root / "home"
        self.out = self.root / "out"
        self.home.mkdir()
        self.folder = self.home
        self.write("t.toml", TINY.replace("steps = 40", "steps = 2"))
        self.expect(0, "run", "t.toml", "--run-dir", "r", "-q")
        self.expect(0, "export", "r", self.out, "--yes", "-q")
        (self.out / "passwd").write_text("root\n")

    def each(self, step=1):
        """All payloads, or with a step some of them unless all are asked for."""
        return [payload.replace("{out}", str(self.out)) for payload in PAYLOADS[::1 if ALL else step]]

    def test_files_of_weights(self):
        """The files of tensors that an index names."""
        data = (self.out / "model.safetensors").read_bytes()
        tensors = [name for name in json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]]) if name != "__metadata__"]
        bad = self.home / "bad"
        bad.mkdir()
        (bad / "model.safetensors").write_bytes(data)
        index = bad / "model.safetensors.index.json"
        load = ["run", "t.toml", "model.load=bad/model.safetensors.index.json", "--run-dir", "new"]
        index.write_text(json.dumps({"weight_map": {name: "model.safetensors" for name in tensors}}))
        self.expect(0, *load)
        shutil.rmtree(self.home / "new")
        before = everything(self.root, self.home / "new")
        for payload in self.each():
            with self.subTest(payload[:80]):
                index.write_text(json.dumps({"weight_map": {name: payload for name in tensors}}))
                done = self.plait(*load)
                self.assertIn(done.code, (1, 2, 3), done.err)
                self.assertIn("expected a file beside it" if {"/", "\0"} & set(payload) or payload in ("", ".", "..") else "bad/", done.err)
                index.unlink()
                after = everything(self.root, self.home / "new")
                self.assertEqual(after.keys() - before.keys(), set())

    def test_names_of_runs(self):
        """A run's folder lies in run.out, or there is no run."""
        for payload in self.each():
            with self.subTest(payload[:80]):
                runs = self.home / "runs"
                before = everything(self.root, runs)
                done = self.plait("run", "t.toml", "-q", "--set", f"run.name={json.dumps(payload)}")
                after = everything(self.root, runs)
                after.pop(str(runs), None)
                self.assertEqual(after, before)
                self.assertEqual(done.code == 0, runs.exists(), done.err)
                shutil.rmtree(runs, ignore_errors=True)

    def test_names_of_adapters(self):
        """An adapter's name becomes a part of the names of its parameters, and of files, where it is saved."""
        adapter = '[[model.adapters]]\ntype = "lora"\nname = %s\nrank = 2\nmatch = ["*.linear1.weight"]\n'
        for payload in self.each(3):
            with self.subTest(payload[:80]):
                self.write("a.toml", TINY.replace("steps = 40", "steps = 1") + adapter % json.dumps(payload))
                before = everything(self.root, self.home / "made")
                done = self.plait("run", "a.toml", "--run-dir", "made/r", "-q")
                if done.code == 0:
                    self.plait("export", "made/r", "made/out", "--yes", "-q")
                after = everything(self.root, self.home / "made")
                self.assertEqual(after.keys() - before.keys() - {str(self.home / "made")}, set())
                shutil.rmtree(self.home / "made", ignore_errors=True)

    def test_names_of_best_checkpoints(self):
        hint = self.home / "r/ckpt/best"
        for payload in self.each(3):
            with self.subTest(payload[:80]):
                hint.write_text(payload + "\n")
                before = everything(self.root, hint)
                self.assertNotEqual(self.plait("eval", "r", "--checkpoint", "best").code, 0)
                self.assertEqual(everything(self.root, hint), before)


if __name__ == "__main__":
    unittest.main()
