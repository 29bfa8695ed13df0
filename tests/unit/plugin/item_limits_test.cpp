// What the tables of single kinds may not say: numbers, bits and functions that belong together.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "engine/base/text.hpp"
#include "tests/unit/plugin/fixtures.hpp"

using namespace plait;
using namespace plait::plugin;

namespace {

template <class R, class... A>
void fill(R (*&function)(A...)) {
  function = [](A...) -> R { return R(); };
}

template <class T>
T named() {
  T item{};
  item.struct_size = sizeof item;
  item.name = "x";
  return item;
}
template <class T>
T with_help() {
  T item = named<T>();
  item.help = "help";
  return item;
}

// The error of adding the table, after what all of them begin with; "" if there is none.
std::string refusal(const char* kind, const void* table) {
  Bench bench;
  static const Extensions kNone;
  const Host host(bench.registry, bench.log, kNone, "p");
  Items items;
  const Error e = error_of([&] { items.add(kind, table, host); });
  if (e.code() == PLAIT_OK) return "";
  CHECK(e.code() == PLAIT_ERR_PLUGIN);
  const std::string begin = "[plugin p] " + std::string(short_kind(kind)) + " '",
                    end = "; correct the table of the plugin";
  CHECK(e.text().starts_with(begin));
  CHECK(e.text().ends_with(end));
  return e.text().substr(begin.size(), e.text().size() - begin.size() - end.size());
}

}  // namespace

TEST_CASE("limits: the state of a metric has 1 to 65536 numbers") {
  plait_metric_item item = with_help<plait_metric_item>();
  fill(item.build), fill(item.finish);
  for (const uint32_t n : {0u, 65537u}) {
    item.n_state = n;
    CHECK(refusal(PLAIT_KIND_METRIC, &item) ==
          "x' has a state of " + std::to_string(n) + " numbers");
  }
  for (const uint32_t n : {1u, 65536u}) {
    item.n_state = n;
    CHECK(refusal(PLAIT_KIND_METRIC, &item) == "");
  }
}

TEST_CASE("limits: an op of a plugin has a dot in its name, and attributes of simple types") {
  plait_op_item item = with_help<plait_op_item>();
  fill(item.infer);
  item.n_outputs = 1;
  CHECK(refusal(PLAIT_KIND_OP, &item) ==
        "x' has a name without a dot, which only core ops have: call it 'p.x'");
  item.name = "p.x";
  CHECK(refusal(PLAIT_KIND_OP, &item) == "");
  plait_option attribute{
      sizeof(plait_option), "n", PLAIT_OPT_PATH, 0, "\"\"", 0, 0, nullptr, nullptr, "help"};
  item.attrs = &attribute;
  item.n_attrs = 1;
  CHECK(refusal(PLAIT_KIND_OP, &item) ==
        "p.x' declares the attribute 'n' of a type that attributes do not have");
  attribute.type = PLAIT_OPT_INT;
  CHECK(
      refusal(PLAIT_KIND_OP, &item).starts_with("p.x' declares an attribute wrongly: option 'n'"));
  attribute.default_value = "1";
  CHECK(refusal(PLAIT_KIND_OP, &item) == "");
  // A table that ends before the attributes has none.
  attribute.type = PLAIT_OPT_PATH;
  item.struct_size = offsetof(plait_op_item, attrs);
  CHECK(refusal(PLAIT_KIND_OP, &item) == "");
  item.struct_size = sizeof item;
  item.attrs = nullptr;
  CHECK(refusal(PLAIT_KIND_OP, &item) == "p.x' declares 1 attributes, but their list is NULL");
}

TEST_CASE("limits: an optimizer's default rates are finite and not below 0") {
  plait_optimizer_item item = with_help<plait_optimizer_item>();
  fill(item.build);
  CHECK(refusal(PLAIT_KIND_OPTIMIZER, &item) == "");
  const double endless = std::numeric_limits<double>::infinity();
  struct Case {
    double rate, decay;
    const char* texts;
  };
  for (const Case& c :
       {Case{-0.5, 0, "-0.5 and weight decay of 0"}, Case{0, -0.5, "0 and weight decay of -0.5"},
        Case{endless, 0, "inf and weight decay of 0"},
        Case{0, endless, "0 and weight decay of inf"}, Case{1, NAN, "1 and weight decay of nan"}}) {
    item.default_learning_rate = c.rate, item.default_weight_decay = c.decay;
    CHECK(refusal(PLAIT_KIND_OPTIMIZER, &item) ==
          std::string("x' has a default learning rate of ") + c.texts +
              ", expected finite numbers that are not below 0");
  }
}

