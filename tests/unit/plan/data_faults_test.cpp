// What a plan says of datasets: of files that cannot be read, and of two that contradict each
// other.
#include <doctest/doctest.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/log.hpp"
#include "engine/plan/dataset_extension.hpp"
#include "tests/support/folder.hpp"
#include "tests/unit/error_of.hpp"
#include "tests/unit/plan/experiments.hpp"
#include "tests/unit/runtime/program_runner.hpp"
#include "tests/unit/support/plans.hpp"

namespace {

using namespace plait;

using Keys = std::vector<std::string>;

const std::string kExperiment =
    test::experiment_text({.batch = 2,
                           .data = R"(type = "csv"
path = "a.csv"
target = ["kind"]
target_type = "class"
)",
                           .layers = R"({type = "linear", name = "a", out = 2})",
                           .loss = "",
                           .optimizer = "sgd"});

// With the host's table for datasets that are made of others.
std::shared_ptr<plugin::Registry> plugins() {
  struct Loaded {
    Log log;
    plugin::Registry registry{
        log, FileSystem::posix(), {{PLAIT_EXTENSION_DATASETS, plan::datasets_table()}}};
  };
  const auto all = std::make_shared<Loaded>();
  const auto found = test::load_plugins({"device-reference", "layer-dense", "layer-loss",
                                         "data-csv", "data-split", "optimizer-sgd", "peft-lora"});
  for (const plugin::LoadEntry& entry : found->report().entries) all->registry.load(entry.path);
  return {all, &all->registry};
}

struct Files {
  Files() {
    write("a.csv", "x,y,kind\n1,2,cat\n3,4,dog\n5,6,cat\n");
    write("b.csv", "x,y,kind\n1,2,dog\n3,4,cow\n");
    write("broken.csv", "x,y,kind\n1,2,cat\n3,dog\n");
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name) << text;
  }
  std::string refusal(const Keys& keys) const {
    static const auto kPlugins = plugins();
    plan::PlanContext context = test::context_of(kPlugins);
    context.resolver.data_folder = folder.path();
    const Error e = test::error_of([&] { test::plan_of(kExperiment, keys, context); });
    std::string text = e.code() == PLAIT_OK ? "" : e.full_text();
    for (size_t at; (at = text.find(folder.path())) != std::string::npos;)
      text.replace(at, folder.path().size(), "FOLDER");
    return text;
  }
  test::Folder folder;
};

const std::string kOne = "[config] 1 problem in the experiment:\n";

struct Case {
  const char* what;
  Keys keys;
  std::string expected;
};

void check(const std::vector<Case>& cases) {
  const Files files;
  for (const Case& c : cases) {
    CAPTURE(c.what);
    const std::string text = files.refusal(c.keys);
    CHECK_MESSAGE(text == (c.expected.empty() ? "" : kOne + c.expected), text);
  }
}

}  // namespace

TEST_CASE("data: a fault is told where the file, or the option at fault, is named") {
  check({{"as it is", {}, ""},
         {"a broken file",
          {"data.train.path=broken.csv"},
          "override 'data.train.path=broken.csv': data.train.path: [data.csv] path "
          "'FOLDER/broken.csv', line 3, column 2: the line ends after 2 cells, expected 3 as in "
          "the first line"},
         {"a column that is not there",
          {"data.train.target=[\"sort\"]"},
          "override 'data.train.target=[\"sort\"]': data.train.target: [data.csv] path "
          "'FOLDER/a.csv': target names column 'sort', which does not exist; the columns are 'x', "
          "'y', 'kind'"},
         {"no such file",
          {"data.train.path=c.csv"},
          "override 'data.train.path=c.csv': data.train.path: file 'c.csv' not found in FOLDER, "
          "the current folder; pass its folder with --data DIR (or set PLAIT_DATA)"}});
}

TEST_CASE("data: numbers of classes stand for the same in both datasets") {
  const auto eval = [](const std::string& more) {
    return "data.eval={type = \"csv\", target = [\"kind\"], target_type = \"class\", " + more + "}";
  };
  check({{"the same file", {eval("path = \"a.csv\"")}, ""},
         {"other classes",
          {eval("path = \"b.csv\"")},
          "override 'data.eval={type = \"csv\", target = [\"kind\"], target_type = \"class\", path "
          "= \"b.csv\"}': data.eval: field 'target': class 0 is 'cow' in [data.eval] (of 2) and "
          "'cat' in [data.train] (of 2); a number has to stand for the same in both: take the "
          "classes from one file (`fit_on`) or list them (`classes`), name the columns in one "
          "order (`input`), or give folders of images the same folders of classes"},
         {"those that are given",
          {eval("path = \"b.csv\", classes = [\"cat\", \"dog\", \"cow\"]")},
          ""}});
}

TEST_CASE("data: parts of the same samples are made in the same way") {
  const auto part = [](const std::string& name, const std::string& part, const std::string& more) {
    return "data." + name + "={type = \"split\", part = \"" + part + "\", " + more +
           "dataset = {type = \"csv\", path = \"a.csv\", target = [\"kind\"], target_type = "
           "\"class\"}}";
  };
  check(
      {{"two parts",
        {part("train", "train", "validation = 0.4, "),
         part("eval", "validation", "validation = 0.4, ")},
        ""},
       {"by other shares",
        {part("train", "train", "validation = 0.4, "),
         part("eval", "validation", "validation = 0.5, ")},
        "override 'data.eval={type = \"split\", part = \"validation\", validation = 0.5, dataset = "
        "{type = \"csv\", path = \"a.csv\", target = [\"kind\"], target_type = \"class\"}}': "
        "data.eval: is part \"validation\" by validation = 0.5, test = 0, seed = 0, by = \"\" (the "
        "index among 3 samples), and [data.train] part \"train\" of the same samples by validation "
        "= 0.4, test = 0, seed = 0, by = \"\" (the index among 3 samples): a sample may be in "
        "both; give both sections the same of these keys"},
       {"the same part twice",
        {part("train", "train", "validation = 0.4, "), part("eval", "train", "validation = 0.5, ")},
        ""}});
}

TEST_CASE("data: a field of adapters that is a column of another one") {
  const Keys adapter{
      "model.adapter_field=y",
      "model.adapters=[{type = \"lora\", name = \"x\", match = [\"*.a.weight\"], rank = 1}]"};
  check({{"a column of the input", adapter,
          "override 'model.adapter_field=y': model.adapter_field: [data.train] has no field 'y'; "
          "it has: input, target; expected an integer for each sample, the number of the adapter "
          "that it takes: 0 (x), or -1 for none; 'y' is a column of its field 'input': let the "
          "dataset make a field of integers of it, as `integers` does"},
         {"integers", {adapter[0], adapter[1], "data.train.integers=[\"y\"]"}, ""}});
}
