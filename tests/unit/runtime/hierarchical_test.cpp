// A hierarchical group over a backend that throws when something is closed.
#include "engine/runtime/hierarchical.hpp"

#include <doctest/doctest.h>

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace plait::runtime;

[[noreturn]] void fail() { throw std::runtime_error("nobody catches me"); }

// Connects at once to no rank; throws when it leaves.
plait_comm_item rude_item() {
  static int something;
  plait_comm_item c{};
  c.struct_size = sizeof c;
  c.name = "rude";
  c.reach = PLAIT_COMM_REACH_NETWORK;
  c.open = [](const plait_host*, const plait_options*, const plait_comm_setup*, plait_comm** out) {
    *out = reinterpret_cast<plait_comm*>(&something);
    return static_cast<plait_error*>(nullptr);
  };
  c.prepare = [](plait_comm*, const plait_comm_desc*, plait_comm_call** out) {
    *out = reinterpret_cast<plait_comm_call*>(&something);
    return static_cast<plait_error*>(nullptr);
  };
  c.release = [](plait_comm_call*) { fail(); };
  c.abort = [](plait_comm*, const char*, uint64_t) { fail(); };
  c.close = [](plait_comm*) { fail(); };
  return c;
}

std::vector<std::string> lines;

}  // namespace

TEST_CASE("an exception of a part of a hierarchical group on leaving is in its plugin's log") {
  const plait_comm_item item = rude_item();
  plait_host host{};
  host.log = [](const plait_host*, uint32_t, const char* text, uint64_t size) {
    lines.emplace_back(text, size);
  };
  const std::array<const char*, 2> hosts{"here", "there"}, ranks{"rank 0", "rank 1"};
  const plait_store store{};
  plait_comm_setup setup{};
  setup.struct_size = sizeof setup;
  setup.name = "data[0]";
  setup.size = 2;
  setup.hosts = hosts.data();
  setup.ranks = ranks.data();
  setup.store = &store;
  const CommBackend rude{&item, &host, nullptr, "comm-rude"};
  plait_comm* const group = open_hierarchical({"rude+rude", rude, rude, false}, setup);
  float value = 1;
  plait_comm_desc desc{};
  desc.struct_size = sizeof desc;
  desc.kind = PLAIT_COMM_ALL_REDUCE;
  desc.dtype = PLAIT_F32;
  desc.n = 1;
  desc.in = desc.out = &value;
  plait_comm_call* call = nullptr;
  REQUIRE(hierarchical_item().prepare(group, &desc, &call) == nullptr);
  lines.clear();
  hierarchical_item().release(call);
  hierarchical_item().abort(group, "enough", 6);
  hierarchical_item().close(group);
  REQUIRE(lines.size() == 3);
  const std::array<std::string, 3> functions{"release", "abort", "close"};
  for (size_t i = 0; i < functions.size(); ++i)
    CHECK(lines[i].find(functions[i] + "() of backend 'rude' threw: nobody catches me") == 0);
}
