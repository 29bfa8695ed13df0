// What an experiment file means: read, bound and read again.
#include "engine/base/text.hpp"
#include "tests/unit/config/loaded.hpp"

using namespace plait;
using namespace plait::config;

TEST_CASE("a whole experiment is read") {
  const Loaded l = load(kSmall);
  CAPTURE(l.problems);
  REQUIRE(l.problems.empty());
  const Experiment& e = l.experiment;
  CHECK(e.run.epochs == 4);
  CHECK(e.run.steps == 0);
  CHECK(e.run.seed == 42);
  CHECK(e.run.device == "auto");
  CHECK(e.batch.micro == 32);
  CHECK(e.batch.eval == 32);
  CHECK(e.evaluate.stop_metric == "hits2");
  CHECK(e.evaluate.patience == 2);
  CHECK(e.checkpoint.keep == 2);
  CHECK(e.guard.nonfinite_limit == 10);

  REQUIRE(e.datasets.size() == 2);
  CHECK(e.datasets[0].shuffle);
  CHECK_FALSE(e.datasets[1].shuffle);
  CHECK(e.datasets[0].options.get_text("file") == "a.csv");
  REQUIRE(e.datasets[0].normalize.size() == 1);
  CHECK(e.datasets[0].normalize[0].field == "image");
  CHECK(e.datasets[0].normalize[0].divide == 255);
  CHECK(e.dataset("eval")->prefetch == -1);
  CHECK(e.dataset("none") == nullptr);

  REQUIRE(e.models.size() == 1);
  const ModelConfig& m = *e.model("model");
  REQUIRE(m.layers.size() == 3);
  CHECK(m.layers[0].name == "dense1");
  CHECK(m.layers[0].parallel == "column");
  CHECK(m.layers[0].options.get_text("parallel") == "column");
  CHECK(m.layers[1].name == "ramp1");
  CHECK(m.layers[2].name == "head");
  CHECK(m.layers[2].path == "model.layers[2]");
  CHECK(m.layers[2].from == std::vector<std::string>{"h"});
  CHECK(m.layers[2].tie[0].full == "model.dense1.weight");
  CHECK(m.losses[0].weight == 2);
  CHECK(m.losses[0].name == "squared");
  CHECK(m.metrics[1].name == "hits2");
  CHECK(m.metrics[1].options.get_int("k") == 5);
  REQUIRE(m.optimizer);
  CHECK(m.optimizer->learning_rate == 0.1);
  CHECK(m.optimizer->weight_decay == 0.5);  // the item's default
  CHECK(m.optimizer->clip_grad_norm == 1);
  CHECK(m.optimizer->schedule->options.get_int("warmup") == 3);
  REQUIRE(m.optimizer->groups.size() == 2);
  CHECK(m.optimizer->groups[0].learning_rate == 0.1);
  CHECK(m.optimizer->groups[0].weight_decay == 0);
  CHECK(m.optimizer->groups[0].schedule->options.get_int("warmup") == 3);
  CHECK(m.optimizer->groups[1].learning_rate == 1);
  CHECK(m.optimizer->groups[1].weight_decay == 0.5);
  CHECK(m.optimizer->groups[1].frozen);
  CHECK(m.optimizer->groups[1].schedule->options.get_int("warmup") == 0);

  Problems problems;
  const OptionSet device = device_options(e, catalog(), "abacus", PathResolver(), problems);
  CHECK(problems.empty());
  CHECK_FALSE(device.get_bool("pin"));
  CHECK(device.get_int("threads") == 0);
}

TEST_CASE("a bound experiment reads back as the same one") {
  const Loaded first = load(kSmall);
  const std::string text = bind(first.experiment, catalog());
  const Loaded second = load(text);
  CAPTURE(text);
  CHECK(second.problems.empty());
  CHECK(bind(second.experiment, catalog()) == text);
  // The same values; only their origins and their places in the file differ.
  const auto values = [](const Experiment& e) {
    std::string json = describe_json(e);
    for (size_t at; (at = json.find(", \"origin\": \"")) != std::string::npos;)
      json.erase(at, json.find('}', at) - at);
    return json;
  };
  CHECK(values(first.experiment) == values(second.experiment));
  CHECK(contains(values(first.experiment), "\"model.layers[0].out\": {\"value\": 120"));
  CHECK(contains(describe_json(first.experiment),
                 "\"run.epochs\": {\"value\": 4, \"origin\": \"x.toml:3:10\"}"));
  CHECK(contains(
      text, "# seed of initial values, sample order and dropout\n# integer >= 0\nseed = 42\n"));
}

