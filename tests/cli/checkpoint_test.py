"""plait checkpoint: checkpoints listed, verified, compared and rewritten."""

import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import unittest

from support import PLAIT, TIME, RankCase

# Permissions hold for root, too.
AS_OWNER = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []

GRID = ["topology.data=2", "topology.tensor=2", "topology.zero=1", "model.layers[0].parallel=column", "model.layers[3].parallel=row"]
PIPELINE = ["topology.pipeline=2", "batch.micro=4"]


class Checkpoints(RankCase):
    def train(self, into, *words, steps=10, code=0):
        self.expect(code, "run", "t.toml", "--run-dir", into, "-q", "run.log_every=1", f"run.steps={steps}", *words)

    def losses(self, run):
        """Step -> loss as it is written, of the newest start of a run."""
        lines = [json.loads(line) for line in (self.folder / run / "metrics.ndjson").read_text().splitlines()]
        return {line["step"]: line["loss"] for line in lines if "loss" in line and "event" not in line}

    def flip(self, path, at=-1):
        data = bytearray((self.folder / path).read_bytes())
        data[at] ^= 1
        (self.folder / path).write_bytes(data)

    def files_of(self, folder):
        return sorted(path.name for path in (self.folder / folder).iterdir())


class Hostile(Checkpoints):
    def test_a_pipe_holds_nothing_up(self):
        self.train("r", steps=4)
        manifest = next((self.folder / "r/ckpt").glob("step-*")) / "MANIFEST.json"
        manifest.unlink()
        os.mkfifo(manifest)
        for words in (["run", "t.toml", "--run-dir", "r", "--resume", "must"], ["checkpoint", "verify", "r"]):
            done = self.plait(*words)
            self.assertIn("MANIFEST.json' is not a regular file", done.out + done.err)
        self.expect(0, "checkpoint", "ls", "r")
        (self.folder / "q").mkdir()
        os.mkfifo(self.folder / "q/lock")
        done = self.plait("run", "t.toml", "--run-dir", "q")
        self.assertNotEqual(done.code, 0)
        self.assertIn("lock' is a pipe, expected a regular file", done.err)


