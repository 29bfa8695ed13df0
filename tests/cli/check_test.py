"""plait check: all problems of an experiment at once, each with its place and the expected value."""

import os
import re
import unittest

from support import Case, TINY

LAYERS = TINY[TINY.index("layers = "):TINY.index("[loss]")]


def with_layers(*layers):
    return TINY.replace(LAYERS, "layers = [" + ", ".join(layers) + "]\n")


class Check(Case):
    def problems(self, toml, *overrides, **more):
        """The problems that `check` finds, as {path: problem}; each path once."""
        self.write("t.toml", toml)
        outcome = self.plait("check", "t.toml", *overrides, "--json", **more)
        found = outcome.records[0]["problems"]
        self.assertEqual(outcome.code, 2 if found else 0)
        by_path = {problem["path"]: problem for problem in found}
        self.assertEqual(len(by_path), len(found), found)
        return by_path

    def only(self, toml, path, place, *texts, overrides=(), **more):
        """There is this one problem; place: "LINE:COLUMN" of the file, or the override."""
        found = self.problems(toml, *overrides, **more)
        self.assertEqual(list(found), [path])
        one = found[path]
        self.assertEqual(f"{one['line']}:{one['column']}" if one["file"] == "t.toml" else one["file"], place)
        for text in texts:
            self.assertIn(text, one["message"] + "; " + one["hint"])
        return one


class Runs(Check):
    """What a run would refuse: the same text, without a device, samples or tensors."""

    def both(self, path, text, *overrides, code=2):
        self.assertIn(text, self.only(TINY, path, f"override '{overrides[0]}'", overrides=overrides)["message"])
        self.fails(code, ["run", "t.toml", *overrides, "--run-dir", "r"], text)

    def test_a_backend_of_another_device(self):
        text = "backend 'nccl' (topology.backend) works on device 'cuda' only, and run.device is 'cpu'"
        self.both("topology.backend", text, "topology.backend=nccl", "topology.data=2", "run.device=cpu")
        self.assertEqual(self.problems(TINY, "topology.backend=nccl", "run.device=cpu"), {})  # nothing is exchanged
        self.assertEqual(self.problems(TINY, "topology.backend=gloo", "topology.data=2"), {})

    def test_no_samples(self):
        self.only(TINY, "data.train", "6:1", "dataset 'synthetic' of [data.train] has no samples", overrides=["data.train.samples=0"])
        self.fails(1, ["run", "t.toml", "data.train.samples=0"], "dataset 'synthetic' of [data.train] has no samples")
        # A host feeds these.
        self.assertEqual(self.problems(TINY, 'data.train.fields=["x: input f32 [8]", "label: target i32 []"]'), {})

    def test_more_classes_than_outputs(self):
        self.write("a.csv", "a,y\n1,ant\n2,bee\n3,cat\n4,dog\n")
        start, end = TINY.index("[data.train]"), TINY.index("[model]")
        csv = '[data.train]\ntype = "csv"\npath = "a.csv"\ntarget = ["y"]\ntarget_type = "class"\n'
        toml = TINY[:start] + csv + csv.replace("train", "eval") + TINY[end:]
        found = self.problems(toml, "batch.global=4")
        why = ", which is out of range: model.linear2 has 3 classes, 0 to 2, for model.cross_entropy; set model.layers[3].out = 4 or more"
        for name in ("train", "eval"):
            self.assertIn(f"[data.{name}] field 'target' is 3 in the last of its classes{why}", found[f"data.{name}"]["message"])
        self.fails(1, ["run", "t.toml", "batch.global=4"], "[data.train] field 'target' is 3 in step 1" + why)
        self.assertEqual(self.problems(toml.replace("out = 3", "out = 4"), "batch.global=4"), {})
        one = self.problems(toml.replace("out = 3", "out = 1"), "batch.global=4")["data.train"]["message"]
        self.assertIn(", which is out of range: model.linear2 has 1 class, 0, for model.cross_entropy; set model.layers[3].out = 4 or more", one)

    def test_weights_that_do_not_fit(self):
        self.write("t.toml", TINY)
        self.expect(0, "run", "t.toml", "--run-dir", "w")
        self.expect(0, "export", "w", "w.safetensors")
        layers = "model.layers=" + LAYERS.strip().removeprefix("layers = ")
        for load in ("w", "w.safetensors"):
            self.assertEqual(self.problems(TINY, f"model.load={load}"), {})
            self.both("model.load", "tensor 'model.linear2.weight'", f"model.load={load}", layers.replace("out = 3", "out = 5"))
            self.both("model.load", "has no tensor 'model.z.weight'", f"model.load={load}", layers.replace("out = 3", 'out = 3, name = "z"'))
        (self.folder / "w.safetensors").write_bytes(b"no weights")
        self.both("model.load", "w.safetensors", "model.load=w.safetensors")


