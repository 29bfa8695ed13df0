#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>

#include "engine/base/c_error.hpp"
#include "tests/unit/plugin/fixtures.hpp"

using namespace plait;
using namespace plait::plugin;

namespace {

// A host inside its open(), as add() requires.
struct Opened {
  Bench bench;
  Host host{bench.registry, bench.log, extensions, "p"};
  Items items;
  static inline const int kTable = 5;
  static inline const Extensions extensions = {{"plait.test/1", &kTable}};
};

std::string refusal(const char* kind, const void* table) {
  Opened at;
  const Error e = error_of([&] { at.items.add(kind, table, at.host); });
  if (e.code() != PLAIT_OK) CHECK(e.code() == PLAIT_ERR_PLUGIN);
  return e.text();
}

plait_option option(const char* name, const char* default_value) {
  return {
      sizeof(plait_option), name, PLAIT_OPT_INT, 0, default_value, 0, 0, nullptr, nullptr, "help"};
}

}  // namespace

TEST_CASE("a layer's table is checked") {
  plait_layer_item layer = make_layer("x");
  CHECK(refusal(PLAIT_KIND_LAYER, &layer) == "no error");
  CHECK(contains(refusal(PLAIT_KIND_LAYER, nullptr), "added NULL as a layer"));
  CHECK(contains(refusal("plait.layer/2", &layer),
                 "unknown kind of item 'plait.layer/2'; this engine supports plait.layer/1, "));

  layer = make_layer("x");
  layer.struct_size = sizeof(layer) - 8;
  CHECK(contains(refusal(PLAIT_KIND_LAYER, &layer), "has struct_size 48, expected at least 56"));
  layer = make_layer("");
  CHECK(contains(refusal(PLAIT_KIND_LAYER, &layer), "has no name"));
  layer = make_layer("x");
  layer.build = nullptr;
  CHECK(contains(refusal(PLAIT_KIND_LAYER, &layer), "[plugin p] layer 'x' lacks build()"));
  layer = make_layer("x");
  layer.help = nullptr;
  CHECK(contains(refusal(PLAIT_KIND_LAYER, &layer), "has no help text"));
  layer = make_layer("x");
  layer.min_inputs = 2;
  CHECK(contains(refusal(PLAIT_KIND_LAYER, &layer), "takes at least 2 inputs and at most 1"));
  layer = make_layer("x");
  layer.n_options = 1;
  CHECK(contains(refusal(PLAIT_KIND_LAYER, &layer), "declares 1 options, but their list is NULL"));
}

TEST_CASE("options are checked with the item that declares them") {
  plait_layer_item layer = make_layer("x");
  plait_option one = option("n", "seven");
  layer.options = &one;
  layer.n_options = 1;
  CHECK(contains(refusal(PLAIT_KIND_LAYER, &layer),
                 "is declared wrongly: option 'n' has a default that breaks its own declaration"));
  one = option("from", "1");
  CHECK(
      contains(refusal(PLAIT_KIND_LAYER, &layer), "declares 'from', which is a key of the engine"));
  one = option("parallel", "1");  // both the engine and the layer read it
  CHECK(refusal(PLAIT_KIND_LAYER, &layer) == "no error");
}

TEST_CASE("a larger table of a newer plugin is taken") {
  struct Newer {
    plait_layer_item item;
    void* added;
  } newer = {make_layer("x"), nullptr};
  newer.item.struct_size = sizeof(newer);
  CHECK(refusal(PLAIT_KIND_LAYER, &newer) == "no error");
}