TEST_CASE("limits: bits and numbers of a list that are not in it") {
  plait_peft_item peft = with_help<plait_peft_item>();
  fill(peft.wrap);
  for (const uint32_t targets : {0u, 16u, 17u}) {
    peft.targets = targets;
    CHECK(refusal(PLAIT_KIND_PEFT, &peft) ==
          strf("x' has the targets 0x%x, expected a sum of PLAIT_PEFT_*", targets));
  }
  for (const uint32_t targets : {1u, 2u, 4u, 8u, 15u}) {
    peft.targets = targets;
    CHECK(refusal(PLAIT_KIND_PEFT, &peft) == "");
  }

  plait_comm_item comm = with_help<plait_comm_item>();
  fill(comm.open), fill(comm.close), fill(comm.prepare), fill(comm.release), fill(comm.start);
  fill(comm.finish), fill(comm.abort);
  for (const uint32_t reach : {PLAIT_COMM_REACH_PROCESS - 1, PLAIT_COMM_REACH_NETWORK + 1}) {
    comm.reach = reach;
    CHECK(refusal(PLAIT_KIND_COMM, &comm) ==
          strf("x' has reach %u, expected PLAIT_COMM_REACH_*", reach));
  }
  for (const uint32_t reach : {PLAIT_COMM_REACH_PROCESS, PLAIT_COMM_REACH_NETWORK}) {
    comm.reach = reach;
    CHECK(refusal(PLAIT_KIND_COMM, &comm) == "");
  }
  comm.device = "";
  CHECK(refusal(PLAIT_KIND_COMM, &comm) == "x' names a device without a name");
}

TEST_CASE("limits: a kernel's flags, and functions that come in pairs") {
  plait_kernel_item kernel = named<plait_kernel_item>();
  kernel.op = "matmul", kernel.device = "dev";
  fill(kernel.select), fill(kernel.prepare), fill(kernel.run), fill(kernel.release);
  CHECK(refusal(PLAIT_KIND_KERNEL, &kernel) == "");
  kernel.flags = PLAIT_KERNEL_HOST;
  CHECK(refusal(PLAIT_KIND_KERNEL, &kernel) == "");
  kernel.flags = PLAIT_KERNEL_HOST | 0x50;
  CHECK(refusal(PLAIT_KIND_KERNEL, &kernel) == "dev/matmul/x' has the unknown flags 0x50");
  kernel.struct_size = offsetof(plait_kernel_item, flags);  // they are not there
  CHECK(refusal(PLAIT_KIND_KERNEL, &kernel) == "");
  kernel.struct_size = sizeof kernel, kernel.flags = 0;
  fill(kernel.tune);
  CHECK(refusal(PLAIT_KIND_KERNEL, &kernel) == "dev/matmul/x' has tune() but no adopt()");
  fill(kernel.adopt);
  CHECK(refusal(PLAIT_KIND_KERNEL, &kernel) == "");
  kernel.tune = nullptr;
  CHECK(refusal(PLAIT_KIND_KERNEL, &kernel) == "dev/matmul/x' has adopt() but no tune()");
  kernel.op = "";
  CHECK(refusal(PLAIT_KIND_KERNEL, &kernel) == "x' does not say its op");

  plait_device_item device = with_help<plait_device_item>();
  fill(device.threads), fill(device.open), fill(device.close), fill(device.info);
  fill(device.alloc), fill(device.free), fill(device.queue_open), fill(device.queue_close);
  fill(device.enqueue), fill(device.copy), fill(device.sync), fill(device.event_open);
  fill(device.event_close), fill(device.event_record), fill(device.event_wait);
  fill(device.event_query), fill(device.capture_begin), fill(device.capture_end);
  fill(device.graph_launch), fill(device.graph_close);
  CHECK(refusal(PLAIT_KIND_DEVICE, &device) == "");
  fill(device.host_alloc);
  CHECK(refusal(PLAIT_KIND_DEVICE, &device) == "x' has host_alloc() but no host_free()");
  device.struct_size = offsetof(plait_device_item, host_alloc);
  CHECK(refusal(PLAIT_KIND_DEVICE, &device) == "");
  device.struct_size = sizeof device;
  fill(device.host_free);
  CHECK(refusal(PLAIT_KIND_DEVICE, &device) == "");
}