TEST_CASE("values tell their path in the file where it is another one") {
  CHECK_FALSE(contains(describe_json(load(kSmall).experiment), "\"key\": \"loss"));
  std::string toml = kSmall;
  toml.replace(toml.find("[loss]"), 6, "[[model.losses]]");
  const std::string json = describe_json(load(toml).experiment);
  CHECK(contains(json, "\"loss.type\": {"));
  CHECK(contains(json, "\"key\": \"model.losses[0].type\"}"));
}

TEST_CASE("repeat makes copies: numbered, in a row, the last with the names of the outputs") {
  std::string toml = kSmall;
  const std::string entry = "[[model.layers]]\ntype = \"ramp\"\n";
  toml.insert(
      toml.find("[[model.layers]]"),
      entry + "name = \"p\"\nrepeat = 3\nfrom = [\"a\"]\nas = [\"o\"]\n" + entry + "repeat = 2\n");
  const Experiment e = load(toml).experiment;
  const auto& layers = e.models[0].layers;
  std::vector<std::string> names;
  for (size_t i = 0; i < 5; ++i) names.push_back(layers[i].name);
  CHECK(names == std::vector<std::string>{"p0", "p1", "p2", "ramp4", "ramp5"});
  CHECK(layers[0].from == std::vector<std::string>{"a"});
  CHECK(layers[1].from.empty());
  CHECK(layers[1].as.empty());
  CHECK(layers[2].as == std::vector<std::string>{"o"});
  CHECK(layers[2].path == "model.layers[0]");
  CHECK(layers[2].repeat == 1);
  const std::string text = bind(e, catalog());
  CHECK(bind(load(text).experiment, catalog()) == text);
}

namespace {

// The layers of a model that begins with these entries, as names with what they read.
std::vector<std::string> names_with(const std::string& entries) {
  std::string toml = kSmall;
  toml.insert(toml.find("[[model.layers]]"), entries);
  const Loaded loaded = load(toml);
  CHECK(loaded.problems == "");
  const std::string text = bind(loaded.experiment, catalog());
  CHECK(bind(load(text).experiment, catalog()) == text);
  std::vector<std::string> names;
  for (const LayerConfig& layer : loaded.experiment.models[0].layers)
    names.push_back(layer.name + (layer.from.empty() ? "" : "<" + join(layer.from)) +
                    (layer.as.empty() ? "" : ">" + join(layer.as)));
  names.resize(names.size() - 3);  // those of kSmall
  return names;
}

}  // namespace

TEST_CASE(
    "a block writes its layers out: with a name they are its own, without they are numbered") {
  using Names = std::vector<std::string>;
  const std::string two =
      "layers = [{type = \"ramp\", as = [\"x\"]}, {type = \"dense\", name = \"d\", out = 3, from = "
      "[\"input\", \"x\"]}]\n";
  const std::string block = "[[model.layers]]\ntype = \"block\"\n";
  CHECK(names_with(block + "name = \"p\"\nrepeat = 2\n" + two) ==
        Names{"p0.ramp1>x", "p0.d<input, x", "p1.ramp1>x", "p1.d<input, x"});
  CHECK(names_with(block + "name = \"p\"\n" + two) == Names{"p.ramp1>x", "p.d<input, x"});
  CHECK(names_with(
            block +
            "repeat = 2\nlayers = [{type = \"ramp\", name = \"h\"}, {type = \"ramp\", name = "
            "\"h\"}, {type = \"ramp\"}]\n") == Names{"h0", "h1", "ramp3", "h2", "h3", "ramp6"});
  CHECK(names_with(block +
                   "name = \"a\"\nrepeat = 2\nlayers = [{type = \"block\", name = \"b\", layers = "
                   "[{type = \"ramp\", repeat = 2, name = \"r\"}]}]\n") ==
        Names{"a0.b.r0", "a0.b.r1", "a1.b.r0", "a1.b.r1"});
  // Copies of copies are numbered on, blocks within a block as one.
  CHECK(names_with(block +
                   "repeat = 2\nlayers = [{type = \"ramp\", name = \"h\", repeat = 2}, {type = "
                   "\"ramp\", name = \"h\"}]\n") == Names{"h0", "h1", "h2", "h3", "h4", "h5"});
  CHECK(names_with(block +
                   "repeat = 2\nlayers = [{type = \"block\", name = \"p\", layers = [{type = "
                   "\"ramp\", name = \"a\", as = [\"x\"]}, {type = \"ramp\", name = \"b\", from = "
                   "[\"a\"]}]}]\n") == Names{"p0.a>x", "p0.b<a", "p1.a>x", "p1.b<a"});
  CHECK(names_with(block +
                   "repeat = 2\nlayers = [{type = \"block\", name = \"p\", repeat = 2, layers = "
                   "[{type = \"ramp\", name = \"a\"}]}, {type = \"block\", name = \"q\", layers = "
                   "[{type = \"ramp\", name = \"a\"}]}]\n") ==
        Names{"p0.a", "p1.a", "q0.a", "p2.a", "p3.a", "q1.a"});
}