class Keys(Check):
    def test_an_old_key_with_other_values(self):
        self.only(TINY + "[device]\nbind_caller = true\n", "device.bind_caller", "27:1", "'bind_caller' is now called 'bind'",
                  'write bind = "all" to bind the calling thread, too', overrides=["run.device=cpu"])

    def test_habits_of_other_libraries(self):
        """What is called otherwise there is named as it is here."""
        for override, path, *texts in (
                ("lr=0.1", "lr", "did you mean 'optimizer.learning_rate'?"),
                ("batch_size=4", "batch_size", "did you mean 'batch.global'?"),
                ("batch.batch_size=4", "batch.batch_size", "did you mean 'global'?"),
                ("optimizer=adam", "optimizer", "expected a table, found a string", "write optimizer.type=adam"),
                ("precision=bf16", "precision", "write precision.compute=bf16"),
                ("run.steps=1e3", "run.steps", "found 1000.0: write 1000"),
                ("extends=base.toml", "extends", "is a key of files, which an override cannot add"),
                ("optimizer.rate=0.1", "optimizer.rate", "'rate' is now called 'learning_rate'", "write optimizer.learning_rate=..."),
                ("data.train={type=\"csv\", path=\"a.csv\", target=2}", "data.train.target", "expected list of strings, found 2: write [\"2\"]"),
                ("run.name=" + "a" * 129, "run.name", "129 characters cannot name a folder", "at most 128")):
            with self.subTest(override=override):
                self.only(TINY, path, f"override '{override}'", *texts, overrides=[override])
        lora = TINY + '[[model.adapters]]\ntype = "lora"\nmatch = ["*"]\nr = 4\ntarget_modules = ["q"]\n'
        found = self.problems(lora)
        self.assertIn("did you mean 'rank'?", found["model.adapters[0].r"]["message"])
        self.assertIn("did you mean 'match'?", found["model.adapters[0].target_modules"]["message"])
        self.write("k.yaml", "run:\n  steps: 4\n")
        self.fails(2, ["check", "k.yaml"], "this seems to be YAML; an experiment is TOML")

    def test_an_override_replaces_the_other_length(self):
        values = ("run.steps", "run.epochs")
        def bound(toml, *overrides):
            self.write("t.toml", toml)
            all = self.expect(0, "bind", "t.toml", *overrides, "--json").records[0]["values"]
            return tuple(all[key]["value"] for key in values)
        epochs = TINY.replace("steps = 40", "epochs = 4")
        self.assertEqual(bound(epochs, "run.steps=200"), (200, 0))
        self.assertEqual(bound(TINY, "run.epochs=3"), (0, 3))
        self.assertEqual(bound(epochs, "run.steps=0"), (0, 4))
        self.only(TINY.replace("steps = 40", "steps = 40\nepochs = 4"), "run.steps", "3:9", "given together with run.epochs")
        self.only(epochs, "run.steps", "override 'run.steps=5'", "given together", overrides=["run.epochs=3", "run.steps=5"])

    def test_what_follows_from_a_problem_is_none(self):
        """Shapes behind a layer whose adapter fails, a type that was refused, a pattern that was meant to train."""
        adapters = 'model.adapters=[{type="lora", match=["*.weight"], rank_pattern=["*=x"]}]'
        self.only(TINY, "model.adapters[0]", f"override '{adapters}'", "expected PATTERN=NUMBER", overrides=[adapters])
        self.only(TINY, "precision.compute", "override 'precision.compute=fp16'", "did you mean 'f16'?",
                  overrides=["precision.compute=fp16"])
        train = 'model.train=["*.bais"]'
        self.only(TINY, "model.train", f"override '{train}'", "matches no parameter", overrides=[train])

    def test_frozen_weights_that_there_are_none_of(self):
        self.write("t.toml", TINY)
        lora = 'model.adapters=[{type="lora",match=["*.weight"],rank=2}]'
        for frozen, more, why in (("nf4", [], "no product has a frozen weight"), ("int8", ['model.train=["*.weight"]'], "no product has"),
                                  ("compute", ["precision.compute=bf16"], "the model has no frozen weights"), ("nf4", [lora], ""),
                                  ("compute", ["precision.compute=bf16", lora], ""), ("master", [], "")):
            with self.subTest(frozen=frozen, more=more):
                said = self.expect(0, "plan", "t.toml", f"precision.frozen={frozen}", *more).err
                text = f"override 'precision.frozen={frozen}': precision.frozen has no effect: "
                self.assertEqual(said.count("precision.frozen"), 2 if why else 0, said)
                self.assertEqual(text + why in said, bool(why), said)

    def test_a_column_that_does_not_exist(self):
        """The key that names it, not the path of the file."""
        self.write("a.csv", "a,y\n1,0\n2,1\n")
        start, end = TINY.index("[data.train]"), TINY.index("[data.eval]")
        self.only(TINY[:start] + '[data.train]\ntype = "csv"\npath = "a.csv"\ntarget = ["z"]\n' + TINY[end:], "data.train.target", "9:10",
                  "target names column 'z', which does not exist; the columns are 'a', 'y'")
        override = 'data.train={type = "csv", path = "a.csv", target = ["z"]}'
        self.only(TINY, "data.train.target", f"override '{override}'", "target names column 'z'", overrides=[override])

    def test_normalize_of_no_field(self):
        toml = TINY.replace("classes = 3\n[data.eval]", "classes = 3\nnormalize.lable = {divide = 3}\n[data.eval]")
        self.only(toml, "data.train.normalize.lable", "11:11", "no field 'lable' (did you mean 'label'?)", "its fields are: x, label")
        override = "data.eval.normalize.xx.divide=3"
        self.only(TINY, "data.eval.normalize.xx", f"override '{override}'", "did you mean 'x'?", overrides=[override])

    def test_auto_takes_the_device_of_an_allowed_plugin(self):
        self.write("t.toml", TINY)
        needed = ["layer-dense", "layer-activation", "layer-dropout", "layer-loss", "layer-metric", "optimizer-adamw", "schedule-constant",
                  "data-synthetic"]
        allow = "plugins.allow=" + str(needed + ["device-reference"]).replace("'", '"')
        self.assertEqual(self.expect(0, "plan", "t.toml", allow, "--json").records[0]["device"], "reference")
        found = self.problems(TINY, "plugins.allow=" + str(needed).replace("'", '"'))
        self.assertIn("reference: plugin 'device-reference' is not in plugins.allow", found["run.device"]["message"])

    def test_auto_tells_that_a_better_device_may_be_lost(self):
        """A plugin that does not load takes its device with it, and the run would be slow without a word of why."""
        self.write("t.toml", TINY)
        (self.folder / "broken").mkdir()
        # A layer takes no device with it, whatever it is called; what a plugin of another name has is not known.
        for name in ("plait-device-fast", "plait-layer-fast", "layer-device-norm", "acme-npu"):
            (self.folder / f"broken/{name}.so").write_text("no library")
        named = r"'[^']*/broken/acme-npu\.so', '[^']*/broken/plait-device-fast\.so'"
        told = "run.device = \"auto\" takes '"
        for words, lost in (((), False), (("--plugins", "broken"), True), (("--plugins", "broken", "run.device=reference"), False)):
            for verb in ("check", "run"):
                done = self.expect(0, verb, "t.toml", *words, *(["run.steps=1"] if verb == "run" else []))
                self.assertEqual(done.err.count(told), int(lost), done.err)
                self.assertEqual(bool(re.search(told + r"\w+'; .* could not be loaded: " + named + "; mend ", done.err)), lost, done.err)

    def test_tie_of_no_parameter(self):
        linear, tied = '{type = "linear", out = 8}', '{type = "linear", out = 8, tie = {wieght = "model.linear1.weight"}}'
        toml = with_layers(linear, tied)
        self.only(toml, "model.layers[1].tie.wieght", f"18:{toml.splitlines()[17].index('wieght') + 1}",
                  "linear has no parameter 'wieght' (did you mean 'weight'?)", "its parameters are: weight, bias")
        self.assertEqual(self.problems(toml.replace("wieght", "weight")), {})
        self.only(with_layers(linear, tied.replace("wieght", "weight").replace("linear1", "linaer1")), "model.layers[1].tie.weight",
                  "18:73", "no parameter 'model.linaer1.weight' so far (did you mean 'model.linear1.weight'?)")

    def test_groups(self):
        one = TINY + '[[optimizer.groups]]\nmatch = ["*.bias"]\nweight_decay = 0\n'
        self.assertEqual(self.problems(one), {})  # the weights are the optimizer's own
        two = one + '[[optimizer.groups]]\nmatch = ["model.linear1.*"]\n'
        self.only(two, "optimizer.groups[1].match", "30:9", "matches parameters that belong to optimizer.groups[0]: model.linear1.bias;")
        self.only(one.replace("*.bias", "*.bais"), "optimizer.groups[0].match", "27:9", "'*.bais' matches no parameter", "model.linear2.bias")

    def test_early_stop(self):
        stop = TINY + '[evaluate.early_stop]\nmetric = "accuracy"\npatience = 2\n'
        self.assertEqual(self.problems(stop), {})
        self.only(stop, "evaluate.early_stop.metric", "27:10", "no [data.eval]", overrides=["~data.eval"])
        self.only(stop, "evaluate.early_stop.patience", "28:12", "evaluate.early_stop.metric", overrides=["~evaluate.early_stop.metric"])
        found = self.only(stop.replace('metric = "accuracy"', 'metric = "acuracy"'), "evaluate.early_stop.metric", "27:10", "did you mean 'accuracy'?")
        self.assertNotIn("cross_entropy", found["hint"])  # the run watches the loss as a whole

    def test_texts_without_quotes(self):
        self.only(TINY.replace('"tiny"', "nan"), "run.name", "2:8", 'expected string, found nan; write it in quotes: "nan"')
        self.only(TINY, "run.name", "override 'run.name=nan'", """write it in quotes: run.name='"nan"'""", overrides=["run.name=nan"])
        self.assertEqual(self.problems(TINY, 'run.name="nan"'), {})

    def test_variables_of_the_environment(self):
        self.only(TINY, "foo", "environment variable PLAIT__FOO=1", "unknown key", env={"PLAIT__FOO": "1"})
        self.fails(2, ["run", "t.toml"], "environment variable PLAIT__FOO=1: foo: unknown key", env={"PLAIT__FOO": "1"})

    def test_figures_that_nothing_asks_for(self):
        self.only(TINY, "statistics.figures", "override 'statistics.figures=[\"l3\"]'", "there is no 'l3'",
                  overrides=['statistics.figures=["l3"]'])
        self.assertEqual(self.problems(TINY, "statistics.figures=[]"), {})

    def test_more_threads_than_cores(self):
        self.write("t.toml", TINY)
        cores = os.sysconf("SC_NPROCESSORS_ONLN")
        said = self.expect(0, "check", "t.toml", f"run.threads={cores + 3}", "run.device=cpu").err
        self.assertIn(f"warning: override 'run.threads={cores + 3}': run.threads is {cores + 3}, and this machine has {cores} cores", said)
        self.assertEqual(self.expect(0, "check", "t.toml", f"run.threads={cores}", "run.device=cpu").err, "")

    def test_keys_without_effect_are_warned_of(self):
        self.write("t.toml", TINY)
        words = ["topology.virtual_stages=2", "topology.stages=[2,2]", "topology.zero=2", "evaluate.every=5", "~data.eval"]
        warned = self.expect(0, "check", "t.toml", *words).err
        for key, why in (("topology.virtual_stages", "topology.pipeline is 1"), ("topology.stages", "topology.pipeline is 1"),
                         ("topology.zero", "topology.data is 1"), ("evaluate.every", "there is no [data.eval]")):
            self.assertRegex(warned, rf"warning: override '{key}=.*': {key} has no effect: .*{why[-9:-1]}")
        self.assertEqual(self.expect(0, "check", "t.toml", "topology.data=2", "topology.zero=2", "evaluate.every=5").err, "")

    def test_states_that_there_are_none_of(self):
        self.write("t.toml", TINY)
        for optimizer, more, why in (("sgd", [], "the optimizer keeps no states of the shape of a weight"),
                                     ("adafactor", [], "the optimizer keeps no states of the shape of a weight"),
                                     ("adamw", ['model.train=["*.bias"]'], "no weight that is trained has two or more dimensions"),
                                     ("sgd", ["optimizer.momentum=0.9"], ""), ("adamw", [], ""), ("muon", [], "")):
            with self.subTest(optimizer=optimizer, more=more):
                said = self.expect(0, "plan", "t.toml", f"optimizer.type={optimizer}", "precision.states=bf16", *more).err
                text = "override 'precision.states=bf16': precision.states has no effect: "
                self.assertEqual(said.count("precision.states"), 2 if why else 0, said)
                self.assertEqual(text + why in said, bool(why), said)

    def test_products_that_no_kernel_can_round_or_tune(self):
        self.write("t.toml", TINY)
        for device, compute, why in (("cpu", "f32", "device 'cpu' computes products of f32 in f32"),
                                     ("reference", "f32", "device 'reference' computes products"),
                                     ("cpu", "f64", "no product has operands of f32")):
            warned = self.expect(0, "plan", "t.toml", "precision.tf32=true", "precision.tune=true",
                                 f"run.device={device}", f"precision.compute={compute}").err
            self.assertIn("override 'precision.tf32=true': precision.tf32 has no effect: " + why,
                          warned)
            self.assertIn("precision.tune has no effect: no kernel of device "
                          f"'{device}' has several algorithms", warned)

    def test_attention_that_no_library_computes(self):
        self.write("t.toml", TINY)
        warned = self.expect(0, "plan", "t.toml", "precision.library_attention=true").err
        self.assertIn("precision.library_attention has no effect: the model has no attention",
                      warned)


