"""plait profile: the shape of its tables, records and traces, and what it refuses. No time is asserted."""

import json
import re
import unittest

from support import Case, TINY


class Profile(Case):
    def setUp(self):
        super().setUp()
        self.write("t.toml", TINY)

    def profile(self, *words):
        record, = self.expect(0, "profile", "t.toml", *words, "--json").records
        return record

    def check_sums(self, profile):
        """Rows add up to the totals in every list, and shares are of all the time."""
        self.assertGreater(profile["kernel_seconds"], 0)
        self.assertAlmostEqual(profile["seconds"], profile["kernel_seconds"] + profile["outside_seconds"], places=6)
        for name in ("ops", "by_op", "by_layer"):
            rows = profile[name]
            self.assertEqual([r["seconds"] for r in rows], sorted((r["seconds"] for r in rows), reverse=True))
            self.assertEqual(sum(r["calls"] for r in rows), profile["calls"])
            self.assertAlmostEqual(sum(r["seconds"] for r in rows), profile["kernel_seconds"], places=6)
            self.assertAlmostEqual(sum(r["share"] for r in rows), profile["kernel_seconds"] / profile["seconds"], places=6)
            self.assertAlmostEqual(sum(r["flops"] for r in rows), profile["flops"])

    def test_steps(self):
        profile = self.profile("--steps", 2, "run.peak_tflops=1")
        self.assertEqual((profile["entry_point"], profile["runs"], profile["rank"], profile["ranks"]), ("train_step", 2, 0, 1))
        self.assertEqual(profile["peak_flops_per_s"], 1e12)
        self.check_sums(profile)
        plan, = self.expect(0, "plan", "t.toml", "--json").records
        self.assertAlmostEqual(profile["flops"], 2 * plan["flops_per_step"])
        first = [r for r in profile["ops"] if (r["scope"], r["op"], r["pass"]) == ("model.linear1", "matmul", "forward")]
        self.assertEqual(len(first), 1)
        self.assertEqual(first[0]["calls"], 2)
        self.assertEqual(first[0]["flops"], 2 * 2 * 16 * 8 * 16)  # x (16, 8), weight (16, 8)
        self.assertEqual(first[0]["bytes"], 2 * 4 * (16 * 8 + 16 * 8 + 16 + 16 * 16))  # and bias (16), y (16, 16)
        self.assertEqual(first[0]["outputs"], ["f32 (16, 16)"])
        self.assertAlmostEqual(first[0]["share_of_peak"], first[0]["flops_per_s"] / 1e12)
        self.assertEqual({r["pass"] for r in profile["ops"]}, {"forward", "backward", "update"})
        self.assertFalse((self.folder / "runs").exists())  # it leaves no run behind

    def test_evaluation(self):
        profile = self.profile("--eval", "--steps", 3)
        self.assertEqual((profile["entry_point"], profile["runs"]), ("evaluate", 3))
        self.check_sums(profile)
        self.assertNotIn("backward", {r["pass"] for r in profile["ops"]})
        self.assertEqual(self.profile("--eval", "--steps", 100)["runs"], 7)  # 100 samples in batches of 16

    def test_tables(self):
        out = self.expect(0, "profile", "t.toml", "--steps", 1, "--top", 3).out
        lines = out.splitlines()
        self.assertRegex(lines[0], r"^1 step on \w+ \(\d+ threads\): .*, [\d.]+ % in kernels, [\d.]+ % outside$")
        self.assertRegex(out, r"ops  \(3 of \d+; --top 0 shows all\)\n +calls +ms +share +GFLOP +GFLOP/s +of peak +MB +GB/s  layer +op +kernel +shape\n")
        for title in ("by op", "by layer"):
            self.assertIn(f"\n{title}", out)
        self.assertIn("model.linear1", self.expect(0, "profile", "t.toml", "--steps", 1, "--top", 0).out)

    def test_narrow_terminals(self):
        for columns in (40, 80):
            text = re.sub("\033\\[[0-9]*m", "", self.on_terminal("profile", "t.toml", "--steps", 1, "run.threads=1", columns=columns))
            self.assertLessEqual(max(map(len, text.splitlines())), columns, text)
            self.assertIn("1 step on cpu (1 thread): ", text)
            self.assertRegex(text, r"\n  model\.linear1: matmul\w*( \(backward\))?\n    kernel \S+, shape ")
        self.assertRegex(self.on_terminal("profile", "t.toml", "--steps", 1, columns=40), r"by op\S*\n  \w+\n    calls \d+, ms ")

    def test_blocks(self):
        """Copies of a block are one row, unless each is asked for."""
        self.write("b.toml", TINY.replace('{type = "relu"}', '{type = "block", name = "h", repeat = 3, layers = '
                                          '[{type = "linear", name = "a", out = 16}, {type = "relu"}]}'))
        out = self.expect(0, "profile", "b.toml", "--steps", 1, "--top", 0).out
        self.assertIn("model.h*.a", out)
        self.assertNotIn("model.h1.a", out)
        self.assertIn("model.h1.a", self.expect(0, "profile", "b.toml", "--steps", 1, "--top", 0, "--each").out)

    def events(self, name):
        trace = json.loads((self.folder / name).read_text())["traceEvents"]
        return [e for e in trace if e["ph"] == "X"], [e for e in trace if e["ph"] == "M"]

    def test_trace(self):
        profile = self.profile("--steps", 2, "--yes", "--trace", "out.json")
        calls, names = self.events("out.json")
        self.assertEqual(len(calls), profile["calls"])
        self.assertEqual([e["args"]["name"] for e in names], ["rank 0"])
        self.assertAlmostEqual(sum(e["dur"] for e in calls) * 1e-6, profile["kernel_seconds"], places=6)
        ends = 0
        for e in calls:  # one after the other
            self.assertGreaterEqual(e["ts"] + 1e-3, ends)
            ends = e["ts"] + e["dur"]
        self.fails(3, ["profile", "t.toml", "--steps", 1, "--yes", "--trace", "none/out.json"], "cannot write 'none/out.json'")

    def test_to_standard_output(self):
        for words in ([], ["topology.data=2"]):
            out = self.expect(0, "profile", "t.toml", *words, "--steps", 1, "--trace", "-").out
            self.assertEqual(len({e["pid"] for e in json.loads(out)["traceEvents"]}), 1 + len(words))
            record, = self.expect(0, "profile", "t.toml", *words, "--steps", 1, "--to", "-", "--trace", "out.json", "--yes").records
            self.assertEqual(record["ranks"], 1 + len(words))
            self.assertEqual(len(self.events("out.json")[1]), 1 + len(words))
        for one, other in (("--trace -", "--json"), ("--to -", "--json"), ("--trace -", "--to -")):
            self.fails(2, ["profile", "t.toml", *one.split(), *other.split()],
                       f"[profile] {one} and {other} would both write to standard output; name a file")
        self.assertFalse((self.folder / "-").exists())

    def test_ranks(self):
        profile = self.profile("topology.data=2", "--steps", 1, "--yes", "--trace", "out.json")
        self.assertEqual(profile["ranks"], 2)
        self.check_sums(profile)
        self.assertTrue(any("collective" in r for r in profile["ops"]))
        calls, names = self.events("out.json")
        self.assertEqual(sorted(e["args"]["name"] for e in names), ["rank 0", "rank 1"])
        self.assertEqual({e["pid"] for e in calls}, {0, 1})

    def test_refused(self):
        self.fails(2, ["profile"], "plait profile needs FILE")
        self.fails(2, ["profile", "t.toml", "--steps", 0], "--steps")
        self.fails(2, ["profile", "t.toml", "batch.globl=3"], "globl")
        self.fails(2, ["profile", "t.toml", "run.peak_tflops=-1"], "peak_tflops")
        self.fails(2, ["profile", "t.toml", "--eval", "--dataset", "test"], "there is no [data.test]", "eval")