TEST_CASE("several models, one of them frozen") {
  const Loaded l = load(R"(
[batch]
global = 8
[models.teacher]
frozen = true
load = "t.safetensors"
[[models.teacher.layers]]
type = "ramp"
[[models.student.layers]]
type = "ramp"
[models.student.loss]
type = "squared"
from = ["a", "b"]
[models.student.optimizer]
type = "descent"
)");
  CAPTURE(l.problems);
  REQUIRE(l.problems.empty());
  REQUIRE(l.experiment.models.size() == 2);
  CHECK(l.experiment.models[0].frozen);
  CHECK(l.experiment.models[0].load == "t.safetensors");
  CHECK(l.experiment.models[1].losses[0].from.size() == 2);
  const std::string text = bind(l.experiment, catalog());
  const Loaded again = load(text);
  CHECK(again.problems.empty());
  CHECK(bind(again.experiment, catalog()) == text);
}

TEST_CASE("problems name the key, the place and the way out") {
  struct Case {
    const char *what, *from, *to, *problem;
  };
  const Case cases[] = {
      {"unknown section", "[device]", "[devcie]",
       "devcie: unknown key 'devcie' (did you mean 'device'?)"},
      {"key without its section", "[run]", "seed = 3\n[run]",
       "seed: unknown key 'seed' (did you mean 'run.seed'?)"},
      {"unknown key", "epochs = 4", "epoch = 4",
       "x.toml:3:1: run.epoch: unknown key 'epoch' (did you mean 'epochs'?)"},
      {"both lengths", "epochs = 4", "epochs = 4\nsteps = 2",
       "run.steps: given together with run.epochs (x.toml:3:10)"},
      {"no batch", "global = 32", "", "batch.global: required key is missing"},
      {"no text", "epochs = 4", "epochs = 4\nname = nan",
       "run.name: expected string, found nan; write it in quotes: \"nan\""},
      {"patience", "metric = \"hits2\", ", "",
       "x.toml:48:26: evaluate.early_stop.patience: there is no metric to watch"},
      {"nothing to measure on", "[data.eval]", "[data.test]",
       "evaluate.early_stop.metric: there is no [data.eval] to measure it on"},
      {"best of nothing", "[device]", "[checkpoint]\nbest = \"hit2\"\n[device]",
       "checkpoint.best: there is no metric 'hit2' (did you mean 'hits'?); known are: "},
      {"unknown item", "\"ramp\"", "\"rmap\"",
       "model.layers[1].type: unknown layer 'rmap' (did you mean 'ramp'?); known are: acme.mix, "
       "block, dense, ramp; plugins that could not be loaded: other (old)"},
      {"too many copies", "name = \"head\"", "name = \"head\"\nrepeat = 5000",
       "model.layers[2].repeat: the model would have more than 4096 layers"},
      {"block without layers", "type = \"ramp\"", "type = \"block\"",
       "model.layers[1].layers: the block has no layers"},
      {"block with more", "type = \"ramp\"",
       "type = \"block\"\nfrom = [\"a\"]\nlayers = [{type = "
       "\"ramp\"}]",
       "model.layers[1].from: unknown key 'from'"},
      {"block of too many", "type = \"ramp\"",
       "type = \"block\"\nrepeat = 3000\nlayers = [{type = "
       "\"ramp\", repeat = 3000}]",
       "model.layers[1].repeat: the model would have more than 4096 layers"},
      {"values of copies", "type = \"ramp\"",
       "type = \"block\"\nrepeat = 2\nlayers = [{type = "
       "\"ramp\", as = [\"x\"]}]",
       "model.layers[1].layers[0].as: each copy of the block would have a value of that name; give "
       "the block a name"},
      {"layers of copies", "type = \"ramp\"",
       "type = \"block\"\nrepeat = 2\nlayers = [{type = "
       "\"ramp\", name = \"x\"}, {type = \"ramp\", from = [\"x\"]}]",
       "model.layers[1].layers[1].from: each copy of the block has a layer named 'x'; give the "
       "block a name"},
      {"two blocks of a name", "type = \"ramp\"",
       "type = \"block\"\nname = \"p\"\nrepeat = 2\nlayers = [{type = \"ramp\", name = \"a\"}]\n"
       "[[model.layers]]\ntype = \"block\"\nname = \"p1\"\nlayers = [{type = \"ramp\", name = "
       "\"b\"}]",
       "a second block named 'p1', the layers of the first begin at "},
      {"two blocks of a name in a block", "type = \"ramp\"",
       "type = \"block\"\nname = \"p\"\nlayers = [{type = \"block\", name = \"q\", layers = [{type "
       "= "
       "\"ramp\", name = \"a\"}]}, {type = \"block\", name = \"q\", layers = [{type = \"ramp\", "
       "name = "
       "\"b\"}]}]",
       "a second block named 'q', the layers of the first begin at "},
      {"name of a block", "type = \"ramp\"",
       "type = \"block\"\nname = \"a.b\"\nlayers = [{type = "
       "\"ramp\"}]",
       "model.layers[1].name: 'a.b' is not a valid name"},
      {"not to be sharded", "\"ramp\"", "\"ramp\"\nparallel = \"row\"",
       "model.layers[1].parallel: a layer of type 'ramp' cannot be sharded"},
      {"unknown option", "out = 120", "ot = 120",
       "model.layers[0].ot: unknown key 'ot' (did you mean 'out'?)"},
      {"missing option", "out = 120", "", "model.layers[0].out: required key is missing"},
      {"marker", "out = 120", "out = \"???\"", "model.layers[0].out: required value not set"},
      {"no type", "type = \"ramp\"", "", "model.layers[1].type: required key is missing"},
      {"bad choice", "\"column\"", "\"colunm\"", "(did you mean 'column'?)"},
      {"two of a name", "name = \"head\"",
       "name = \"head\"\n[[model.layers]]\ntype = \"ramp\"\nname = \"head\"",
       "a second layer named 'head', the first is at"},
      {"name", "name = \"head\"", "name = \"he..ad\"", "'he..ad' is not a valid name"},
      {"tie", "tie = {weight", "tie = 3 #",
       "model.layers[2].tie: expected a table, found an integer"},
      {"tie value", "\"model.dense1.weight\"", "3",
       "tie.weight: expected the full name of a parameter"},
      {"no loss", "[loss]\ntype = \"squared\"\nweight = 2", "", "the model has no loss"},
      {"loss twice", "[loss]", "[model.loss]\ntype = \"squared\"\n[loss]",
       "given twice, here and as model.loss"},
      {"loss weight", "weight = 2", "weigth = 2",
       "loss.weigth: unknown key 'weigth' (did you mean 'weight'?)"},
      {"optimizer", "\"descent\"", "\"descend\"",
       "optimizer.type: unknown optimizer 'descend' (did you mean 'descent'?)"},
      {"rate", "learning_rate = 0.1", "learning_rate = -1",
       "optimizer.learning_rate: expected number >= 0.0, found -1"},
      {"rate without end", "learning_rate = 0.1", "learning_rate = inf",
       "optimizer.learning_rate: expected a finite number, found inf"},
      {"a key's old name", "learning_rate = 0.1", "rate = 0.1",
       "optimizer.rate: 'rate' is now called 'learning_rate'; rename it"},
      {"old and new name", "learning_rate = 0.1", "learning_rate = 0.1\nrate = 0.1",
       "optimizer.rate: 'rate' is now called 'learning_rate'; remove it: 'learning_rate' is set "
       "as well"},
      {"old name of a topology key", "[device]", "[topology]\nchunks = 2\n[device]",
       "topology.chunks: 'chunks' is now called 'virtual_stages'"},
      {"schedule", "schedule = {type = \"slope\", warmup = 3}", "schedule = \"slope\"",
       "optimizer.schedule: expected a table, found a string"},
      {"group", "match = [\"*.bias\"]", "", "optimizer.groups[0].match: required key is missing"},
      {"empty group", "match = [\"*.bias\"]", "match = []", "an empty list matches no parameter"},
      {"dataset", "file = \"a.csv\"", "", "data.train.file: required key is missing"},
      {"normalize", "divide = 255", "divide = 0",
       "data.train.normalize.image.divide: expected number > 0.0, found 0"},
      {"normalize key", "divide = 255", "scale = 255",
       "data.train.normalize.image.scale: unknown key"},
      {"stop", "\"hits2\"", "\"hit2\"",
       "there is no metric 'hit2' (did you mean 'hits'?); known are: hits, hits2, loss"},
      {"device", "epochs = 4", "epochs = 4\ndevice = \"abakus\"",
       "run.device: unknown device 'abakus' (did you mean 'abacus'?)"},
      {"device option", "epochs = 4\n",
       "epochs = 4\ndevice = \"abacus\"\n[device]\npim = true\n[x]\n", "device.pim: unknown key"},
      {"forbidden", "[device]", "[plugins]\nallow = [\"other\"]\n[device]",
       "model.layers[1].type: 'ramp' comes from plugin 'fake', which is not in plugins.allow; "
       "add it there; allowed are other"},
      {"both models", "[device]", "[models.a]\n[device]", "given together with [model]"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.what);
    std::string text = kSmall;
    if (std::string(c.what) == "device option") text.erase(text.find("[device]"));
    const size_t at = text.find(c.from);
    REQUIRE(at != std::string::npos);
    text.replace(at, std::string(c.from).size(), c.to);
    const std::string problems = load(text).problems;
    CAPTURE(problems);
    CHECK(contains(problems, c.problem));
  }
}