class Numbers(Check):
    def test_any_two_sizes_of_a_batch_give_the_third(self):
        self.write("two.toml", TINY.replace("global = 16", "micro = 4\naccumulation = 3"))
        for data in (1, 2):
            plan = self.expect(0, "plan", "two.toml", f"topology.data={data}", "--json").records[0]
            self.assertEqual(plan["global_batch"], 12 * data)
            self.assertRegex(self.expect(0, "bind", "two.toml", f"topology.data={data}").out, rf"(?m)^global = {12 * data}\b")
        self.fails(2, ["check", "two.toml", "batch.accumulation=0"], "batch.global: required key is missing", "batch.accumulation")
        self.fails(2, ["check", "two.toml", "batch.micro=9000000000000000000"], "batch.micro: micro * accumulation * data is beyond 64 bits")
        # The size counts as a setting of the run.
        self.expect(0, "run", "two.toml", "run.steps=2", "--run-dir", "r")
        self.fails(0, ["run", "two.toml", "run.steps=4", "--run-dir", "r", "--resume", "must", "topology.data=2"], "batch.global was 12, is 24")

    def test_batches_name_the_nearest_that_fit(self):
        for overrides, path, hint in (
                (["topology.data=3"], "batch.global", "use global = 15 or 18, or data = 2"),
                (["batch.micro=5"], "batch.micro", "use micro = 4"),
                (["topology.data=2", "batch.micro=5"], "batch.micro", "use micro = 4"),
                (["batch.accumulation=3"], "batch.accumulation", "use accumulation = 2"),
                (["batch.micro=4", "batch.accumulation=3"], "batch.accumulation", "use accumulation = 4"),
                (["topology.data=2", "batch.eval=3"], "batch.eval", "use eval = 2 or 4"),
                (["topology.pipeline=9"], "topology.pipeline", "use pipeline = 4")):
            with self.subTest(overrides=overrides):
                self.assertEqual(self.problems(TINY, *overrides)[path]["hint"], hint)
                self.fails(2, ["run", "t.toml", *overrides], hint)

    def test_a_run_without_end(self):
        text = "the length of the run is not set; set run.steps or run.epochs"
        self.only(TINY.replace("steps = 40", "steps = 0"), "run", "3:9", text)
        self.fails(2, ["run", "t.toml"], text)
        self.only(TINY, "run", "1:1", text, overrides=["~run.steps"])
        self.fails(2, ["run", "t.toml", "~run.steps"], text)
        self.assertFalse((self.folder / "runs").exists())

    def test_top_k_of_all_classes(self):
        self.only(TINY.replace('type = "accuracy"', 'type = "top_k"\nk = 3'), "metrics[0]", "21:1", "k = 3 of 3 classes", "use k < 3")
        self.assertEqual(self.problems(TINY.replace('type = "accuracy"', 'type = "top_k"\nk = 2')), {})


