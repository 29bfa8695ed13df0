"""plait plan where ranks share the layers: stages, idle time, pictures; and the page of strategies that it makes."""

import json
import os
import pathlib
import re
import unittest

from support import Case, ROOT, TINY

PIPELINES = ROOT / "examples/pipelines"
PAGE = ROOT / "examples/README.md"

TWO = ("topology.pipeline=2", "batch.accumulation=4")


def without_free_memory(text):
    """The text of a plan without how much memory is free, which changes between two commands."""
    return re.sub(r"[0-9.]+ \S+ (that )?are free", r"some \1are free", text)


class Plan(Case):
    def setUp(self):
        super().setUp()
        self.write("t.toml", TINY)

    def plan(self, *words):
        return self.expect(0, "plan", "t.toml", *words, "--json").records[0]

    def test_stages(self):
        self.assertNotIn("pipeline", self.plan())
        for rank in range(2):
            pipeline = self.plan(*TWO, "topology.stages=[1,3]", "--rank", rank)["pipeline"]
            self.assertEqual([stage["layers"] for stage in pipeline["stages"]],
                             [["model.linear1"], ["model.relu1", "model.dropout1", "model.linear2"]])
            self.assertEqual((pipeline["schedule"], pipeline["micro_batches"], pipeline["rank"]), ("1f1b", 4, rank))
            self.assertEqual(pipeline["in_flight_micro_batches"], 2 - rank)
            for stage in pipeline["stages"]:  # messages leave by the end of a pass
                self.assertTrue(0 <= stage["forward_flops_after_send"] < stage["forward_flops"])
                self.assertTrue(0 <= stage["backward_flops_after_send"] < stage["backward_flops"])
            self.assertEqual(pipeline["stages"][0]["backward_flops_after_send"], 0)  # it sends none
            self.assertEqual(len(pipeline["idle"]), 2)
            self.assertAlmostEqual(pipeline["idle_share"], sum(pipeline["idle"]) / 2)
            self.assertEqual(pipeline["doubled"]["micro_batches"], 8)
            self.assertLess(pipeline["doubled"]["idle_share"], pipeline["idle_share"])
        text = self.expect(0, "plan", "t.toml", *TWO, "-v").out
        self.assertRegex(text, r"pipeline: 1f1b, 4 micro-batches per step on 2 ranks; ranks idle \d+\.\d % of the time, \d+\.\d % with 8 micro-batches")
        for word in ("\n  activations ", "model.relu1", "sent to other ranks", "pipeline rank 0 holds activations of at most 2 micro-batches"):
            self.assertIn(word, text)

    def test_layers(self):
        """With their outputs, parameters and FLOPs, before sharding; copies of a block in one row."""
        layers = self.plan("topology.data=2", "topology.tensor=1", "--rank", 1)["layers"]
        self.assertEqual([layer["name"] for layer in layers], ["model.linear1", "model.relu1", "model.dropout1", "model.linear2"])
        first = layers[0]
        self.assertEqual((first["type"], first["output"]), ("linear", {"dtype": "f32", "shape": [8, 16]}))
        self.assertEqual((first["parameter_count"], first["trained_count"], first["flops"]), (8 * 16 + 16, 8 * 16 + 16, 2 * 8 * 8 * 16))
        self.assertEqual(sum(layer["parameter_count"] for layer in layers), self.plan()["parameter_count"])
        text = self.expect(0, "plan", "t.toml", "topology.data=2", "topology.pipeline=2", "batch.accumulation=2", "--rank", 3).out
        self.assertIn("\nrank 3 of 4: pipeline 1 of 2, data 1 of 2\n", text)
        self.assertNotIn("threads", text.splitlines()[0])
        deep = "[" + ", ".join(['{type = "linear", out = 8}'] * 40) + ', {type = "linear", out = 3}]'
        self.write("deep.toml", TINY.replace(TINY[TINY.index("layers = "):TINY.index("\n[loss]")], f"layers = {deep}"))
        text = self.expect(0, "plan", "deep.toml").out
        self.assertRegex(text, r"\n  model\.linear1 \.\. model\.linear40 +linear +f32 \(16, 8\) +40 x 72 ")
        self.assertLess(len(text.splitlines()), 32)
        self.assertNotIn("matmul", text)

    def test_memory_that_is_not_there(self):
        self.assertRegex(self.expect(0, "plan", "t.toml").out, r"\nmemory of this rank: \S+ KiB; this machine has \S+ [GT]iB\n  on the device \S+ KiB: parameters 832 B, gradients .*; on the host .* KiB: dataset .* KiB, prefetch .* KiB\n")
        self.write("t.toml", TINY.replace("out = 16", "out = 1000000000000"))
        self.assertRegex(self.expect(0, "plan", "t.toml").out, r"\nmemory of this rank: \S+ [TP]iB, more than the \S+ [GT]iB of this machine")

    def test_ir(self):
        """The programs as text: all of them, or one; ops, kernels, collectives and places are in it."""
        text = self.expect(0, "plan", "t.toml", "topology.data=2", "--ir", "--verify").out
        self.assertEqual(re.findall(r'^program "(.*)" f32 {$', text, re.M),
                         ["forward_backward_reduce", "update", "evaluate", "reduce_metrics"])
        self.assertRegex(text, r"# rank 0 of 2 on \w+\n# segment 0: \S+, \d+ bytes of inputs\n")
        self.assertRegex(text, r'  %\d+ f32 \(16, 8\) at \d+:\d+ grad = persistent "model.linear1.weight"\n')
        self.assertRegex(text, r"  %\d+ f32 \(8, 16\)( grad)? = matmul\(%\d+, %\d+, %\d+\) {transpose_b: true, bias: true, "
                               r'activation: "relu"} @model.linear1  # \S+, %\d+ at \d+')
        self.assertRegex(text, r"= collective_start\(.*\) {.*} .*# all_reduce of \d+ f32, data: gradients of model.default, bucket 0\n")
        one = self.expect(0, "plan", "t.toml", "--ir=update").out
        self.assertEqual(re.findall(r'^program "(.*)"', one, re.M), ["update"])
        record, = self.expect(0, "plan", "t.toml", "--ir=update", "--json").records
        self.assertEqual(record, {"schema": 1, "ir": one})
        again = self.expect(0, "plan", "t.toml", "--ir=update").out
        self.assertEqual(again, one)
        error = self.expect(2, "plan", "t.toml", "--ir=updat").err
        self.assertIn("there is no program 'updat' (did you mean 'update'?); the plan has forward_backward, update, evaluate", error)

    def test_memory_of_all_ranks_of_a_machine(self):
        """That of one rank may fit where that of all does not; a device with memory of its own takes none of the host's."""
        plan = self.plan()
        self.assertFalse(plan["device_has_own_memory"])
        installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        def wide(units):
            return f"model.layers[0].out={units}"
        of_a_unit = self.plan(wide(1_000_000))["memory"]["total"] / 1e6
        most = int(0.85 * installed / of_a_unit)
        def said(*words):
            text = self.expect(0, "plan", "t.toml", *words).out
            return next(line for line in text.splitlines() if line.startswith("memory of"))
        self.assertRegex(said(wide(most)), r"^memory of this rank: \S+ GiB; this machine has \S+ [GT]iB$")
        self.assertRegex(said(wide(most), "topology.data=2"),
                         r"^memory of this rank: \S+ GiB; on one machine 2 ranks need \S+ [GT]iB, and this machine has")
        self.assertRegex(said(wide(3 * most)), r"^memory of this rank: \S+ [GT]iB, more than the \S+ [GT]iB of this machine$")

    def test_types(self):
        """The element types of all operands and results, an op a line, by program; low precision shows where it is."""
        def rows(*words):
            text = self.expect(0, "plan", "t.toml", *words, "--types").out
            self.assertEqual(re.findall(r"^(\w+)$", text, re.M)[:3], ["forward_backward", "update", "evaluate"])
            return [re.split(r" {2,}", line.strip()) for line in text.splitlines() if line.startswith("  ")]
        full = rows()
        kernels = [k for program in self.plan()["programs"] for k in program["kernels"]]
        self.assertEqual([row[:2] for row in full], [[k["op"], k["scope"]] for k in kernels])
        self.assertEqual({k["op"]: k["kernel"] for k in kernels if k["op"].startswith("cross_entropy")},
                         {"cross_entropy": "simd", "cross_entropy_grad": "simd"})
        product = next(row for row in full if row[0] == "matmul")
        self.assertEqual(product, ["matmul", "model.linear1", "f32 (16, 8) f32 (16, 8) f32 (16) -> f32 (16, 16)"])
        loss = next(row for row in full if row[0] == "cross_entropy")
        self.assertEqual(loss[2], "f32 (16, 3) i32 (16) -> f32 (16) f32 (16)")
        self.assertFalse(any("bf16" in row[-1] for row in full))
        low = rows("precision.compute=bf16")
        products = [row[2] for row in low if row[0] == "matmul" and row[1] == "model.linear1"]
        self.assertEqual(products[0], "bf16 (16, 8) bf16 (16, 8) f32 (16) -> bf16 (16, 16)")
        self.assertEqual(products[1], "bf16 (16, 16) bf16 (16, 8) -> f32 (16, 8) f32 ()")  # the gradient of the weights
        self.assertEqual(next(row[2] for row in low if row[0] == "cross_entropy"), "bf16 (16, 3) i32 (16) -> f32 (16) f32 (16)")
        self.fails(2, ["plan", "t.toml", "--types", "--ir"], "--types", "--ir")

    def test_fp8(self):
        """Products of 8-bit floats: which they are, of what types, and what is refused."""
        def rows(*words):
            text = self.expect(0, "plan", "t.toml", "precision.products=fp8", *words, "--types").out
            return [re.split(r" {2,}", line.strip()) for line in text.splitlines() if line.startswith("  ")]
        all_rows = rows()
        self.assertFalse(any(row[0] == "matmul" for row in all_rows))
        products = [row[2] for row in all_rows if row[0] == "matmul_f8" and row[1] == "model.linear1"]
        self.assertEqual(products[0], "f8e4m3 (16, 8) f8e4m3 (16, 8) f32 () f32 () f32 (16) -> f32 (16, 16)")
        self.assertEqual(products[1], "f8e5m2 (16, 16) f8e4m3 (8, 16) f32 () f32 () -> f32 (16, 8)")  # the gradient of the weights
        row = next(row[2] for row in rows("precision.fp8.scaling=row", "precision.compute=bf16") if row[0] == "matmul_f8")
        self.assertEqual(row, "f8e4m3 (16, 8) f8e4m3 (16, 8) f32 (16) f32 (16) f32 (16) -> bf16 (16, 16)")
        left = rows("precision.fp8.except=['*.linear1.*']")
        self.assertTrue(all(row[1] != "model.linear1" for row in left if row[0] == "matmul_f8"))
        off = rows("precision.fp8.forward=off", "precision.fp8.grad_weight=off")
        self.assertTrue(all("f8e5m2" in row[2] for row in off if row[0] == "matmul_f8"))
        # Once a step where it has several micro-batches: the program reads every weight of a product, both ways.
        kept = self.plan("precision.products=fp8", "batch.accumulation=4")
        by_name = {program["name"]: [k["op"] for k in program["kernels"]] for program in kept["programs"]}
        self.assertIn("quantize_f8", by_name["quantize_weights"])
        one = self.plan("precision.products=fp8")
        self.assertNotIn("quantize_weights", [program["name"] for program in one["programs"]])
        per_pass = next([k["op"] for k in program["kernels"]] for program in one["programs"] if program["name"] == "forward_backward")
        self.assertEqual(by_name["quantize_weights"].count("quantize_f8") + by_name["forward_backward"].count("quantize_f8"),
                         per_pass.count("quantize_f8"))
        self.assertGreater(kept["memory"]["low_parameters"], 0)
        said = self.expect(0, "plan", "t.toml", "precision.products=fp8").err
        self.assertRegex(said, r"\[plan\] products of fp8 by kernel '\w+': .*no faster than f32")
        self.fails(2, ["plan", "t.toml", "precision.products=fp8", "precision.fp8.except=['*.nothing']"],
                   "precision.fp8.except", "pattern '*.nothing' matches no parameter", "model.linear1.weight")
        self.fails(2, ["plan", "t.toml", "precision.products=fp8", "precision.fp8.except=['*']"], "so all products would stay as they are")
        self.fails(2, ["plan", "t.toml", "precision.products=fp8", "precision.fp8.forward=e5m2 x e5m2"],
                   "precision.fp8.forward", "e4m3 x e5m2")
        self.fails(2, ["plan", "t.toml", "precision.products=fp8", "precision.compute=f64"], "precision.products", "8-bit floats leave nothing")
        self.assertIn("precision.fp8.scaling has no effect: precision.products is \"compute\"",
                      self.expect(0, "plan", "t.toml", "precision.fp8.scaling=row", "precision.fp8.except=['*.nothing']").err)
        self.write("bound.toml", self.expect(0, "bind", "t.toml").out)
        self.assertEqual(self.expect(0, "check", "bound.toml").err, "")
        self.write("g.toml", """[model]
layers = [{type = "embedding", vocabulary = 64, width = 32}, {type = "attention", heads = 1},
          {type = "linear", out = 64}]
[generate]
only = true
length = 8
""")
        said = self.expect(0, "plan", "g.toml", "precision.products=fp8",
                           "precision.fp8.scaling=row").err
        for key in ("products", "fp8.scaling"):
            self.assertIn(f"precision.{key} has no effect: the experiment has no [data.train], and "
                          "tokens are computed in the type of precision.compute", said)
        self.assertNotIn("no effect", self.expect(0, "plan", "g.toml").err)
        off = [f"precision.fp8.{key}=off" for key in ("forward", "grad_input", "grad_weight")]
        self.assertIn("precision.products has no effect: all three products of [precision.fp8] are \"off\"",
                      self.expect(0, "plan", "t.toml", "precision.products=fp8", *off).err)

    def test_low_products_without_instructions(self):
        """What computes products of bf16: on a processor without instructions for them f32 does, which saves no time, and it is said."""
        flags = pathlib.Path("/proc/cpuinfo").read_text().split()
        large = TINY.replace("out = 16}", "out = 2048}").replace("shape = [8]", "shape = [2048]").replace("global = 16", "global = 512")
        large = large.replace("samples = 200", "samples = 1024").replace("first = 200", "first = 1024")
        without = {"PLAIT_BF16_PRODUCTS": "0"}
        for toml in (TINY, large):
            self.write("t.toml", toml)
            done = self.expect(0, "plan", "t.toml", "precision.compute=bf16", env=without)
            self.assertRegex(done.err, r"\[plan\] products of bf16 by kernel '\w+': .*widened to f32.*, so no faster than f32")
            self.assertNotIn("products of bf16", self.expect(0, "plan", "t.toml", env=without).err)
        if "avx2" in flags:
            self.assertRegex(done.err, "kernel 'half': .*the processor has no AVX512_BF16 or AMX, or PLAIT_BF16_PRODUCTS is 0")
        if "avx512_bf16" in flags:
            own = self.expect(0, "plan", "t.toml", "precision.compute=bf16").err
            self.assertIn("[plan] products of bf16 by kernel 'half': ", own)
            self.assertNotIn("no faster than f32", own)

    def test_collectives(self):
        """Each with its kind, axis, bytes, name and, of a message, the other end: as records and in the rows that a person reads."""
        layout = (*TWO, "topology.data=2", "topology.stages=[1,3]", "--rank", 2)  # second stage, first replica; 2 samples a micro-batch
        plan = self.plan(*layout)
        started = {}
        for program in plan["programs"]:
            started[program["name"]] = [k["collective"] for k in program["kernels"] if k["op"] == "collective_start"]
        values, = started["forward of stage 1"]
        self.assertEqual((values["kind"], values["axis"], values["bytes"], values["peer"]), ("receive", "pipeline", 2 * 16 * 4, 0))
        gradients, = started["backward of stage 1"]
        self.assertEqual((gradients["kind"], gradients["peer"]), ("send", 0))
        shared = [e for e in started["backward_reduce of stage 1"] if e["axis"] == "data"]
        self.assertEqual([(e["kind"], e["ranks"], "peer" in e) for e in shared], [("all_reduce", 2, False)])
        self.assertGreaterEqual(shared[0]["bytes"], (16 * 3 + 3) * 4)
        root, = started["broadcast_outputs"]
        self.assertEqual((root["kind"], root["peer"]), ("broadcast", 2))
        rows = [line.split() for line in self.expect(0, "plan", "t.toml", *layout, "-v").out.splitlines()]
        for program in started.values():
            for e in program:
                size = f"{e['bytes']} B" if e["bytes"] < 1024 else f"{e['bytes'] / 1024:.1f} KiB"
                end = f"{'to' if e['kind'] == 'send' else 'from'} rank {e['peer']}" if "peer" in e else f"{e['ranks']} ranks"
                wanted = f"{e['kind']} {e['axis']} {size} ".split(), f"{e['name']}, {end}".split()
                self.assertTrue(any(row[:4] == wanted[0] and row[-len(wanted[1]):] == wanted[1] for row in rows), wanted)

    def test_sequence(self):
        """Sequence parallelism: residual sums and norms on 1/T of the rows, reduce-scatter and all-gather in place of all-reduce."""
        block = """{type = "layer_norm", as = ["n"]}, {type = "linear", out = 64, parallel = "column"}, {type = "gelu"},
                   {type = "linear", out = 256, parallel = "row"}, {type = "dropout", p = 0.1, as = ["d"]}, {type = "add", from = ["n", "d"]}, """
        blocks = "".join(block.replace('"n"', f'"n{i}"').replace('"d"', f'"d{i}"') for i in range(6))
        self.write("s.toml", re.sub(r"layers = .*", f'layers = [{{type = "linear", out = 256, parallel = "row"}}, {blocks}'
                                    '{type = "linear", out = 3}]', TINY, count=1))

        def planned(*words):
            plan = self.expect(0, "plan", "s.toml", "topology.tensor=4", "batch.global=1024", *words, "--json").records[0]
            step = next(p for p in plan["programs"] if p["name"] == "forward_backward")
            sent = [k["collective"] for k in step["kernels"] if k["op"] == "collective_start"]
            return plan, {kind: [c["bytes"] for c in sent if c["kind"] == kind] for kind in ("all_reduce", "reduce_scatter", "all_gather")}
        rows = 1024 * 256 * 4
        plan, sent = planned()
        self.assertFalse(plan["topology"]["sequence"])
        self.assertEqual(sent["all_reduce"].count(rows), 13)  # seven row products, and six column products going back
        sharded, sent = planned("topology.sequence=true")
        self.assertTrue(sharded["topology"]["sequence"])
        self.assertEqual(sent["all_reduce"].count(rows), 0)
        self.assertEqual(sent["reduce_scatter"].count(rows // 4), 13)
        self.assertLess(sharded["memory"]["transient"], plan["memory"]["transient"] * 0.55)

    def test_heads(self):
        """Query heads are sharded, key heads too if the ranks divide them; else their weights are replicated, and nothing is gathered."""
        model = ('layers = [{type = "decoder_block", name = "h", heads = HEADS, kv_heads = KV, head_dim = 6, parallel = "heads"}, '
                 '{type = "flatten"}, {type = "linear", out = 3}]')

        def planned(heads, kv_heads, more=""):
            toml = re.sub("layers = .*", model.replace("HEADS", str(heads)).replace("KV", f"{kv_heads}{more}"), TINY, count=1)
            self.write("h.toml", toml.replace("shape = [8]", "shape = [5, 16]"))
            plan = self.expect(0, "plan", "h.toml", "topology.tensor=4", "--ir=forward_backward")
            shapes = {name: tuple(map(int, rows.split(", "))) for rows, name in
                      re.findall(r'f32 \(([\d, ]+)\) .*= persistent "model.h.attn.(\w+).weight"', plan.out)}
            gathered = [int(n) for n in re.findall(r"all_gather of (\d+)", plan.out)]
            return shapes, plan.err, gathered

        self.assertEqual(planned(8, 4), ({"q": (12, 16), "k": (6, 16), "v": (6, 16), "out": (16, 12)}, "", []))
        self.assertEqual(planned(8, 2), ({"q": (12, 16), "k": (12, 16), "v": (12, 16), "out": (16, 12)}, "", []))
        # A norm over all heads communicates its sums, and the gradients of its gains, alone.
        self.assertLessEqual(max(planned(8, 4, ', qk_norm = "all"')[2]), 12)
        shapes, err, _ = planned(6, 6)
        self.assertEqual(shapes, {"q": (36, 16), "k": (36, 16), "v": (36, 16), "out": (16, 36)})
        self.assertIn("parameter 'model.h.attn.q.weight' (and 3 more) is replicated: 4 tensor ranks do not divide its 6 units of 6 along dimension 0", err)

    def test_experts(self):
        """Each tensor rank has some of the experts; their rows are summed where they return to their tokens, and never gathered."""
        model = ('layers = [{type = "decoder_block", name = "h", heads = 4, ffn = 24, mlp = "swiglu", parallel = "heads", OPTIONS}, '
                 '{type = "flatten"}, {type = "linear", out = 3}]')

        def write(options):
            toml = re.sub("layers = .*", model.replace("OPTIONS", options), TINY, count=1)
            self.write("e.toml", toml.replace("shape = [8]", "shape = [5, 16]"))

        write("experts = 8")
        plan = self.expect(0, "plan", "e.toml", "topology.tensor=4", "--ir=forward_backward").out
        shapes = {name: tuple(map(int, rows.split(", "))) for rows, name in
                  re.findall(r'f32 \(([\d, ]+)\) .*= persistent "model.h.mlp.(\w+).weight"', plan)}
        self.assertEqual(shapes, {"router": (8, 16), "gate": (2, 24, 16), "up": (2, 24, 16), "down": (2, 16, 24)})
        self.assertNotIn("all_gather", plan)
        self.assertEqual(len(re.findall("grouped_matmul\\(", plan)), 6)
        self.assertEqual(len(re.findall("grouped_matmul_grad\\(", plan)), 3)
        for options, error in {
            "experts = 2, top_k = 3": "top_k = 3 of experts = 2, expected at most as many; set at",
            "experts = 2, mlp_bias = true": "experts have no biases, found mlp_bias = true; leave it out",
            "experts = -1": "experts: expected integer >= 0, found -1",
        }.items():
            write(options)
            self.assertIn(error, self.expect(2, "plan", "e.toml").err)

    def test_balance_of_experts(self):
        """Where each token has every expert, the term is the number of experts for each block, whatever the router says."""
        model = ('layers = [{type = "block", repeat = 2, layers = [{type = "experts", ffn = 24, experts = 5, top_k = 5, OPTION}]}, '
                 '{type = "flatten"}, {type = "linear", out = 3}]')
        losses = []
        for option in ("balance = 0", "balance = 0.5"):
            toml = re.sub("layers = .*", model.replace("OPTION", option), TINY, count=1)
            self.write("e.toml", toml.replace("shape = [8]", "shape = [5, 16]"))
            self.expect(0, "run", "e.toml", "-q", "run.steps=1", "run.log_every=1", "--run-dir", option)
            lines = [json.loads(line) for line in (self.folder / option / "metrics.ndjson").read_text().splitlines()]
            losses.append(next(line for line in lines if "loss" in line))
        self.assertNotIn("balance", losses[0])
        self.assertAlmostEqual(losses[1]["balance"], 10, places=4)
        self.assertAlmostEqual(losses[1]["loss"], losses[0]["loss"] + 5, places=4)

    def test_entry_points(self):
        """What a session can run: a row each for a person, all launches as a record."""
        plan = self.plan("batch.accumulation=3", "batch.global=12")
        step, batch, predict = plan["entry_points"]
        self.assertEqual([e["name"] for e in (step, batch, predict)], ["train_step", "evaluate", "predict"])
        self.assertEqual(step["programs"], ["zero_grad", "forward_backward", "update"])
        self.assertEqual(step["launches"], plan["launches"]["step"])
        self.assertEqual((step["samples"], step["flops"], step["sent_bytes"]), (4, plan["flops_per_step"], 0))
        self.assertEqual(step["transient_bytes"], max(p["transient_bytes"] for p in plan["programs"] if p["name"] in step["programs"]))
        self.assertEqual(step["fields"], batch["fields"])
        self.assertEqual(predict["launches"], plan["launches"]["evaluation"])
        text = self.expect(0, "plan", "t.toml", "topology.data=2").out
        self.assertRegex(text, r"\n  train_step +\d+ .* forward_backward_reduce, update\n")
        self.assertRegex(text, r"\n  reduce_metrics +0 .* reduce_metrics\n")
        text = self.expect(0, "plan", "t.toml", "batch.accumulation=4", "--ir=update").out
        self.assertIn("\n# entry point train_step: zero_grad, 4 x forward_backward, update\n", text)

    def test_launches(self):
        """Which programs a step runs, in order, for which micro-batch, on which of the slots."""
        launches = self.plan("batch.accumulation=3", "batch.global=12")["launches"]
        micro = [{"program": "forward_backward", "slot": 0, "micro_batch": m} for m in range(3)]
        self.assertEqual(launches["step"], [{"program": "zero_grad", "slot": 0}, *micro, {"program": "update", "slot": 0}])
        self.assertEqual(launches["evaluation"], [{"program": "evaluate", "slot": 0, "micro_batch": 0}])
        launches = self.plan(*TWO)["launches"]["step"][1:-1]
        self.assertEqual([(turn["program"].split()[0].removesuffix("_reduce"), turn["micro_batch"], turn["slot"]) for turn in launches],
                         [("forward", 0, 0), ("forward", 1, 1), ("backward", 0, 0), ("forward", 2, 0), ("backward", 1, 1), ("forward", 3, 1),
                          ("backward", 2, 0), ("backward", 3, 1)])
        text = self.expect(0, "plan", "t.toml", "batch.accumulation=4", "topology.data=2").out
        self.assertIn("\n  each step runs: zero_grad, forward_backward for micro-batches 0-2, forward_backward_reduce for micro-batch 3, then update\n", text)
        text = self.expect(0, "plan", "t.toml", "topology.pipeline=2", "batch.global=64", "batch.accumulation=64").out
        self.assertRegex(text, r"each step runs: zero_grad, forward of stage 0 for micro-batches 0-1, .*, \d+ more \(--json has all\)\n")
        line = re.search("each step runs.*", text)[0]
        self.assertLess(len(line), 500)
        more = self.expect(0, "plan", "t.toml", "topology.pipeline=2", "batch.global=64", "batch.accumulation=64", "-v").out
        self.assertGreater(len(re.search("each step runs.*", more)[0]), 2 * len(line))

    def test_every_model_has_its_layers_listed(self):
        self.write("t.toml", TINY.replace("[model]", "[models.a]").replace("[loss]", "[models.a.loss]")
                   .replace("[[metrics]]", "[[models.a.metrics]]").replace("[optimizer]", "[models.a.optimizer]")
                   + '[models.b]\nfrozen = true\nlayers = [{type = "linear", out = 3}, {type = "relu"}]\n')
        layers = [layer for stage in self.plan(*TWO)["pipeline"]["stages"] for layer in stage["layers"]]
        self.assertEqual(sorted(layers), ["a.dropout1", "a.linear1", "a.linear2", "a.relu1", "b.linear1", "b.relu1"])

    def test_few_micro_batches(self):
        """A hint, which names a key that helps."""
        four = ("topology.pipeline=4",)
        for words, hint in (((), "1 micro-batch in a pipeline of 4 ranks: the ranks idle 72 % of the time; set batch.accumulation to 8 or more"),
                            (("batch.micro=8",), "set batch.micro to 2 or less"),
                            (("batch.global=6",), "set batch.accumulation to 8 or more, and batch.global to a multiple of 8")):
            outcome = self.expect(0, "plan", "t.toml", *four, *words)
            self.assertEqual(outcome.err.count("warning: [plan]"), 1)
            self.assertIn(hint, outcome.err)
            self.assertIn(hint, self.expect(0, "check", "t.toml", *four, *words).err)
            self.assertEqual(self.expect(0, "plan", "t.toml", *four, *words, "--rank", "1").err, "")
        for words in ((*four, "batch.accumulation=4"), ()):
            self.assertEqual(self.expect(0, "plan", "t.toml", *words).err, "")

    def test_picture(self):
        done = self.expect(0, "plan", "t.toml", *TWO, "--picture", "out.svg")
        svg = (self.folder / "out.svg").read_text()
        self.assertTrue(svg.startswith("<svg ") and svg.endswith("</svg>\n"))
        self.assertEqual(svg.count("<title>"), 2 * 4 * 2)
        idle = re.search(r"ranks idle (\S+) %", done.out)[1]
        self.assertIn(f">idle {idle} %<", svg)
        self.expect(0, "plan", "t.toml", *TWO, "--picture", "other.svg", "--rank", "1", "--json")
        self.assertEqual((self.folder / "other.svg").read_text(), svg)

    def test_picture_to_standard_output(self):
        self.expect(0, "plan", "t.toml", *TWO, "--picture", "out.svg")
        self.assertEqual(self.expect(0, "plan", "t.toml", *TWO, "--picture", "-").out, (self.folder / "out.svg").read_text())
        for other in ("--json", "--types"):
            self.fails(2, ["plan", "t.toml", *TWO, "--picture", "-", other],
                       f"[plan] --picture - and {other} would both write to standard output; name a file")
        for picture in ("-", "other.svg"):  # which --ir left out without a word
            self.fails(2, ["plan", "t.toml", *TWO, "--picture", picture, "--ir"], "--ir", "--picture")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["out.svg", "t.toml"])

    def test_a_small_model_takes_one_screen(self):
        self.assertLess(len(self.on_terminal("plan", "t.toml", columns=80).splitlines()), 24)

    def test_quiet(self):
        """Parameters and memory alone, as the whole plan has them."""
        def lines_of(*words):
            return without_free_memory(self.expect(0, "plan", "t.toml", *words).out).splitlines()
        for words in ((), TWO, ("topology.data=2",), ("-v",)):
            whole = [line.strip() for line in lines_of(*(w for w in words if w != "-v"))]
            lines = lines_of(*words, "-q")
            self.assertIn(len(lines), (3, 4), lines)  # the fourth: shared memory of ranks
            for line in lines:
                self.assertIn(line.strip(), whole)
            self.assertRegex(lines[0], r"^\d+ parameters, \d+ of them trained; this rank writes ")
            self.assertRegex(lines[1], r"^memory of this rank: ")
            self.assertRegex(lines[-1], r"^  on the device ")
        for words in (["--ir"], ["--types"], ["--every-rank"]):  # what was asked for by name
            self.assertEqual(lines_of(*words, "-q"), lines_of(*words))

    def test_it_fits_a_narrow_terminal(self):
        for words in ((), TWO):
            text = self.on_terminal("plan", "t.toml", *words, columns=40)
            text = re.sub("\033\\[[0-9]*m", "", text)
            self.assertLessEqual(max(map(len, text.splitlines())), 40, text)
            self.assertIn("\n  model.linear1\n    type linear, output of a micro-batch\n      f32 ",
                          text)
            wide = self.on_terminal("plan", "t.toml", *words, columns=400)
            self.assertEqual(without_free_memory(re.sub("\033\\[[0-9]*m", "", wide)),
                             without_free_memory(self.expect(0, "plan", "t.toml", *words).out))

    def test_no_picture(self):
        self.fails(2, ["plan", "t.toml", "--picture", "out.svg"], "set topology.pipeline to 2 or more")
        self.fails(2, ["plan", "t.toml", *TWO, "--picture"], "--picture needs a FILE after it")
        self.assertFalse((self.folder / "out.svg").exists())
        for name in ("out.png", "a.b/out.PDF"):
            self.fails(2, ["plan", "t.toml", *TWO, "--picture", name],
                       f"--picture writes SVG, found the name '{name}'; name it {name[:-4]}.svg")
        self.fails(3, ["plan", "t.toml", *TWO, "--picture", "none/out.svg"], "cannot write 'none/out.svg'", "No such file")


class Page(Case):
    """examples/README.md shows the output of the command that it names. After an intended change,
    paste the new output there."""

    def figures(self, words):
        plan = self.expect(0, "plan", PIPELINES, *words.split(), "run.device=reference", "--json").records[0]
        memory = [plan["memory"][name] for name in ("parameters", "gradients", "optimizer", "activations", "transient", "arena")]
        figures = [f"{size / 2**20:.1f}" for size in (*memory, plan["sent_bytes_per_step"])]
        idle = f"{100 * plan['pipeline']['idle_share']:.1f} %" if "pipeline" in plan else "-"
        return " | ".join([*figures, f"{plan['flops_per_step'] / 1e9:.2f}", idle])

    def test_table(self):
        rows = re.findall(r"^\| [^|]* \| `(topology[^`]*)` \| (.*) \|$", PAGE.read_text(), re.M)
        self.assertGreater(len(rows), 10)
        for words, shown in rows:
            if re.match(r"\d", shown):
                self.assertEqual(shown, self.figures(words), words)

    def test_pictures(self):
        text = PAGE.read_text()
        commands = re.findall(r"^    plait plan examples/pipelines (.*) --picture examples/pipelines/(\w+\.svg)$", text, re.M)
        self.assertEqual({picture for _, picture in commands}, {path.name for path in PIPELINES.glob("*.svg")})
        for words, picture in commands:
            self.assertIn(f"](pipelines/{picture})", text)
            self.expect(0, "plan", PIPELINES, *words.split(), "--picture", "again.svg", "-q", "--yes")
            self.assertEqual((self.folder / "again.svg").read_text(), (PIPELINES / picture).read_text(), f"{picture}: draw it again")


if __name__ == "__main__":
    unittest.main()