TEST_CASE(
    "an empty file, and values of the wrong kind everywhere, give problems and nothing worse") {
  CHECK(contains(load("").problems, "model: there is no model"));
  CHECK(contains(load("").problems, "batch.global: required key is missing"));
  for (const char* key : {"run",
                          "topology",
                          "batch",
                          "model",
                          "models",
                          "optimizer",
                          "loss",
                          "losses",
                          "metrics",
                          "data",
                          "device",
                          "evaluate",
                          "plugins",
                          "model.layers",
                          "model.optimizer",
                          "data.train",
                          "evaluate.early_stop",
                          "model.optimizer.groups",
                          "model.optimizer.schedule",
                          "data.train.normalize",
                          "models.a"})
    for (const char* value :
         {"1", "\"x\"", "[]", "[1]", "[[]]", "{}", "[{}]", "true", "{a = 1}", "1979-05-27"}) {
      CAPTURE(key);
      CAPTURE(value);
      CHECK_FALSE(load(std::string(key) + " = " + value).problems.empty());
    }
}

TEST_CASE(
    "normalize is a table of fields, or \"auto\", and holds for all datasets without their own") {
  const auto all_of = [](const std::string& normalize, const std::string& more = "") {
    std::string text = kSmall;
    const std::string was = "normalize.image = {divide = 255, mean = 0.1}";
    text.replace(text.find(was), was.size(), normalize);
    if (!more.empty()) text.replace(text.find("[data.eval]"), 11, "[data.eval]\n" + more);
    return load(text).experiment.datasets;
  };
  const auto automatic = all_of("normalize = \"auto\"");
  REQUIRE(automatic[0].normalize.size() == 1);
  CHECK(automatic[0].normalize[0].field == "*");
  CHECK(automatic[0].normalize[0].automatic);
  REQUIRE(automatic[1].normalize.size() == 1);
  CHECK(automatic[1].normalize[0].inherited);
  CHECK(automatic[1].normalize[0].same_values(automatic[0].normalize[0]));
  const auto lists =
      all_of("normalize.image = {mean = [1, 2.5], std = 3}", "normalize.image = \"auto\"");
  CHECK(lists[0].normalize[0].mean == std::vector<double>{1, 2.5});
  CHECK(lists[0].normalize[0].std == std::vector<double>{3});
  CHECK(lists[1].normalize[0].automatic);
  CHECK_FALSE(lists[1].normalize[0].same_values(lists[0].normalize[0]));
  CHECK(all_of("normalize = \"auto\"", "normalize = {}")[1].normalize.empty());
}

