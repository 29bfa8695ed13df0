// Rules of an experiment that relate several keys, and tables that few experiments have.
#include "engine/base/files.hpp"
#include "tests/unit/config/loaded.hpp"

using namespace plait;
using namespace plait::config;

namespace {

std::string small_with(const std::string& from, const std::string& to) {
  std::string text = kSmall;
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}
std::string problems_with(const std::string& from, const std::string& to) {
  return load(small_with(from, to)).problems;
}

}  // namespace

TEST_CASE("run.threads are the threads of a device that is not given its own") {
  struct Case {
    const char* device;
    int64_t threads;
  };
  for (const Case& c : {Case{"", 3}, Case{"threads = 5\n", 5}, Case{"threads = 0\n", 0}}) {
    const Loaded l = load(small_with("epochs = 4", "epochs = 4\nthreads = 3") + c.device);
    REQUIRE(l.problems == "");
    Problems problems;
    const OptionSet device =
        device_options(l.experiment, catalog(), "abacus", PathResolver(), problems);
    CHECK(problems.text() == "");
    CHECK(device.get_int("threads") == c.threads);
  }
}

TEST_CASE("an override of one length replaces the other, on whichever line it stands") {
  struct Case {
    const char *run, *text;
    int64_t steps, epochs;
  };
  const Case cases[] = {{"run = {steps = 5}", "run.epochs=2", 0, 2},
                        {"\nrun = {steps = 5}", "run.epochs=2", 0, 2},
                        {"run = {epochs = 2}", "run.steps=5", 5, 0}};
  for (const Case& c : cases) {
    CAPTURE(c.run);
    const std::string text = c.run + small_with("[run]\nepochs = 4\n", "");
    Problems problems;
    Document document = Document::parse(text, "x.toml", problems);
    apply_override(document, c.text, problems);
    const Experiment e = load_experiment(document, catalog(), PathResolver(), problems);
    CHECK(problems.text() == "");
    CHECK(e.run.steps == c.steps);
    CHECK(e.run.epochs == c.epochs);
  }
}

TEST_CASE("one sample in a pass is enough for a batch") {
  CHECK(problems_with("global = 32", "micro = 1\naccumulation = 1") == "");
  for (const char* part : {"micro = 2", "accumulation = 2"})
    CHECK(contains(problems_with("global = 32", part), "batch.global: required key is missing"));
}

TEST_CASE("metrics that can be watched: each loss, and losses of each adapter") {
  const std::string adapters =
      "[model]\nadapter_field = \"k\"\n[[model.adapters]]\ntype = \"patch\"\nmatch = [\"*\"]\n"
      "names = [\"ab\", \"cd\"]\n";
  const std::string two = "[[losses]]\ntype = \"squared\"\n[[losses]]\ntype = \"squared\"\n";
  const std::string one = "[loss]\ntype = \"squared\"\nweight = 2\n";
  struct Case {
    std::string losses, more, at, known;
  };
  const Case cases[] = {
      {one, "", "48:24", "hits, hits2, loss, model.hits, model.hits2"},
      {two, "", "49:24", "hits, hits2, loss, loss.squared, loss.squared2, model.hits, model.hits2"},
      {one, adapters, "48:24",
       "hits, hits.ab, hits.cd, hits2, hits2.ab, hits2.cd, loss, loss.ab, loss.cd, model.hits, "
       "model.hits.ab, model.hits.cd, model.hits2, model.hits2.ab, model.hits2.cd"},
      {two, adapters, "49:24",
       "hits, hits.ab, hits.cd, hits2, hits2.ab, hits2.cd, loss, loss.squared, loss.squared.ab, "
       "loss.squared.cd, loss.squared2, loss.squared2.ab, loss.squared2.cd, model.hits, "
       "model.hits.ab, model.hits.cd, model.hits2, model.hits2.ab, model.hits2.cd"},
  };
  for (const Case& c : cases) {
    std::string text = small_with(one, c.losses) + c.more;
    text.replace(text.find("\"hits2\""), 7, "\"zzzzzz\"");
    CHECK(load(text).problems ==
          "x.toml:" + c.at +
              ": evaluate.early_stop.metric: there is no metric 'zzzzzz'; known are: " + c.known);
  }
}

TEST_CASE("metrics of one of several models have its name") {
  const std::string student = R"([batch]
global = 8
[data.eval]
type = "table"
file = "a"
[models.teacher]
frozen = true
adapter_field = "k"
layers = [{type = "ramp"}]
losses = {type = "squared"}
adapters = [{type = "patch", match = ["*"], name = "t"}]
[models.student]
adapter_field = "k"
layers = [{type = "ramp"}]
losses = {type = "squared"}
adapters = [{type = "patch", match = ["*"], name = "s"}]
optimizer = {type = "descent"}
[checkpoint]
)";
  CHECK(load(student + "best = \"zzzzzz\"").problems ==
        "x.toml:19:8: checkpoint.best: there is no metric 'zzzzzz'; known are: loss, "
        "loss.student.s, loss.student.squared, loss.teacher.squared");
  CHECK(load(student + "best = \"loss.student.s\"").problems == "");
}

TEST_CASE("[tokenizer], [comm] and [data] are read, with what is wrong in them") {
  CHECK(contains(load(std::string(kSmall) + "[tokenizer]\ntype = \"pairs\"\n").problems,
                 "x.toml:52:8: tokenizer.type: unknown tokenizer 'pairs'; known are: none"));
  const std::string top = "\n[run]\nepochs = 4";
  CHECK(contains(problems_with(top, "comm = 3" + top), "x.toml:1:8: comm: expected a table"));
  const Loaded given = load(std::string(kSmall) + "[comm]\nport = 9\n");
  CHECK(given.problems == "");
  CHECK(contains(bind(given.experiment, catalog()), "\n[comm]\nport = 9\n"));
  CHECK(contains(problems_with("[data.train]", "[data]\ntest = 3\n[data.train]"),
                 "x.toml:7:8: data.test: expected a dataset, found an integer; write [data.train] "
                 "above the keys of a dataset"));
}

TEST_CASE("default names are written out, and a dot of a type is none of a block") {
  const Loaded l = load(small_with("type = \"ramp\"", "type = \"acme.mix\""));
  CHECK(l.problems == "");
  const ModelConfig& model = l.experiment.models.at(0);
  CHECK(model.layers.at(1).name == "acme_mix1");
  CHECK(model.origin.text() == "x.toml:13:1");
  const std::string json = describe_json(l.experiment);
  for (const char* name :
       {"model.layers[0].name\": {\"value\": \"dense1\"", "loss.name\": {\"value\": \"squared\"",
        "model.layers[1].name\": {\"value\": \"acme_mix1\"",
        "metrics[0].name\": {\"value\": \"hits\"", "metrics[1].name\": {\"value\": \"hits2\""})
    CHECK(contains(json, name));
}

TEST_CASE("a data folder that is none holds nothing") {
  const PathResolver resolver{&FileSystem::posix(), "/no-such-folder", ""};
  CHECK(resolver.in_sets("a.csv").empty());
  CHECK(resolver.resolve("a.csv") == "a.csv");
}