class Listed(Checkpoints):
    def test_runs_and_marks(self):
        self.assertIn("there is no 'runs'", self.expect(2, "checkpoint", "ls").err)
        self.train("runs/a", "checkpoint.every=4", "checkpoint.keep=5", "evaluate.every=4", "checkpoint.best=accuracy", steps=12)
        self.train("runs/b", *GRID)
        listed = self.expect(0, "checkpoint", "ls", "--json").records[0]
        self.assertEqual(listed["kind"], "runs")
        found = {c["path"]: c for c in listed["checkpoints"]}
        self.assertEqual(list(found), [f"runs/a/ckpt/step-{step:010}" for step in (12, 8, 4)] + ["runs/b/ckpt/step-0000000010"])
        evaluations = [json.loads(line) for line in (self.folder / "runs/a/metrics.ndjson").read_text().splitlines() if "accuracy" in line]
        accuracy = {line["step"]: line["accuracy"] for line in evaluations if "accuracy" in line}
        best = (self.folder / "runs/a/ckpt/best").read_text().strip()
        for path, c in found.items():
            self.assertEqual(c["state"], "complete")
            self.assertEqual(c["bytes"], sum(f.stat().st_size for f in (self.folder / path).iterdir()))
            self.assertLess(abs(c["saved_at"] - (self.folder / path / "MANIFEST.json").stat().st_mtime), 60)
            self.assertEqual((c["parameters"], c["states"]), (4, 8))
            self.assertEqual("best" in c["marks"], c["name"] == best and "runs/a" in path)
            self.assertEqual("latest" in c["marks"], path in ("runs/a/ckpt/step-0000000012", "runs/b/ckpt/step-0000000010"))
            if "runs/a" in path:
                self.assertEqual(c["values"]["eval/accuracy"], accuracy[c["step"]])
        self.assertEqual(found["runs/b/ckpt/step-0000000010"]["ranks"], {"data": 2, "tensor": 2, "pipeline": 1})
        text = self.expect(0, "checkpoint", "ls").out
        for part in ("runs/a/ckpt\n", "runs/b/ckpt\n", "4 (data 2, tensor 2)", "4 + 8", "eval/accuracy", "latest"):
            self.assertIn(part, text)
        self.assertNotIn("model.linear1.weight", text)
        self.assertEqual(self.expect(0, "checkpoint", "ls", "-v").out.count("model.linear1.weight.m"), 4)

    def test_narrow_terminals(self):
        self.train("r", steps=1)
        for words in (["r"], ["r", "-v"], ["r/ckpt/step-0000000001"]):
            text = re.sub("\033\\[[0-9]*m", "", self.on_terminal("checkpoint", "ls", *words, columns=40))
            self.assertLessEqual(max(map(len, text.splitlines())), 40, text)
            self.assertIn("\n  step-0000000001\n    saved 20", text)

    def test_one_and_its_tensors(self):
        self.train("r", *GRID)
        for place in ("r/ckpt/latest", "r/ckpt/step-0000000010"):
            one = self.expect(0, "checkpoint", "ls", place, "--json").records[0]
            self.assertEqual((one["kind"], len(one["checkpoints"])), ("checkpoint", 1))
            tensors = {t["name"]: t for t in one["checkpoints"][0]["tensors"]}
            self.assertEqual(len(tensors), 12)
            weight = tensors["model.linear1.weight"]
            self.assertEqual((weight["dtype"], weight["shape"], weight["bytes"], weight["kind"]), ("F32", [16, 8], 512, "parameter"))
            self.assertEqual(sum(s["extent"][0] * s["extent"][1] for s in weight["slices"]), 128)
            self.assertEqual(tensors["model.linear1.weight.m"]["kind"], "state")
        text = self.expect(0, "checkpoint", "ls", "r/ckpt/latest").out
        for part in ("model.linear1.weight ", "(16, 8)", " 512 ", "model-00001-of-00004.safetensors and 1 more", "12 tensors, 2.3 KiB"):
            self.assertIn(part, text)

    def test_damaged_ones_are_marked(self):
        self.train("r", "checkpoint.every=2", "checkpoint.keep=9")
        ckpt = self.folder / "r/ckpt"
        (ckpt / "step-0000000002/MANIFEST.json").write_text("{}")
        (ckpt / "step-0000000004/optimizer.safetensors").unlink()
        (ckpt / ".tmp-12-0123").mkdir()
        found = {c["name"]: c for c in self.expect(0, "checkpoint", "ls", "r", "--json").records[0]["checkpoints"]}
        self.assertEqual(found["step-0000000002"]["state"], "damaged")
        self.assertIn("truncated", found["step-0000000002"]["fault"])
        self.assertEqual(found["step-0000000004"]["fault"], "optimizer.safetensors is missing")
        self.assertEqual(found[".tmp-12-0123"]["state"], "not_committed")
        text = self.expect(0, "checkpoint", "ls", "r").out
        self.assertIn("damaged: optimizer.safetensors is missing", text)
        self.assertIn("not committed: an interrupted save, or one in progress", text)
        # Resumed from an older step, what was behind it is stale.
        for step in (8, 10):
            self.flip(f"r/ckpt/step-{step:010}/model.safetensors")
        self.train("r", "--resume", "must", "checkpoint.keep=9", steps=7)
        found = {c["step"]: c["marks"] for c in self.expect(0, "checkpoint", "ls", "r", "--json").records[0]["checkpoints"]}
        self.assertEqual(found, {7: ["latest"], 6: [], 4: [], 2: [], 8: ["stale"], 10: ["stale"]})

    def test_places_without_checkpoints(self):
        (self.folder / "empty").mkdir()
        self.assertIn("there are no checkpoints in empty", self.expect(0, "checkpoint", "ls", "empty").out)
        self.fails(2, ["checkpoint", "verify", "empty"], "there are no checkpoints in 'empty'")
        self.fails(2, ["checkpoint", "ls", "t.toml"], "'t.toml' is a file")
        self.fails(2, ["checkpoint"], "plait checkpoint needs one of: ls, verify, diff, convert")
        self.fails(2, ["checkpoint", "diff", "empty", "empty"], "'empty' is not a checkpoint and contains none")