TEST_CASE("plugins are known before the rest") {
  Problems problems;
  const Document d = Document::parse(
      "[plugins]\npaths = [\"mine\", \"/abs\"]\nallow = [\"a\"]\n[batch]\nglobal = 0", "dir/x.toml",
      problems);
  const PluginsConfig plugins = plugins_config(d, problems);
  CHECK(problems.empty());
  CHECK(plugins.paths == std::vector<std::string>{"mine", "/abs"});
  CHECK(plugins.allow == std::vector<std::string>{"a"});
}

TEST_CASE("problems are sorted by place, and are given as JSON and as one error") {
  Problems problems;
  problems.add({"b", 1, 1}, "p", "later");
  problems.add({"a", 9, 1}, "q", "m", "h");
  problems.add({"a", 2, 5}, "", "first");
  CHECK(problems.text() == "a:2:5: first\na:9:1: q: m; h\nb:1:1: p: later");
  CHECK(contains(
      problems.json(),
      R"([{"file": "a", "line": 2, "column": 5, "path": "", "message": "first", "hint": ""}, {)"));
  try {
    problems.raise_if_any();
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.code() == PLAIT_ERR_CONFIG);
    CHECK(contains(e.text(), "[config] 3 problems in the experiment:\na:2:5: first"));
  }
}