class AtOnce(Check):
    def test_configuration_data_and_layers(self):
        toml = with_layers('{type = "linear", out = 8, tie = {wieght = "model.a.weight"}}', '{type = "relu", from = "nowhere"}',
                           '{type = "linear", out = 3, as = ["a", "b"]}')
        toml = toml.replace('"synthetic"\nsamples = 100\nshape = [8]\nclasses = 3\nfirst = 200', '"csv"\npath = "no.csv"')
        toml = toml.replace('type = "accuracy"', 'type = "accuracy"\nfrom = ["nothing", "label"]') + "\nlearning_rat = 3\n"
        toml = toml.replace("global = 16", "global = 16\nmicro = 5")
        found = self.problems(toml)
        self.assertEqual(set(found), {"batch.micro", "data.eval.path", "model.layers[0].tie.wieght", "model.layers[1].from",
                                      "model.layers[2].as", "metrics[0].from", "optimizer.learning_rat"})
        self.assertTrue(all(problem["line"] > 1 and problem["column"] > 1 for path, problem in found.items() if path != "optimizer.learning_rat"))

    def test_what_follows_from_a_failure_is_not_told(self):
        shape = '{type = "reshape", shape = [3, 3]}'
        rest = ['{type = "concat", from = ["x", "x"]}', '{type = "linear", out = 3}']
        found = self.only(with_layers(shape, *rest), "model.layers[0]", "18:11", "a sample has 8 values", "shape")
        self.assertNotIn("linear", found["message"])
        self.only(TINY.replace("shape = [8]", 'shape = "x"', 1), "data.train.shape", "9:9", "expected list of integers",
                  overrides=["~data.eval"])
        self.only(TINY.replace('"linear", out = 16', '"linaer", out = 16'), "model.layers[0].type", "18:19", "did you mean 'linear'?")

    def test_a_model_without_layers(self):
        for layers, text in (("[]", "the model has no layers"), ("3", "expected a list of tables")):
            self.only(TINY.replace(LAYERS, f"layers = {layers}\n"), "model.layers", "17:1" if layers == "[]" else "18:10", text)

    def test_how_many_values_are_read(self):
        self.only(TINY, "loss.from", "override 'loss.from=x'", "[cross_entropy] takes 2 to 3 inputs, found 1", overrides=["loss.from=x"])
        three = 'metrics[0].from=["output","x","label"]'
        self.only(TINY, "metrics[0].from", f"override '{three}'", "[accuracy] takes 2 inputs, found 3", overrides=[three])
        pair = 'model.layers[1].from=["x","x"]'
        self.only(TINY, "model.layers[1].from", f"override '{pair}'", "[relu] takes 1 input, found 2", overrides=[pair])

    def test_losses_and_groups_beside_a_bad_layer(self):
        toml = with_layers('{type = "linear", out = 3, as = "h"}', '{type = "reshape", shape = [7]}', '{type = "relu", from = "h"}')
        toml = toml.replace('"cross_entropy"', '"cross_entropy"\nfrom = ["h", "lable"]')
        self.assertEqual(set(self.problems(toml)), {"model.layers[1]", "loss.from"})

    def test_an_override_is_named_as_the_cause(self):
        from_ = 'loss.from=["nowhere","label"]'
        self.only(TINY, "loss.from", f"override '{from_}'", "there is no value 'nowhere'", overrides=[from_])
        layer = 'model.layers[0]={type="reshape",shape=[3]}'
        self.only(TINY, "model.layers[0]", f"override '{layer}'", "a sample has 8 values", overrides=[layer])
        shape = "model.layers[0].shape=[3]"
        self.only(with_layers('{type = "reshape", shape = [8]}'), "model.layers[0]", f"override '{shape}'", overrides=[shape])

    def test_no_training_data(self):
        self.only(TINY, "data.train", "1:1", "there is no such dataset", overrides=["~data.train"])
        self.only(TINY, "data.train", "override 'data.train=3'", "expected a dataset, found an integer", overrides=["data.train=3"])

    def test_a_bad_override_hides_nothing(self):
        found = self.problems(TINY.replace("learning_rate = 0.01", "learning_rat = 0.01"), "run.seed=")
        self.assertEqual(set(found), {"run.seed", "optimizer.learning_rat"})


