// What is wrong in an experiment file: where, and what to do.
#include "engine/base/text.hpp"
#include "tests/unit/config/loaded.hpp"

using namespace plait;
using namespace plait::config;

TEST_CASE("problems name the key, the place and the way out") {
  struct Case {
    const char *what, *from, *to, *problem;
  };
  const Case cases[] = {
      {"unknown section", "[device]", "[devcie]",
       "devcie: unknown key 'devcie' (did you mean 'device'?)"},
      {"key without its section", "[run]", "seed = 3\n[run]",
       "seed: unknown key 'seed' (did you mean 'run.seed'?)"},
      {"a key of that name that is no table", "[run]", "[schedule]\ntype = \"slope\"\n[run]",
       "schedule: unknown key 'schedule' (did you mean 'optimizer.schedule'?)"},
      {"one that has no such value", "[run]", "schedule = \"slope\"\n[run]",
       "schedule: unknown key 'schedule' (did you mean 'optimizer.schedule'?)"},
      {"one that has", "[run]", "schedule = \"gpipe\"\n[run]",
       "schedule: unknown key 'schedule' (did you mean 'topology.schedule'?)"},
      {"a value of another type", "[run]", "seed = \"x\"\n[run]",
       "seed: unknown key 'seed' (did you mean 'run.seed'?)"},
      {"unknown key", "epochs = 4", "epoch = 4",
       "x.toml:3:1: run.epoch: unknown key 'epoch' (did you mean 'epochs'?)"},
      {"both lengths", "epochs = 4", "epochs = 4\nsteps = 2",
       "run.steps: given together with run.epochs (x.toml:3:10); keep one of them; the override "
       "~run.steps or ~run.epochs removes one"},
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
      {"name of a dataset", "[data.eval]", "[data.\"e v\"]",
       "data.\"e v\": 'e v' is not a valid name; use letters, digits, _ and -"},
      {"tie", "tie = {weight", "tie = 3 #",
       "model.layers[2].tie: expected a table, found an integer"},
      {"tie value", "\"model.dense1.weight\"", "3",
       "tie.weight: expected the full name of a parameter"},
      {"no loss", "[loss]\ntype = \"squared\"\nweight = 2", "", "the model has no loss"},
      {"loss twice", "[loss]", "[model.loss]\ntype = \"squared\"\n[loss]",
       "given twice, here and as model.loss"},
      {"loss weight", "weight = 2", "weigth = 2",
       "loss.weigth: unknown key 'weigth' (did you mean 'weight'?)"},
      {"words of a key", "epochs = 4", "epochs = 4\nrng_seed = 2",
       "run.rng_seed: unknown key 'rng_seed' (did you mean 'seed'?)"},
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
      {"type of a group", "match = [\"*.bias\"]", "match = [\"*.bias\"]\ntype = \"leak\"",
       "optimizer.groups[0].type: unknown optimizer 'leak' (did you mean 'leap'?)"},
      {"option of another type", "match = [\"*.bias\"]",
       "match = [\"*.bias\"]\ntype = \"leap\"\nmomentum = 0.5",
       "optimizer.groups[0].momentum: unknown key 'momentum'"},
      {"option without a type", "match = [\"*.bias\"]", "match = [\"*.bias\"]\nmomentum = 0.5",
       "optimizer.groups[0].momentum: 'momentum' is an option of [optimizer]; add type = "
       "\"descent\" to give this group options of its own"},
      {"empty group", "match = [\"*.bias\"]", "match = []", "an empty list matches no parameter"},
      {"name of a group", "match = [\"*.bias\"]", "match = [\"*.bias\"]\nname = \"a.b\"",
       "optimizer.groups[0].name: 'a.b' is no name of a group; use letters, digits, _ and -"},
      {"names of groups", "match = [\"*.bias\"]",
       "match = [\"*.bias\"]\nname = \"a\"\n[[optimizer.groups]]\nname = \"a\"\nmatch = [\"x\"]",
       "optimizer.groups[1].name: 'a' is the name of optimizer.groups[0], too; give each group a "
       "name of its own"},
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
       "model.layers[1].type: 'ramp' comes from plugin 'fake', which is not in plugins.allow\n"},
      {"advice for several in a row, behind the last", "[device]",
       "[plugins]\nallow = [\"other\"]\n[device]",
       "schedule.type: 'slope' comes from plugin 'fake', which is not in plugins.allow; add it "
       "there; "
       "allowed are other"},
      {"a name of other case", "\"ramp\"", "\"RA_MP\"",
       "unknown layer 'RA_MP' (did you mean 'ramp'?)"},
      {"an item of a plugin that is elsewhere", "\"ramp\"", "\"other.ramp\"",
       "; if a plugin elsewhere has it, name that in plugins.paths (or --plugins)"},
      {"a name with the word of its kind", "\"dense\"", "\"DenseLayer\"",
       "unknown layer 'DenseLayer' (did you mean 'dense'?)"},
      {"a word of an item's help, \"what it does\"", "epochs = 4\n",
       "epochs = 4\ndevice = \"Does\"\n", "unknown device 'Does' (did you mean 'abacus'?)"},
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