class Verified(Checkpoints):
    def test_unfinished_saves_are_never_read(self):
        self.expect(0, "run", "t.toml", "run.steps=2", "--run-dir", "all/whole", "--quiet")
        begun = self.folder / "all/begun/ckpt/.tmp-7-1f"
        step = next((self.folder / "all/whole/ckpt").glob("step-*"))
        shutil.copytree(step, begun)
        (begun / "MANIFEST.json").unlink()
        shutil.copy(self.folder / "all/whole/run.toml", self.folder / "all/begun/run.toml")
        said = "is not a checkpoint and contains none; its saves were not finished, such as "
        for place in ("all/begun", "all/begun/ckpt"):
            for words in (["run", "t.toml", f"model.load={place}"], ["check", "t.toml", f"model.load={place}"],
                          ["export", place, "w.safetensors"]):
                done = self.plait(*words)
                self.assertEqual(done.code, 2, done.err)
                self.assertRegex(done.err + done.out, rf"'(\./)?{place}' {said}'(\./)?all/begun/ckpt/\.tmp-7-1f', and are not read; name a run directory")
        for verb in ("run", "check"):
            self.fails(2, [verb, "t.toml", "model.load=all/begun/ckpt/.tmp-7-1f"], "all/begun/ckpt/.tmp-7-1f' is a save that was not finished, or is under way: it lacks MANIFEST.json")
            # A folder with several runs names one whose checkpoints are whole.
            done = self.fails(2, [verb, "t.toml", "model.load=all"], "all/whole")
            self.assertNotIn(".tmp-", done.out + done.err)
        # Every command says so, and what is missing; also from within the folder.
        shard = self.folder / "all/shards/ckpt/.tmp-8-2f"
        shard.mkdir(parents=True)
        shutil.copy(step / "model.safetensors", shard / "model-00001-of-00002.safetensors")
        for words in (["run", "../../../../t.toml", "model.load=."], ["export", ".", "w.safetensors"], ["checkpoint", "diff", ".", "."],
                      ["eval", "../../../../t.toml", "--checkpoint", "."], ["checkpoint", "verify", "."]):
            done = self.plait(*words, cwd=shard)
            self.assertEqual(done.code, 2, done.err)
            self.assertRegex(done.err + done.out, "not finished|not committed")
            self.assertIn("lacks model-00002-of-00002.safetensors, MANIFEST.json", done.err + done.out)
        self.assertIn("lacks model-00002", self.expect(0, "checkpoint", "ls", "all/shards").out)

    def test_the_current_folder_is_a_checkpoint(self):
        self.train("r", steps=1)
        step = next((self.folder / "r/ckpt").glob("step-*"))
        for cwd, up in ((step, "../../.."), (step.parent, "../.."), (self.folder / "r", "..")):
            for place in (".", "./"):
                done = self.plait("check", f"{up}/t.toml", f"model.load={place}", cwd=cwd)
                self.assertEqual(done.code, 0, done.err + done.out)
        # Written out, it is the same folder.
        self.train("s", "model.load=r/ckpt/latest", steps=1)
        self.expect(0, "run", "../t.toml", "--run-dir", "../u", "-q", "run.steps=1", "model.load=.", cwd=self.folder / "r")
        self.assertIn(f'load = "{self.folder.resolve() / "r"}', (self.folder / "u/run.toml").read_text())

    def test_weights_are_read_whatever_their_folder_is_called(self):
        self.train("r", steps=1)
        (self.folder / "w/.tmp-mine").mkdir(parents=True)
        shutil.copy(next((self.folder / "r/ckpt").glob("step-*/model.safetensors")), self.folder / "w/.tmp-mine")
        self.expect(0, "check", "t.toml", "model.load=w/.tmp-mine")

    def test_faults_are_all_listed(self):
        self.train("r", *GRID, "checkpoint.every=5")
        self.train("s", steps=3)
        whole = self.expect(0, "checkpoint", "verify", "r", "s", "--json")
        self.assertEqual([c["intact"] for c in whole.records[:-1]], [True] * 3)
        self.assertEqual(whole.event("done"), {"schema": 1, "event": "done", "intact": 3, "damaged": 0, "unreadable": 0})
        newest = "r/ckpt/step-0000000010"
        sizes = sum(path.stat().st_size for path in (self.folder / newest).glob("*.safetensors"))
        self.assertEqual((whole.records[0]["checkpoint"], whole.records[0]["bytes"]), (newest, sizes))
        self.flip(f"{newest}/model-00001-of-00004.safetensors")
        self.flip(f"{newest}/optimizer-00002-of-00004.safetensors", 30)
        (self.folder / newest / "model-00003-of-00004.safetensors").unlink()
        damaged = self.fails(1, ["checkpoint", "verify", "r", "s", "--json"], "1 of 3 checkpoints is damaged")
        faults = damaged.records[0]["faults"]
        self.assertEqual(len(faults), 3)  # a damaged tensor, a damaged header, a missing file
        for part in ("model-00001-of-00004.safetensors: tensor ", "model-00003-of-00004.safetensors is missing",
                     "optimizer-00002-of-00004.safetensors does not match its checksum"):
            self.assertEqual(sum(part in fault for fault in faults), 1, part)
        text = self.fails(1, ["checkpoint", "verify", "r"], f"{newest}: damaged\n  [checkpoint] ")
        self.assertIn("r/ckpt/step-0000000005: intact, 12 tensors", text.out)
        self.expect(0, "checkpoint", "verify", "r/ckpt/step-0000000005")

    def test_what_may_not_be_read_is_not_damaged(self):
        self.train("r", steps=1)
        for name in ("model.safetensors", "MANIFEST.json"):
            path = next((self.folder / "r/ckpt").glob(f"step-*/{name}"))
            path.chmod(0)
            for words in (["checkpoint", "verify", "r"], ["eval", "r"], ["run", "t.toml", "--run-dir", "r", "--resume", "must"], ["export", "r", "out"]):
                done = subprocess.run([*AS_OWNER, PLAIT, *words], cwd=self.folder, env=self.environment(), capture_output=True, text=True, timeout=TIME)
                self.assertEqual(done.returncode, 3, (words, done))
                self.assertIn(f"cannot open '{path.relative_to(self.folder)}': Permission denied", done.stdout + done.stderr)
                self.assertNotRegex(done.stdout + done.stderr, "damaged|intact|backup")
            path.chmod(0o600)
        self.expect(0, "checkpoint", "verify", "r")

    def test_a_save_in_progress_is_passed_over(self):
        self.train("r", steps=1)
        (self.folder / "r/ckpt/.tmp-2-00").mkdir()
        self.assertIn(".tmp-2-00 is not committed", self.expect(0, "checkpoint", "verify", "r").err)