class Data(Check):
    FILES = 'type = "idx"\nimages = "train-images-idx3-ubyte.gz"\nlabels = "mine.gz"\n'

    def test_missing_files(self):
        start, end = TINY.index("[data.train]"), TINY.index("[data.eval]")
        self.write("t.toml", TINY[:start] + "[data.train]\n" + self.FILES + TINY[end:])
        (self.folder / "here").mkdir()
        for verb in ("check", "run"):
            images = "t.toml:8:10: data.train.images: file 'train-images-idx3-ubyte.gz' not found in "
            advice = "; pass its folder with --data DIR (or set PLAIT_DATA)"
            done = self.fails(2, [verb, "t.toml", "--data", "./here/."], images, "; plait data get mnist")
            self.assertRegex(done.out + done.err, r"ubyte.gz' not found in /\S*/here, the current folder")
            self.assertNotIn("/./", done.out + done.err)
            self.assertRegex(done.out + done.err, r"t.toml:9:10: data.train.labels: file 'mine.gz' not found in /\S*/here, the current folder; pass its folder with --data DIR \(or set PLAIT_DATA\)\n")
            self.fails(2, [verb, "t.toml"], advice + "; PLAIT_DATA is '/nowhere', which is not a folder", env={"PLAIT_DATA": "/nowhere"})
        self.assertFalse((self.folder / "runs").exists())

    def test_what_is_told_once(self):
        self.write("a.csv", "a,y\n1,ant\n2,bee\n3,cat\n4,ant\n")
        start, end = TINY.index("[data.train]"), TINY.index("[model]")
        csv = '[data.train]\ntype = "csv"\npath = "a.csv"\ntarget = ["y"]\ntarget_type = "class"\n'
        self.write("t.toml", TINY[:start] + csv + csv.replace("train", "eval") + TINY[end:])
        for verb in (["check"], ["plan"], ["plan", "topology.data=2"], ["run", "--run-dir", "r"]):
            said = self.expect(0, verb[0], "t.toml", "batch.global=4", *verb[1:])
            self.assertEqual((said.out + said.err).count("3 classes: 0 'ant'"), 1, verb)
        self.assertEqual(self.expect(0, "predict", "r").err.count("3 classes: 0 'ant'"), 1)
        # However the current folder is called.
        for folder in (".", self.folder, "../" + self.folder.name):
            self.fails(2, ["check", "t.toml", "data.train.path=b.csv", "--data", folder],
                       "file 'b.csv' not found in the current folder; pass its folder")

    def test_missing_files_of_a_set_that_is_here(self):
        """What to do about several files is said once; a set that `plait data get` left is named."""
        names = ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"]
        start, end = TINY.index("[data.train]"), TINY.index("[data.eval]")
        data = f'[data.train]\ntype = "idx"\nimages = "{names[0]}"\nlabels = "{names[1]}"\n'
        self.write("t.toml", TINY[:start] + data + TINY[end:])
        (self.folder / "data/mnist").mkdir(parents=True)
        for name in names[:3]:
            self.write(f"data/mnist/{name}", "")
        for verb in ("check", "run"):
            done = self.fails(2, [verb, "t.toml"], "; plait data get mnist or plait data get fashion-mnist downloads it")
            self.assertEqual((done.out + done.err).count("pass its folder"), 1)
            self.assertEqual((done.out + done.err).count("downloads it"), 1)
        self.write(f"data/mnist/{names[3]}", "")
        for verb in ("check", "run"):
            done = self.fails(2, [verb, "t.toml"], "(or set PLAIT_DATA); it is here already: use --data data/mnist")
            self.assertEqual((done.out + done.err).count("use --data"), 1)
        both, = self.plait("check", "t.toml", "--json").records
        self.assertEqual(len([one for one in both["problems"] if "use --data" in one["hint"]]), 2)

    def test_names_of_items(self):
        """By what other libraries, and people, call them."""
        for override, meant in (("model.layers[1].type=ReLU", "relu"), ("optimizer.type=AdamW", "adamw"),
                                ("optimizer.type=SGD", "sgd"), ("loss.type=CrossEntropyLoss", "cross_entropy"),
                                ("loss.type=MSELoss", "mse"), ("model.layers[0].type=Linaer", "linear")):
            self.only(TINY, override.split("=")[0], f"override '{override}'", f"(did you mean '{meant}'?)", overrides=[override])

    def test_a_dataset_misnamed(self):
        self.only(TINY.replace("[data.train]", "[data.trian]"), "data.trian", "6:1",
                  "there is no [data.train] to train on (did you mean it by [data.trian]?)")

    def test_ranks_that_the_file_does_not_ask_for(self):
        self.write("t.toml", TINY)
        done = self.fails(2, ["run", "t.toml", "--ranks", 2], "t.toml:1:1: topology: ", "with topology.data=0 the ranks decide")
        self.assertNotIn("default:", done.err)

    def test_folders_inside_the_data_folder(self):
        """One --data serves `plait data get`, which makes a folder for each set, and the verbs that read it."""
        start, end = TINY.index("[data.train]"), TINY.index("[data.eval]")
        self.write("t.toml", TINY[:start] + '[data.train]\ntype = "csv"\npath = "own.csv"\ntarget = ["y"]\n' + TINY[end:])
        for folder in ("data/one", "data/two"):
            (self.folder / folder).mkdir(parents=True)
        self.write("data/one/own.csv", "a,y\n1,0\n2,1\n")
        done = self.plait("check", "t.toml", "--data", "data")
        self.assertNotIn("own.csv", done.out + done.err)
        self.write("data/two/own.csv", "a,y\n1,0\n2,1\n")
        self.fails(2, ["check", "t.toml", "--data", "data"], "file 'own.csv' is in several folders: ", "data/one/own.csv, ",
                   "name the folder you mean: --data FOLDER, or data.train.path = \"one/own.csv\"")

    def test_a_bad_cell_is_told_once_at_the_path(self):
        self.write("bad.csv", "a,b\n1,x\n")
        start, end = TINY.index("[data.train]"), TINY.index("[data.eval]")
        toml = TINY[:start] + '[data.train]\ntype = "csv"\ntarget = "b"\npath = "bad.csv"\n' + TINY[end:]
        one = self.only(toml, "data.train.path", "9:8", "line 2, column 2: 'x' in column 'b' is not a number")
        self.assertEqual(one["message"].count("bad.csv"), 1)


if __name__ == "__main__":
    unittest.main()
