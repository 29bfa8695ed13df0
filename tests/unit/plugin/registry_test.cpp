#include <doctest/doctest.h>

#include <stdexcept>

#include "tests/unit/plugin/fixtures.hpp"

using namespace plait;
using namespace plait::plugin;

namespace {

// --- a plugin with one layer, one optimizer and three kernels -----------------------------

plait_option make_int_option(const char* name) {
  return {sizeof(plait_option),
          name,
          PLAIT_OPT_INT,
          PLAIT_OPT_HAS_MIN,
          "3",
          1,
          0,
          nullptr,
          "samples",
          "how many"};
}
plait_error* build_update(plait_builder*, const plait_options*, const plait_update*, plait_value*) {
  return nullptr;
}
uint32_t select_none(const plait_op_desc*, plait_choice*) { return 0; }
plait_error* prepare_none(const plait_host*, plait_device*, const plait_op_desc*, plait_kernel**) {
  return nullptr;
}
plait_error* run_none(const plait_kernel*, plait_queue*, void* const*, void*) { return nullptr; }
plait_kernel_item make_kernel(const char* name, int32_t priority) {
  return {sizeof(plait_kernel_item),
          name,
          "matmul",
          "dev",
          priority,
          0,
          select_none,
          prepare_none,
          run_none,
          [](plait_kernel*) {},
          0,
          0,
          nullptr,
          nullptr};
}

const plait_layer_item& layer_alpha() {
  static const plait_option kOptions[] = {make_int_option("out")};
  static const plait_layer_item kItem = {
      sizeof(plait_layer_item), "alpha", "a layer", kOptions, 1, 1, 1, 1, build_nothing};
  return kItem;
}
const plait_optimizer_item kOptimizer = {sizeof(plait_optimizer_item),
                                         "beta",
                                         "an optimizer",
                                         nullptr,
                                         0,
                                         0,
                                         0.25,
                                         0.5,
                                         build_update,
                                         nullptr};
const plait_kernel_item kKernels[] = {make_kernel("b", 0), make_kernel("jit", 10),
                                      make_kernel("a", 0)};

plait_error* open_good(const plait_host* host, const char*, void** state) {
  *state = nullptr;
  if (plait_error* e = host->add(host, PLAIT_KIND_LAYER, &layer_alpha())) return e;
  if (plait_error* e = host->add(host, PLAIT_KIND_OPTIMIZER, &kOptimizer)) return e;
  for (const plait_kernel_item& kernel : kKernels)
    if (plait_error* e = host->add(host, PLAIT_KIND_KERNEL, &kernel)) return e;
  host->log(host, PLAIT_LOG_INFO, "opened", PLAIT_NTS);
  return nullptr;
}
const plait_plugin kGood = make_plugin("good", open_good);

}  // namespace

TEST_CASE("items of a plugin are found by kind and name") {
  Bench bench;
  bench.registry.load_static(kGood);
  CHECK(&bench.registry.layer("alpha") == &layer_alpha());
  CHECK(&bench.registry.optimizer("beta") == &kOptimizer);
  CHECK(bench.registry.plugin_of(&kOptimizer) == "good");
  CHECK(bench.registry.host_of(&kOptimizer)->abi == PLAIT_ABI_VERSION);
  CHECK(bench.registry.find_op("none") == nullptr);
  CHECK(bench.registry.plugin_names() == std::vector<std::string>{"good"});
  CHECK(contains(bench.lines[0], "1 [good] opened"));

  config::CatalogItem item;
  REQUIRE(bench.registry.find_item(PLAIT_KIND_OPTIMIZER, "beta", item));
  CHECK(item.learning_rate == 0.25);
  CHECK(item.weight_decay == 0.5);
  CHECK(item.plugin == "good");
  REQUIRE(bench.registry.find_item(PLAIT_KIND_LAYER, "alpha", item));
  CHECK(item.options.names() == std::vector<std::string>{"out"});
  CHECK_FALSE(bench.registry.find_item(PLAIT_KIND_LAYER, "beta", item));
  CHECK(bench.registry.item_names(PLAIT_KIND_LAYER) == std::vector<std::string>{"alpha"});
}

TEST_CASE("kernels are listed best first, then by name") {
  Bench bench;
  bench.registry.load_static(kGood);
  std::vector<std::string> names;
  for (const plait_kernel_item* kernel : bench.registry.kernels("matmul", "dev"))
    names.emplace_back(kernel->name);
  CHECK(names == std::vector<std::string>{"jit", "a", "b"});
  CHECK(bench.registry.kernels("matmul", "other").empty());
}

TEST_CASE("an error for an unknown item names the nearest one and all known ones") {
  Bench bench;
  bench.registry.load_static(kGood);
  const Error e = error_of([&] { bench.registry.layer("alpah"); });
  CHECK(e.code() == PLAIT_ERR_NOT_FOUND);
  CHECK(e.text() == "[plugin] unknown layer 'alpah' (did you mean 'alpha'?); known are: alpha");
  CHECK(contains(error_of([&] { bench.registry.device("x"); }).text(), "known are: none"));
  CHECK(contains(error_of([&] { bench.registry.comm("x"); }).text(),
                 "unknown comm 'x'; known are: none"));
}

TEST_CASE("the registry describes itself as JSON") {
  Bench bench;
  bench.registry.load_static(kGood);
  const std::string json = bench.registry.describe_json();
  CHECK(contains(json, R"("name": "good", "version": "1.2.3", "license": "Apache-2.0")"));
  CHECK(contains(
      json, R"({"name": "out", "type": "integer", "help": "how many", "default": "3", "min": 1.0, )"
            R"("unit": "samples", "expected": "integer >= 1, in samples", )"
            R"("text": "out: integer >= 1, in samples; default 3; how many"})"));
  CHECK(contains(json,
                 R"("report": [{"path": "static:good", "source": "program", "outcome": "loaded")"));
}