class Compared(Checkpoints):
    def diff(self, code, *words):
        return self.expect(code, "checkpoint", "diff", *words, "--json").records[-1]

    def parameters(self, checkpoint):
        """Name -> elements, of a checkpoint in f32 with one file of parameters."""
        data = (self.folder / checkpoint / "model.safetensors").read_bytes()
        n, = struct.unpack_from("<Q", data)
        header = json.loads(data[8:8 + n])
        offsets = {name: t["data_offsets"] for name, t in header.items() if name != "__metadata__"}
        return {name: struct.unpack(f"<{(end - begin) // 4}f", data[8 + n + begin:8 + n + end]) for name, (begin, end) in offsets.items()}

    def test_layouts_seeds_and_states(self):
        self.train("one", "checkpoint.every=5")
        self.train("grid", *GRID)
        self.assertTrue(self.diff(0, "one", "one/ckpt/latest")["equal"])
        other = self.diff(1, "one", "grid")
        self.assertEqual({c["key"]: (c["a"], c["b"]) for c in other["state"]},
                         {"topology.data": ("1", "2"), "topology.tensor": ("1", "2")})
        self.assertEqual({c["key"]: (c["a"], c["b"]) for c in other["settings"]},
                         {"checkpoint.every": ("5", "0"), "topology.zero": ("0", "1"), "model.layers[0].parallel": ('"none"', '"column"'),
                          "model.layers[3].parallel": ('"none"', '"row"')})
        self.assertEqual((other["tensors"], other["elements"]), (12, 3 * 195))
        for t in other["changed"]:
            self.assertLess(t["max_abs"], 1e-6)
            self.assertLessEqual(t["different"], t["elements"])
        earlier = self.diff(1, "one/ckpt/step-0000000005", "one/ckpt/step-0000000010")
        self.assertEqual({c["key"] for c in earlier["state"]} & {"step", "samples", "updates"}, {"step", "samples", "updates"})
        self.assertEqual(earlier["settings"], [])
        self.assertEqual(len(earlier["changed"]), 12)
        # `at` is an element that differs by `max_abs`.
        before, after = (self.parameters(f"one/ckpt/step-{step:010}") for step in (5, 10))
        changed = {t["name"]: t for t in earlier["changed"] if t["kind"] == "parameter"}
        self.assertEqual(changed.keys(), before.keys())
        for name, t in changed.items():
            at = 0
            for index, extent in zip(t["at"], t["shape"][0], strict=True):
                at = at * extent + index
            difference = [abs(a - b) for a, b in zip(before[name], after[name], strict=True)]
            self.assertEqual(len(difference), t["elements"])
            self.assertEqual(difference[at], max(difference), t)
            self.assertAlmostEqual(difference[at], t["max_abs"], delta=1e-6 * t["max_abs"])
        text = self.expect(1, "checkpoint", "diff", "one", "grid").out
        for part in ("A  one/ckpt/step-0000000010", "topology.data    1", "setting", "greatest", "585 elements were compared"):
            self.assertIn(part, text)
        self.assertIn("no difference; 12 tensors with 585 elements are equal bit by bit",
                      self.expect(0, "checkpoint", "diff", "one", "one").out)

    def test_other_models(self):
        """The summary comes first, and tables end after 20 rows."""
        layers = ", ".join(["{type = \"linear\", out = 4}"] * 13)
        self.train("small")
        self.train("large", f"model.layers=[{layers}, {{type = \"linear\", out = 3}}]")
        diff = self.diff(1, "small", "large", "--only", "parameters")
        n = len(diff["only_b"])
        self.assertGreater(n, 20)
        text = self.expect(1, "checkpoint", "diff", "small", "large", "--only", "parameters").out
        lines = text.splitlines()
        self.assertTrue(lines[2].startswith("differences: "), text)
        self.assertIn(f"{n} only in B", lines[2])
        self.assertIn(f"... and {n - 20} more; --all shows them", lines)
        for tensor in diff["only_b"]:
            self.assertEqual(tensor in diff["only_b"][:20], f"\n{tensor['name']} " in text)
        whole = self.expect(1, "checkpoint", "diff", "small", "large", "--only", "parameters", "--all").out
        self.assertNotIn("more; --all", whole)
        for tensor in diff["only_b"]:
            self.assertIn(f"\n{tensor['name']} ", whole)

    def test_the_element_that_differs_is_found(self):
        self.train("one")
        shutil.copytree(self.folder / "one", self.folder / "two")
        self.expect(0, "checkpoint", "convert", "one", "out")
        self.train("three", "run.seed=43", "loss.label_smoothing=0.1")
        self.assertTrue(self.diff(0, "two", "out")["equal"])
        seeds = self.diff(1, "one", "three")
        self.assertIn({"key": "run.seed", "a": "42", "b": "43"}, seeds["settings"])
        self.assertEqual([c["key"] for c in seeds["settings"] if "smoothing" in c["key"]], ["loss.label_smoothing"])

    def test_failures_are_no_differences(self):
        self.train("one", steps=2)
        self.train("runs/x", steps=1)
        self.fails(2, ["checkpoint", "diff", "one", "runs"], "'runs' holds checkpoints of several runs, such as 'runs/x/ckpt/step-0000000001'")
        self.expect(0, "export", "one", "weights")
        self.fails(2, ["checkpoint", "diff", "one", "weights"], "'weights' holds weights alone, without the manifest of a checkpoint")
        shutil.copytree(self.folder / "one", self.folder / "two")
        self.flip("two/ckpt/step-0000000002/model.safetensors")
        done = self.fails(2, ["checkpoint", "diff", "one", "two"], "does not match its checksum")
        self.assertNotIn("elements were compared", done.out)
        self.fails(2, ["checkpoint", "diff", "one", "nowhere"], "there is no 'nowhere'")
        self.fails(2, ["checkpoint", "diff", "one", "two", "--only", "weights"], "'weights' is not one of tensors, parameters")


