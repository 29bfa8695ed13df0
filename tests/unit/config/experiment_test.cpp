// What an experiment file means: read, bound and read again.
#include <sstream>

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

TEST_CASE("a group may have an optimizer of its own, with its options and default rates") {
  std::string text = kSmall;
  text.replace(text.find("match = [\"*.bias\"]"), 18,
               "match = [\"*.bias\"]\ntype = \"leap\"\nlength = 5");
  for (int round = 0; round < 2; ++round) {
    const Loaded l = load(text);
    CAPTURE(l.problems);
    REQUIRE(l.problems.empty());
    const OptimizerConfig& o = *l.experiment.model("model")->optimizer;
    CHECK(o.groups[0].learning_rate == 0.3);
    CHECK(o.groups[0].weight_decay == 0);
    CHECK(o.groups[0].schedule->options.get_int("warmup") == 3);
    CHECK(&o.rule(0) == &o.groups[0]);
    CHECK(o.rule(0).type == "leap");
    CHECK(o.rule(0).options.get_int("length") == 5);
    CHECK(&o.rule(1) == &o);
    CHECK(&o.rule(-1) == &o);
    text = bind(l.experiment, catalog());
  }
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
  CHECK(contains(values(first.experiment),
                 "\"model.layers[2].tie.weight\": {\"value\": \"model.dense1.weight\""));
  CHECK(contains(describe_json(first.experiment),
                 "\"run.epochs\": {\"value\": 4, \"origin\": \"x.toml:3:10\"}"));
  CHECK(contains(
      text, "# seed of initial values, sample order and dropout\n# integer >= 0\nseed = 42\n"));
}

TEST_CASE("a bound experiment shows as comments the tables that it does without") {
  // Each of these twice: once with the table, once without.
  const struct {
    const char *table, *shown, *without;
  } tables[] = {
      {"normalize.image = {divide = 255, mean = 0.1}\n",
       "# numbers of a field become (x / divide - mean) / std; not set\n"
       "# [data.train.normalize.FIELD]\n",
       ""},
      {"schedule = {type = \"slope\", warmup = 3}\n",
       "# the learning rate over the run: slope; not set\n# [optimizer.schedule]\n", ""},
      {"[[optimizer.groups]]\nmatch = [\"*.bias\"]\nweight_decay = 0.0\n"
       "[[optimizer.groups]]\nmatch = \"head.*\"\nlearning_rate = 1\nfrozen = true\n"
       "schedule.type = \"slope\"\n",
       "# settings of some of the parameters; not set\n# [[optimizer.groups]]\n", ""},
      {"[loss]\n",
       "# few parameters that are trained beside the model's own, which are frozen then: patch; "
       "not set\n# [[model.adapters]]\n",
       "[[model.adapters]]\ntype = \"patch\"\nmatch = [\"*.weight\"]\n[loss]\n"},
  };
  for (const auto& [table, shown, without] : tables) {
    CAPTURE(table);
    const bool adds = *without;  // the table is the one that is added
    std::string text = kSmall;
    REQUIRE(contains(text, table));
    CHECK(contains(bind(load(text).experiment, catalog()), shown) == adds);
    text.replace(text.find(table), std::string(table).size(), without);
    const Loaded other = load(text);
    CHECK(other.problems == "");
    const std::string bound = bind(other.experiment, catalog());
    CAPTURE(bound);
    CHECK(contains(bound, shown) == !adds);
  }
  // Of a dataset with some of its own, beside the ones of [data.train], too.
  std::string own = kSmall;
  own.replace(own.find("file = \"b.csv\"\n"), 15,
              "file = \"b.csv\"\nnormalize.image = {divide = 2}\n");
  CHECK_FALSE(contains(bind(load(own).experiment, catalog()), "normalize.FIELD"));
  own.replace(own.find("normalize.image = {divide = 2}"), 30, "normalize = {}");
  const std::string none = bind(load(own).experiment, catalog());
  CHECK(contains(none, "# not that of [data.train]\nnormalize = {}\n"));
  CHECK(contains(none, "# [data.eval.normalize.FIELD]\n"));
}

TEST_CASE("each value of a file is described with its place there") {
  const std::string json = describe_json(load(kSmall).experiment);
  std::istringstream lines(kSmall);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line == "[device]") break;  // the file leaves open which device it is, so what they mean
    if (!contains(line, " = ")) continue;
    CAPTURE(line);
    CHECK(contains(json, "\"origin\": \"x.toml:" + std::to_string(number) + ":"));
  }
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