TEST_CASE(
    "a problem is reported once, suppresses the ones below it, and keeps its code while alone") {
  Problems problems;
  for (int i = 0; i < 2; ++i)
    problems.add({"a", 2, 5}, "model.layers[1].out", "m", "h", PLAIT_ERR_IO);
  CHECK(problems.size() == 1);
  CHECK(problems.touch("model.layers[1]"));
  CHECK(problems.touch("model"));
  CHECK_FALSE(problems.touch("model.layers[1].o"));
  CHECK_FALSE(problems.touch("model.layers[10]"));
  const auto code = [&] {
    try {
      problems.raise();
    } catch (const Error& e) {
      return e.code();
    }
  };
  CHECK(code() == PLAIT_ERR_IO);
  problems.add({"a", 3, 5}, "run", "m");
  CHECK(code() == PLAIT_ERR_CONFIG);
}

TEST_CASE("templates of items parse, and mark the required options") {
  const std::string text = item_template(catalog(), PLAIT_KIND_LAYER, "dense");
  CHECK(contains(text, "[[model.layers]]\n"));
  CHECK(contains(text, "# integer >= 1\nout = \"???\"\n"));
  CHECK(contains(text, "type = \"dense\"\n"));
  Problems problems;
  for (const auto& [kind, name] : {std::pair{PLAIT_KIND_LOSS, "squared"},
                                   {PLAIT_KIND_OPTIMIZER, "descent"},
                                   {PLAIT_KIND_DATASET, "table"},
                                   {PLAIT_KIND_DEVICE, "abacus"},
                                   {PLAIT_KIND_SCHEDULE, "slope"},
                                   {PLAIT_KIND_METRIC, "hits"}})
    Document::parse(item_template(catalog(), kind, name), "t", problems);
  CHECK(problems.text() == "");
  CHECK_THROWS_AS(item_template(catalog(), PLAIT_KIND_LAYER, "dens"), Error);
}

