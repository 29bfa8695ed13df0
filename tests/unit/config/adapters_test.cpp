// [[model.adapters]]: entries that stand for several adapters, and adapters of several entries.
#include "tests/unit/config/loaded.hpp"

using namespace plait;
using namespace plait::config;

namespace {

std::string model(const std::string& keys, const std::string& entries) {
  return std::string(kSmall) + "[model]\n" + keys + entries;
}
std::string entry(const std::string& keys) {
  return "[[model.adapters]]\ntype = \"patch\"\nmatch = [\"*\"]\n" + keys;
}
std::vector<std::string> names_in(const Loaded& loaded) {
  std::vector<std::string> names;
  for (const AdapterConfig& one : loaded.experiment.models.at(0).adapters)
    names.push_back(one.name);
  return names;
}
std::vector<std::string> names_of(const std::string& text) {
  const Loaded loaded = load(text);
  CHECK(loaded.problems == "");
  return names_in(loaded);
}
using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("names: one adapter of each, with the options of the entry") {
  const std::string text = model("", entry("names = [\"a\", \"b\"]\nrank = 3\n") + entry(""));
  const Loaded loaded = load(text);
  CHECK(loaded.problems == "");
  CHECK(names_in(loaded) == Names{"a", "b", "patch"});
  for (size_t i = 0; i < 2; ++i) {
    const AdapterConfig& one = loaded.experiment.models[0].adapters[i];
    CHECK(one.options.get_int("rank") == 3);
    CHECK(one.path == "model.adapters[0]");
    CHECK(one.names.empty());
  }
  // What was read is written as the adapters that it stands for, and read again.
  const std::string bound = bind(loaded.experiment, catalog(), false);
  CHECK(names_of(bound) == Names{"a", "b", "patch"});
}

TEST_CASE("entries may share a name, and numbers are in order of appearance") {
  const std::string entries =
      entry("names = [\"b\", \"a\"]\n") + entry("name = \"a\"\n") + entry("name = \"c\"\n");
  const std::string text = model("adapter_field = \"which\"\n", entries);
  CHECK(names_of(text) == Names{"b", "a", "a", "c"});
  const ModelConfig read = load(text).experiment.models[0];
  CHECK(adapter_names(read) == Names{"b", "a", "c"});
  CHECK(read.adapter_field == "which");
  CHECK(names_of(model("", entries)) == Names{"b", "a", "a", "c"});
  CHECK(adapter_number(read, "a") == 1);
  CHECK(adapter_number(read, "base") == -1);
  CHECK(!adapter_number(read, "d"));
  // One that no entry names has a name of its own.
  CHECK(names_of(model("", entry("") + entry("") + entry("name = \"patch\"\n"))) ==
        Names{"patch", "patch2", "patch"});
}

TEST_CASE("values of adapters are described, with the names that they have by default") {
  const Loaded loaded = load(model("", entry("rank = 3\n") + entry("")));
  REQUIRE(loaded.problems == "");
  const std::string json = describe_json(loaded.experiment);
  CHECK(contains(json, "\"model.adapters[0].rank\": {\"value\": 3, "));
  CHECK(contains(json, "\"model.adapters[0].name\": {\"value\": \"patch\", "));
  CHECK(contains(json, "\"model.adapters[1].rank\": {\"value\": 8, "));
  CHECK(contains(json, "\"model.adapters[1].name\": {\"value\": \"patch2\", "));
}

TEST_CASE("what adapters cannot be is a problem") {
  CHECK(contains(load(model("adapters = {type = \"patch\", match = [\"*\"]}\n", "")).problems,
                 "model.adapters: expected a list of tables, found a table; write "
                 "[[model.adapters]] above each entry"));
  CHECK(contains(load(model("", entry("name = \"a\"\nnames = [\"b\"]\n"))).problems,
                 "model.adapters[0].names: given together with name ("));
  CHECK(contains(load(model("adapter_field = \"k\"\n", entry("names = [\"a\", \"a\"]\n"))).problems,
                 "model.adapters[0].names: a second adapter named 'a'"));
  CHECK(contains(load(model("", entry("names = [\"a b\"]\n"))).problems,
                 "model.adapters[0].names: 'a b' is not a valid name"));
  CHECK(contains(load(model("", entry("name = \"a b\"\n"))).problems,
                 "model.adapters[0].name: 'a b' is not a valid name"));
  const auto problems = [](const std::string& chosen, const std::string& keys) {
    std::string text = model(keys, entry("names = [\"ab\", \"cd\"]\n"));
    const std::string section = "[evaluate]\n";
    text.insert(text.find(section) + section.size(), "adapter = \"" + chosen + "\"\n");
    return load(text).problems;
  };
  CHECK(problems("cd", "adapter_field = \"k\"\n").empty());
  CHECK(problems("base", "adapter_field = \"k\"\n").empty());
  CHECK(contains(problems("abc", "adapter_field = \"k\"\n"),
                 "evaluate.adapter: 'model' has no adapter 'abc' (did you mean 'ab'?)"));
  CHECK(contains(problems("ab", ""), "names 'ab', and samples choose no adapters"));
  CHECK(contains(load(model("adapter_field = \"k\"\n", "")).problems,
                 "names a field of adapters' numbers, and the model has no adapters"));
  CHECK(contains(load(model("adapter_field = \"k\"\n",
                            entry("name = \"a\"\nload = \"x\"\n") + entry("name = \"a\"\n")))
                     .problems,
                 "adapter 'a' also has an entry at x.toml:"));
}