class Measured(Case):
    """plait plan --measured: what it reads and tells. Times of this machine are not asserted."""

    PIPELINE = ("topology.pipeline=2", "batch.micro=4")

    def setUp(self):
        super().setUp()
        self.write("t.toml", TINY)

    def measured(self, *words):
        record, = self.expect(0, "plan", "t.toml", "--measured", "p.json", *words, "--json").records
        return record

    def test_two_stages(self):
        profile, = self.expect(0, "profile", "t.toml", *self.PIPELINE, "--steps", 2,
                               "--yes", "--to", "p.json", "--json").records
        self.assertEqual(json.loads((self.folder / "p.json").read_text()), profile)
        self.assertEqual([rank["rank"] for rank in profile["other_ranks"]], [1])
        self.assertEqual(profile["messages"], 2 * 4 * 2)  # steps, micro-batches, directions
        same = self.measured(*self.PIPELINE)
        self.assertEqual((same["not_measured"], same["measured_flops_share"]), ([], 1))
        self.assertEqual(same["profile"]["step_seconds"], profile["seconds"] / 2)
        self.assertEqual(same["profile"]["message_seconds"], profile["message_seconds"])
        self.assertEqual(len(same["stages"]), 2)
        self.assertEqual(sum((stage["layers"] for stage in same["stages"]), []),
                         ["model.linear1", "model.relu1", "model.dropout1", "model.linear2"])
        self.assertIn(same["slowest_stage"], (0, 1))
        parts = ("before_seconds", "passes_seconds", "after_seconds")
        self.assertAlmostEqual(same["step_seconds"], sum(same[part] for part in parts))
        for stage in same["stages"]:  # the rank has at least its own passes to do
            busy = 4 * (stage["forward_seconds"] + stage["backward_seconds"])
            self.assertLessEqual(busy, same["passes_seconds"] * 1.001)
        self.assertLessEqual({"topology.schedule=gpipe", "topology.schedule=zero_bubble"},
                             {one["change"] for one in same["alternatives"]})
        for one in same["alternatives"]:
            changed = self.measured(*self.PIPELINE, one["change"])
            self.assertEqual(changed["passes_seconds"], one["passes_seconds"])
        alone = self.measured("batch.micro=4")
        self.assertEqual((alone["pipeline"], alone["alternatives"]), (1, []))
        self.assertNotIn("stages", alone)
        out = self.expect(0, "plan", "t.toml", "--measured", "p.json", *self.PIPELINE,
                          "--picture", "p.svg").out
        for text in ("a step would take ", "(measured: ", ", the slowest",
                     "pipeline: 1f1b, 4 micro-batches on 2 ranks; ranks idle ",
                     "other schedules and splits"):
            self.assertIn(text, out)
        self.assertIn(">ms<", (self.folder / "p.svg").read_text())

    def test_refused(self):
        self.expect(0, "profile", "t.toml", "--steps", 1, "--yes", "--to", "p.json")
        self.expect(0, "profile", "t.toml", "--steps", 1, "--eval", "--yes", "--to", "e.json")
        self.write("bad.json", "{}")
        for code, profile, words, *texts in (
                (2, "p.json", ["model.layers[0].out=32"],
                 "the output of layer 'model.linear1' is another one: the profile has f32 (16, 16)",
                 "this plan f32 (16, 32)"),
                (2, "p.json", ["batch.micro=8"], "has 16, this plan 8",
                 "measure with batch.micro=8"),
                (2, "p.json", ["run.device=reference"],
                 "run.device=cpu, or measure with run.device=reference"),
                (2, "p.json", ["--picture", "x.svg"], "has no pipeline"),
                (2, "none.json", [], "cannot read 'none.json'",
                 "`plait profile FILE --to none.json` writes one")):
            with self.subTest(words):
                self.fails(code, ["plan", "t.toml", "--measured", profile, *words], *texts)
        for profile, text in (("e.json", "measured 'evaluate', not steps"),
                              ("bad.json", "has no `entry_point`")):
            done = self.plait("plan", "t.toml", "--measured", profile)
            self.assertNotEqual(done.code, 0)
            self.assertIn(text, done.err)
        self.assertFalse((self.folder / "x.svg").exists())
        self.fails(2, ["plan", "t.toml", "--measured", "p.json", "--ir"], "--ir", "--measured")


