#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "engine/config/declarations.hpp"
#include "engine/config/schema.hpp"
#include "tests/unit/config/fake_catalog.hpp"

using namespace plait;
using namespace plait::config;
using Json = nlohmann::json;

namespace {

Json tables() {
  JsonWriter json;
  write_tables(json);
  return Json::parse(json.text());
}

const Json& named(const Json& list, const char* key, const std::string& name) {
  for (const Json& one : list)
    if (one.at(key) == name) return one;
  FAIL("there is no ", name);
  return list;
}

}  // namespace

TEST_CASE("every section and every table of an item is declared, with all its keys") {
  const Json all = tables();
  for (const Section& section : sections()) {
    const Json& table = named(all, "path", section.path);
    CHECK(table.at("keys").size() == section.options.size());
    CHECK(table.at("help") == section.help);
  }
  for (const char* path : {"model", "model.layers[]", "loss", "metrics[]", "optimizer",
                           "optimizer.schedule", "optimizer.groups[]", "data.NAME", "tokenizer"})
    CHECK_FALSE(named(all, "path", path).at("keys").empty());
  CHECK(named(all, "path", "optimizer").at("kind") == PLAIT_KIND_OPTIMIZER);
  CHECK(named(all, "path", "device").at("named_by") == "run.device");
}

TEST_CASE("an option is described with type, limits, choices and default") {
  const Json all = tables();
  const Json& run = named(all, "path", "run").at("keys");
  const Json& threads = named(run, "name", "threads");
  CHECK(threads.at("expected") == "integer >= 0 and <= 4096, in threads");
  CHECK(threads.at("max") == 4096);
  CHECK(threads.at("min") == 0);
  CHECK_FALSE(threads.contains("above"));
  CHECK(threads.at("default") == "0");
  CHECK(named(run, "name", "resume").at("choices") == Json{"auto", "never", "must"});
  CHECK(named(named(all, "path", "optimizer").at("keys"), "name", "type").at("default").is_null());
}

TEST_CASE("limits that a value may reach, and limits that it may not") {
  const auto described = [](const plait_option& option) {
    JsonWriter json;
    write_option(json, option);
    return Json::parse(json.text());
  };
  const plait_option real = make_option(PLAIT_OPT_REAL, "r", "1.0");
  const Json inside = described(at_most(at_least(real, 0, true), 2, true));
  CHECK(inside.at("above") == 0);
  CHECK(inside.at("below") == 2);
  CHECK_FALSE(inside.contains("min"));
  CHECK_FALSE(inside.contains("max"));
  const Json reached = described(at_most(at_least(real, 0), 2));
  CHECK(reached.at("min") == 0);
  CHECK(reached.at("max") == 2);
  CHECK_FALSE(reached.contains("above"));
  CHECK_FALSE(reached.contains("below"));
}

TEST_CASE("options of items may not have the names of the engine's keys") {
  using Names = std::vector<std::string_view>;
  CHECK(reserved_keys(PLAIT_KIND_LAYER) == Names{"tie", "type", "name", "from", "as", "repeat"});
  CHECK(reserved_keys(PLAIT_KIND_LOSS) == Names{"type", "name", "from", "weight"});
  CHECK(reserved_keys(PLAIT_KIND_METRIC) == Names{"type", "name", "from", "train"});
  CHECK(reserved_keys(PLAIT_KIND_OPTIMIZER) == Names{"schedule", "groups", "match", "frozen",
                                                     "elementwise", "name", "type", "learning_rate",
                                                     "weight_decay", "clip_grad_norm"});
  CHECK(reserved_keys(PLAIT_KIND_DATASET) ==
        Names{"normalize", "type", "shuffle", "prefetch", "limit", "fields"});
  CHECK(reserved_keys(PLAIT_KIND_SCHEDULE) == Names{"type"});
  CHECK(reserved_keys(PLAIT_KIND_DEVICE).empty());
}