TEST_CASE("the engine's own tables are well-formed") {
  for (const Section& s : sections()) CHECK(defect_of(s.options) == "");
  const OptionView items[] = {layer_keys(),     loss_keys(),      metric_keys(),
                              optimizer_keys(), schedule_keys(),  group_keys(),
                              dataset_keys(),   normalize_keys(), model_keys()};
  for (const OptionView& keys : items) CHECK(defect_of(keys) == "");
}

// What a resumed run compares, and what ranks need not agree on: a change here is on purpose.
TEST_CASE("the role of each key of a section") {
  std::vector<std::string> result, per_rank;
  for (const Section& s : sections())
    for (uint32_t i = 0; i < s.options.size(); ++i) {
      const std::string key = std::string(s.path) + "." + s.options[i].name;
      if (role_of(s.options[i]) == KeyRole::kResult) result.push_back(key);
      if (role_of(s.options[i]) == KeyRole::kPerRank) per_rank.push_back(key);
    }
  CHECK(result == std::vector<std::string>{"run.seed", "batch.global", "precision.compute",
                                           "precision.master", "precision.split_master",
                                           "precision.residual", "precision.scale.initial",
                                           "precision.scale.window", "precision.scale.hysteresis",
                                           "precision.scale.consecutive", "precision.scale.min",
                                           "precision.scale.factor"});
  CHECK(per_rank == std::vector<std::string>{"run.out", "run.threads", "run.device_timeout",
                                             "run.log_every", "run.peak_tflops", "run.progress",
                                             "wandb.write", "wandb.project", "wandb.entity",
                                             "wandb.group", "plugins.paths", "plugins.allow"});
  const auto of = [](const OptionView& keys, const char* name) {
    return role_of(*keys.find(name));
  };
  CHECK(of(layer_keys(), "parallel") == KeyRole::kAgreed);
  CHECK(of(layer_keys(), "from") == KeyRole::kResult);
  CHECK(of(dataset_keys(), "prefetch") == KeyRole::kAgreed);
  CHECK(of(dataset_keys(), "limit") == KeyRole::kResult);
  CHECK(of(model_keys(), "load") == KeyRole::kAgreed);
  CHECK(of(optimizer_keys(), "weight_decay") == KeyRole::kResult);
}

TEST_CASE("the role of a key is read off its own line, in any table") {
  static constexpr Key<Fields> kTable[] = {
      key<&Fields::own>(kit::int_option("own", "0", "of this rank"), KeyRole::kPerRank),
      key<&Fields::agreed>(kit::int_option("agreed", "0", "of all ranks"))};
  const OptionView view = table_of(kTable);
  CHECK(role_of(view[0]) == KeyRole::kPerRank);
  CHECK(role_of(view[1]) == KeyRole::kAgreed);
  // An option of an item, also of one whose declarations are as large as a key.
  struct Larger {
    plait_option option;
    uint64_t more[4];
  };
  Larger later{kit::int_option("later", "0", "of a newer plugin"), {2, 2, 2, 2}};
  later.option.struct_size = sizeof later;
  CHECK(role_of(later.option) == KeyRole::kResult);
  CHECK(role_of(kit::int_option("short", "0", "of this ABI")) == KeyRole::kResult);
}

TEST_CASE("omitted numbers of a batch are derived, and numbers that do not fit are kept") {
  const auto batch = [](const std::string& keys) {
    std::string text = kSmall;
    text.replace(text.find("global = 32"), 11, keys);
    return load(text).experiment.batch;
  };
  const BatchConfig micro = batch("global = 32\nmicro = 8"),
                    passes = batch("global = 32\naccumulation = 2"),
                    odd = batch("global = 32\nmicro = 5");
  CHECK(micro.accumulation == 4);
  CHECK(micro.eval == 8);
  CHECK(passes.micro == 16);
  CHECK(odd.micro == 5);
  CHECK(odd.accumulation == 0);
}

TEST_CASE("plugins are known before the rest") {
  Problems problems;
  const Document d = Document::parse(
      "[plugins]\npaths = [\"mine\", \"/abs\"]\nallow = [\"a\"]\n[batch]\nglobal = 0", "dir/x.toml",
      problems);
  const PluginsConfig plugins = plugins_config(d, problems);
  CHECK(problems.empty());
  CHECK(plugins.paths == std::vector<std::string>{"mine", "/abs"});
  CHECK(plugins.allow == std::vector<std::string>{"a"});
}