class Rates(Case):
    """What a run tells of its speed; tokens and FLOPs are counted, seconds are not."""

    def lines(self, run_dir):
        return [json.loads(line) for line in (self.folder / run_dir / "metrics.ndjson").read_text().splitlines()]

    def test_the_largest_group_is_reported(self):
        self.write("t.toml", TINY + 'groups = [{match = ["*.bias"], learning_rate = 0.03}, {match = ["*.weight"], learning_rate = 0.02}]\n')
        self.expect(0, "run", "t.toml", "--run-dir", "r", "run.log_every=10")
        self.assertEqual({line["lr"] for line in self.lines("r") if "loss" in line and "event" not in line}, {0.02})

    def test_groups_and_peak(self):
        self.write("t.toml", TINY + 'clip_grad_norm = 0.01\n' +
                   'groups = [{match = ["*.bias"], learning_rate = 0.02}]\n')
        self.expect(0, "run", "t.toml", "--run-dir", "r", "run.log_every=10", "run.peak_tflops=0.001")
        steps = [line for line in self.lines("r") if "loss" in line and "event" not in line]
        self.assertEqual([line["step"] for line in steps], [10, 20, 30, 40])
        for line in steps:
            self.assertEqual((line["lr"], line["lr.model.default"], line["lr.optimizer.groups[0]"]), (0.01, 0.01, 0.02))
            self.assertAlmostEqual(line["grad_norm_clipped"], 0.01)
            self.assertAlmostEqual(line["tflops"], line["samples_per_s"] * 3 * 2 * (8 * 16 + 16 * 3) * 1e-12)
            self.assertAlmostEqual(line["mfu"], line["tflops"] / 0.001)
            self.assertNotIn("tokens", line)
            self.assertNotIn("tflops_full", line)

    def test_named_groups(self):
        self.write("t.toml", TINY + 'groups = [{name = "no-decay", match = ["*.bias"], learning_rate = 0.02}]\n')
        self.expect(0, "run", "t.toml", "--run-dir", "r", "run.log_every=40")
        last = [line for line in self.lines("r") if line.get("step") == 40 and "lr" in line][-1]
        self.assertEqual((last["lr.model.default"], last["lr.no-decay"]), (0.01, 0.02))
        plan, = self.expect(0, "plan", "t.toml", "--json").records
        self.assertEqual({p["name"].split(".")[-1]: p["group"] for p in plan["parameters"]}, {"weight": "model.default", "bias": "no-decay"})
        # It names, and decides nothing: a run continues under another one.
        self.expect(0, "run", "t.toml", "--run-dir", "r", "--resume", "must", "run.steps=41", "optimizer.groups[0].name=biases")

    def test_of_steps_alone(self):
        # Evaluations of 2000 times as many samples as the steps take far longer than these.
        self.write("t.toml", TINY.replace("samples = 100", "samples = 32000"))
        done = self.expect(0, "run", "t.toml", "--run-dir", "r", "evaluate.every=1",
                           "--json").event("done")
        steps = [line for line in self.lines("r") if "event" not in line]
        # A line for each step; the last batch of an epoch is smaller.
        samples = [line["samples"] for line in steps]
        made = [after - before for before, after in zip([0, *samples], samples)]
        seconds = sum(n / line["samples_per_s"] for n, line in zip(made, steps))
        self.assertEqual(len(steps), 40)
        self.assertLess(seconds, steps[-1]["elapsed_s"] / 2)
        self.assertAlmostEqual(done["samples_per_s"] * seconds / samples[-1], 1, places=3)
        told = self.expect(0, "run", "t.toml", "--run-dir", "p", "evaluate.every=1")
        lines = [line for line in self.lines("p") if "event" not in line]
        seconds = sum(n / line["samples_per_s"] for n, line in zip(made, lines))
        self.assertRegex(told.out, r"samples/s, .* s, .*s of it in steps\n")
        bar, = re.findall(r"step 40/40 .* ([0-9.]+)([kM]?) samples/s", told.err)
        rate = float(bar[0]) * {"": 1, "k": 1e3, "M": 1e6}[bar[1]]
        self.assertAlmostEqual(rate * seconds / samples[-1], 1, delta=0.01)

    def test_metrics_of_training(self):
        losses = 'losses = [{type = "cross_entropy"}, {type = "cross_entropy", name = "soft", label_smoothing = 0.1}]\n'
        self.write("t.toml", TINY.replace('[loss]\ntype = "cross_entropy"\n', "").replace("[model]\n", "[model]\n" + losses))
        done = self.expect(0, "--json", "run", "t.toml", "--run-dir", "r", "run.log_every=20", "batch.global=20")
        lines = [line for line in self.lines("r") if "loss" in line and "event" not in line]
        records = [record for record in done.records if record["event"] == "step"]
        names = {"accuracy", "loss.cross_entropy", "loss.soft"}
        self.assertEqual([line["step"] for line in lines], [20, 40])
        for line, record in zip(lines, records, strict=True):
            self.assertEqual(record["metrics"], {name: line[name] for name in names})
            self.assertAlmostEqual(line["loss.cross_entropy"] + line["loss.soft"], line["mean_loss"], places=5)
            self.assertEqual(round(line["accuracy"] * 20 * 20, 3) % 1, 0)  # of 20 steps
        events = next((self.folder / "r").glob("events.out.tfevents.*")).read_bytes()
        for tag in (b"train/accuracy", b"train/loss/soft", b"eval/accuracy", b"eval/loss/soft"):
            self.assertIn(tag, events)
        [evaluation] = [record for record in done.records if record["event"] == "evaluate"]
        self.assertLessEqual(names, evaluation.keys())

    def test_tokens_survive_a_resume(self):
        self.write("a.txt", "to be or not to be, that is the question\n" * 40)
        self.expect(0, "data", "tokenize", "a.txt", "--tokenizer", "bytes", "--out", "a")
        self.write("t.toml", """\
[run]
name = "tokens"
steps = 6
log_every = 3
[batch]
global = 4
[checkpoint]
every = 3
[data.train]
type = "tokens"
path = "a.bin"
length = 8
[data.eval]
type = "tokens"
path = "a.bin"
length = 8
limit = 8
[model]
layers = [{type = "embedding", vocabulary = 257, width = 8}, {type = "attention", heads = 2}, {type = "linear", out = 257}]
[loss]
type = "cross_entropy"
[optimizer]
type = "adamw"
learning_rate = 0.01
""")
        self.expect(0, "run", "t.toml", "--run-dir", "r", "run.steps=3")
        done = self.expect(0, "run", "t.toml", "--run-dir", "r", "--resume", "must", "--json").event("done")
        steps = [line for line in self.lines("r") if "loss" in line and "event" not in line]
        self.assertEqual([(line["step"], line["tokens"]) for line in steps], [(3, 96), (6, 192)])
        for line in steps:
            self.assertAlmostEqual(line["tokens_per_s"], 8 * line["samples_per_s"], places=3)
            self.assertGreater(line["tflops_full"], line["tflops"])
        self.assertEqual(done["tokens"], 192)
        self.assertAlmostEqual(done["evaluation"]["token_perplexity"], 2.718281828459045 ** done["evaluation"]["loss"], places=2)
        self.assertIn("token_perplexity", [line for line in self.lines("r") if line.get("event") == "evaluate"][-1])
        plan, = self.expect(0, "plan", "t.toml", "--json").records
        self.assertEqual(plan["tokens_per_sample"], 8)
        matrices = 8 * (4 * 8 * 8 + 8 * 257)
        self.assertAlmostEqual(plan["model_flops"]["per_token"], 3 * (2 * matrices + 4 * 8 * 36) / 8)
        self.assertAlmostEqual(plan["model_flops"]["per_token_full"], 3 * (2 * matrices + 4 * 8 * 64) / 8)
        self.assertRegex(self.expect(0, "plan", "t.toml").out,
                         r"of the model \(products, without recompute\): \S+ \S?FLOP per step, \S+ \S?FLOP per token; attention without its mask: ")

    def test_metrics_without_data(self):
        self.write("t.toml", TINY.replace("[data.eval]", "[data.test]"))
        for verb in ("check", "plan"):
            self.fails(0, [verb, "t.toml", "metrics[0].train=false"], "has no effect in a run", "there is no [data.eval]")


if __name__ == "__main__":
    unittest.main()