TEST_CASE("closing takes plugins out, last first") {
  static std::vector<std::string> closed;
  closed.clear();
  plait_plugin first = make_plugin(
      "first", [](const plait_host*, const char*, void**) -> plait_error* { return nullptr; });
  plait_plugin second = first;
  second.name = "second";
  first.close = [](void*) { closed.push_back("first"); };
  second.close = [](void*) { closed.push_back("second"); };
  Bench bench;
  bench.registry.load_static(first);
  bench.registry.load_static(second);
  bench.registry.close();
  CHECK(closed == std::vector<std::string>{"second", "first"});
  CHECK(bench.registry.plugin_names().empty());
  bench.registry.load_static(first);  // and again
  CHECK(bench.registry.plugin_names().size() == 1);
}

TEST_CASE("two registries know nothing of each other") {
  Bench one, two;
  one.registry.load_static(kGood);
  CHECK_NOTHROW(two.registry.load_static(kGood));
  one.registry.close();
  CHECK_NOTHROW(two.registry.layer("alpha"));
  CHECK(error_of([&] { one.registry.layer("alpha"); }).code() == PLAIT_ERR_NOT_FOUND);
}

TEST_CASE("an item of a name there is already is left out, and the rest of its plugin is loaded") {
  Bench bench;
  bench.registry.load_static(kGood);
  const plait_plugin other =
      make_plugin("other", [](const plait_host* host, const char*, void**) -> plait_error* {
        static const plait_layer_item fresh = make_layer("fresh"), twin = make_layer("alpha");
        if (plait_error* e = host->add(host, PLAIT_KIND_LAYER, &fresh)) return e;
        return host->add(host, PLAIT_KIND_LAYER, &twin);
      });
  CHECK_NOTHROW(bench.registry.load_static(other));
  CHECK(bench.registry.item_names(PLAIT_KIND_LAYER) == std::vector<std::string>{"alpha", "fresh"});
  CHECK(bench.registry.plugin_of(&bench.registry.layer("alpha")) == "good");
  const LoadEntry& entry = bench.registry.report().entries.back();
  CHECK(entry.outcome == Outcome::kLoaded);
  CHECK(entry.reason == "left out items: layer 'alpha' is offered already by plugin 'good'");
  CHECK(contains(entry.fix, "rename the items of one of the plugins"));
  CHECK(error_of([&] { bench.registry.load_static(kGood); }).code() == PLAIT_ERR_PLUGIN);
}

TEST_CASE("open() that fails, or throws, leaves nothing behind") {
  Bench bench;
  Error e = error_of([&] {
    bench.registry.load_static(
        make_plugin("sad", [](const plait_host* host, const char*, void**) -> plait_error* {
          plait_error* cause =
              host->error_new(PLAIT_ERR_DEVICE, "no such card", PLAIT_NTS, nullptr);
          return host->error_new(PLAIT_ERR_DEVICE, "cannot start", PLAIT_NTS, cause);
        }));
  });
  CHECK(e.code() == PLAIT_ERR_DEVICE);
  CHECK(contains(e.text(), "open() failed: cannot start\n  because: no such card"));
  e = error_of([&] {
    bench.registry.load_static(
        make_plugin("wild", [](const plait_host*, const char*, void**) -> plait_error* {
          throw std::runtime_error("boom");
        }));
  });
  CHECK(contains(e.text(), "open() threw an exception: boom, expected a plait_error"));
  CHECK(bench.registry.plugin_names().empty());
}

TEST_CASE("a table that is not a good one is refused before open()") {
  Bench bench;
  struct Case {
    const char* problem;
    void (*spoil)(plait_plugin&);
  };
  const Case cases[] = {
      {"struct_size 8, expected at least 64", [](plait_plugin& p) { p.struct_size = 8; }},
      {"a table of ABI 9, this engine supports ABI 1", [](plait_plugin& p) { p.abi = 9; }},
      {"found no name in its table", [](plait_plugin& p) { p.name = nullptr; }},
      {"without open() or close()", [](plait_plugin& p) { p.open = nullptr; }},
      {"without open() or close()", [](plait_plugin& p) { p.close = nullptr; }},
  };
  for (const Case& c : cases) {
    plait_plugin plugin = kGood;
    c.spoil(plugin);
    const Error e = error_of([&] { bench.registry.load_static(plugin); });
    CAPTURE(e.text());
    CHECK(e.code() == PLAIT_ERR_PLUGIN);
    CHECK(contains(e.text(), c.problem));
  }
}

TEST_CASE("the report can be read by people and programs") {
  LoadReport report;
  report.entries.push_back({"/a.so", "engine", Outcome::kLoaded, "a", "1", "", "", {"layer x"}});
  report.entries.push_back(
      {"/b.so", "given", Outcome::kRejected, "", "", "too old", "build it again", {}});
  CHECK(report.text() ==
        "loaded    /a.so (engine): a 1\nrejected  /b.so (given): too old; build it again\n");
  CHECK(report.summary() == "; plugins that could not be loaded: /b.so (too old)");
  CHECK(contains(report.json(),
                 R"({"path": "/b.so", "source": "given", "outcome": "rejected", "name": "", )"
                 R"("version": "", "reason": "too old")"));
  CHECK(LoadReport().summary().empty());
}