class Converted(Checkpoints):
    def test_a_resumed_run_has_the_same_losses(self):
        """From the parts that ranks saved, and from the whole tensors made of them, on the same ranks and on one."""
        for name, words in (("grid", GRID), ("stages", PIPELINE)):
            self.train(name, *words, "checkpoint.every=5", "run.steps=10", steps=10)
            self.expect(0, "checkpoint", "convert", f"{name}/ckpt/step-0000000005", f"{name}-whole/ckpt/step-0000000005")
            made = f"{name}-whole/ckpt/step-0000000005"
            self.assertEqual(self.files_of(made), ["MANIFEST.json", "model.safetensors", "optimizer.safetensors", "run.toml"])
            self.expect(0, "checkpoint", "verify", made)
            self.expect(0, "checkpoint", "diff", f"{name}/ckpt/step-0000000005", made)
            (self.folder / f"{name}-parts/ckpt").mkdir(parents=True)
            shutil.copytree(self.folder / f"{name}/ckpt/step-0000000005", self.folder / f"{name}-parts/ckpt/step-0000000005")
            for layout in (words, []):
                numbers = []
                for start in ("whole", "parts"):
                    run = f"{name}-{start}-{len(layout)}"
                    shutil.copytree(self.folder / f"{name}-{start}", self.folder / run)
                    self.train(run, "--resume", "must", *layout)
                    numbers.append(self.losses(run))
                self.assertEqual(sorted(numbers[0]), [6, 7, 8, 9, 10])
                self.assertEqual(numbers[0], numbers[1])
                self.expect(0, "checkpoint", "diff", f"{name}-whole-{len(layout)}", f"{name}-parts-{len(layout)}")
            # As the manual says, with nothing but the checkpoint.
            shutil.copytree(self.folder / f"{name}-whole", self.folder / f"{name}-away")
            self.expect(0, "run", f"{name}-away/ckpt/step-0000000005/run.toml", "--run-dir", f"{name}-away", "--resume", "must", "-q")
            uninterrupted = self.losses(name)
            self.assertEqual(self.losses(f"{name}-away"), self.losses(f"{name}-whole-{len(words)}"))
            self.assertEqual({step: uninterrupted[step] for step in range(6, 11)}, self.losses(f"{name}-whole-{len(words)}"))

    def test_shards_and_what_they_are_good_for(self):
        self.train("r", *GRID)
        self.expect(0, "checkpoint", "convert", "r", "three", "--shards", "3")
        self.assertEqual(len([f for f in self.files_of("three") if f.startswith("model-")]), 3)
        self.assertEqual(len([f for f in self.files_of("three") if f.startswith("optimizer-")]), 3)
        self.expect(0, "checkpoint", "convert", "r", "small", "--max-shard-size", "256", "--no-optimizer")
        self.assertIn("model.safetensors.index.json", self.files_of("small"))
        self.assertFalse([f for f in self.files_of("small") if f.startswith("optimizer")])
        only = self.expect(1, "checkpoint", "diff", "r", "small", "--json").records[-1]
        self.assertEqual((len(only["only_a"]), only["changed"], only["only_b"]), (8, [], []))
        self.expect(0, "checkpoint", "diff", "r", "small", "--only", "parameters")
        loss = [self.expect(0, "eval", "t.toml", "--checkpoint", c, "--json").records[-1]["loss"] for c in ("r", "three", "small")]
        self.assertEqual(loss, [loss[0]] * 3)
        self.expect(0, "run", "t.toml", "model.load=small", "run.steps=1", "run.out=x", "-q")
        # Without its states a run is not resumed, and says why.
        shutil.copytree(self.folder / "small", self.folder / "again/ckpt/step-0000000010")
        self.fails(2, ["run", "t.toml", "--run-dir", "again", "--resume", "must", "run.steps=11"],
                   "'again/ckpt/step-0000000010' lacks optimizer states")

    def test_faults(self):
        self.train("r", steps=2)
        self.expect(0, "checkpoint", "convert", "r", "out")
        self.fails(2, ["checkpoint", "convert", "r", "out"], "'out' exists; choose another name, or remove this folder")
        self.fails(2, ["checkpoint", "convert", "r", "out", "--yes"], "'out' exists; choose another name")
        self.fails(2, ["checkpoint", "convert", "r", "x", "--shards", "2", "--max-shard-size", "1MB"], "--shards")
        self.fails(2, ["checkpoint", "convert", "r", "x", "--shards", "0"], "--shards")
        self.flip("r/ckpt/step-0000000002/optimizer.safetensors")
        self.fails(1, ["checkpoint", "convert", "r", "x"], "could not be rewritten to 'x'", "does not match its checksum")
        self.assertEqual([name for name in os.listdir(self.folder) if name == "x" or name.startswith(".tmp")], [])
        (self.folder / "r/ckpt/step-0000000002/optimizer.safetensors").unlink()
        self.fails(1, ["checkpoint", "convert", "r", "x"], "no checkpoint in 'r' is intact", "optimizer.safetensors is missing")


if __name__ == "__main__":
    unittest.main()