TEST_CASE("every kind refuses a table without its functions") {
  // All zero except the size and the texts that every kind begins with.
  struct alignas(8) Blank {
    unsigned char bytes[512] = {};
    Blank(size_t size) {
      const char* const texts[] = {"n", "h"};  // name and help
      std::memcpy(bytes, &size, sizeof size);
      std::memcpy(bytes + 8, texts, sizeof texts);
    }
  };
  const Blank blank(512);
  for (const char* kind : {PLAIT_KIND_LAYER, PLAIT_KIND_LOSS, PLAIT_KIND_METRIC, PLAIT_KIND_OP,
                           PLAIT_KIND_OPTIMIZER, PLAIT_KIND_SCHEDULE, PLAIT_KIND_DATASET,
                           PLAIT_KIND_TOKENIZER, PLAIT_KIND_PEFT, PLAIT_KIND_DEVICE,
                           PLAIT_KIND_COMM})
    CHECK(contains(refusal(kind, &blank), " lacks "));
  CHECK(contains(refusal(PLAIT_KIND_KERNEL, &blank), "does not say its device"));
  const Blank tiny(16);
  for (const char* kind : {PLAIT_KIND_LOSS, PLAIT_KIND_DEVICE, PLAIT_KIND_KERNEL, PLAIT_KIND_COMM})
    CHECK(contains(refusal(kind, &tiny), "has struct_size 16"));
}

TEST_CASE("items go with their plugin") {
  Opened at;
  Host other(at.bench.registry, at.bench.log, Opened::extensions, "q");
  const plait_layer_item a = make_layer("a"), b = make_layer("b");
  at.items.add(PLAIT_KIND_LAYER, &a, at.host);
  at.items.add(PLAIT_KIND_LAYER, &b, other);
  CHECK(at.items.of(other) == std::vector<std::string>{"layer b"});
  CHECK(at.items.head_of(&a)->name == "a");
  at.items.remove(at.host);
  CHECK(at.items.names(PLAIT_KIND_LAYER) == std::vector<std::string>{"b"});
  CHECK(at.items.head_of(&a) == nullptr);
  CHECK_NOTHROW(at.items.add(PLAIT_KIND_LAYER, &a, at.host));
}

TEST_CASE("the host's functions") {
  Opened at;
  const plait_host* host = &at.host;
  CHECK(host->struct_size == sizeof(plait_host));
  CHECK(*static_cast<const int*>(host->extension(host, "plait.test/1")) == 5);
  CHECK(host->extension(host, "plait.other/1") == nullptr);
  CHECK(host->extension(host, nullptr) == nullptr);

  const auto* job = static_cast<const plait_job_table*>(host->extension(host, PLAIT_EXTENSION_JOB));
  REQUIRE(job != nullptr);
  const auto place = [&] {
    plait_job_place p{sizeof p, 9, 9, 9, 9};
    job->get(host, &p);
    return std::vector<uint32_t>{p.rank, p.world, p.local_rank, p.local_size};
  };
  CHECK(place() == std::vector<uint32_t>{0, 1, 0, 1});
  at.bench.registry.set_job({2, 8, 2, 4});
  CHECK(place() == std::vector<uint32_t>{2, 8, 2, 4});
  {
    const JobScope scope({5, 6, 1, 2});
    CHECK(place() == std::vector<uint32_t>{5, 6, 1, 2});
  }
  CHECK(place() == std::vector<uint32_t>{2, 8, 2, 4});
  plait_job_place shorter{offsetof(plait_job_place, local_rank), 9, 9, 9, 9};
  job->get(host, &shorter);
  CHECK(shorter.world == 8);
  CHECK(shorter.local_rank == 9);

  plait_error* e = host->error_new(PLAIT_ERR_DATA, "text", 2, nullptr);
  CHECK(host->error_code(e) == PLAIT_ERR_DATA);
  CHECK(std::string(host->error_text(e)) == "te");
  host->error_free(e);
  host->error_free(nullptr);
  CHECK(host->error_code(nullptr) == PLAIT_OK);

  host->log(host, PLAIT_LOG_WARN, "hello there", 5);
  CHECK(at.bench.lines.back() == "2 [p] hello");

  const plait_layer_item a = make_layer("a");
  e = host->add(host, PLAIT_KIND_LAYER, &a);
  REQUIRE(e != nullptr);
  CHECK(e->code == PLAIT_ERR_STATE);
  CHECK(contains(e->text, "added an item outside open()"));
  free_c_error(e);
  at.host.begin_open();
  e = host->add(host, nullptr, &a);
  REQUIRE(e != nullptr);
  CHECK(contains(e->text, "without a kind"));
  free_c_error(e);
}
