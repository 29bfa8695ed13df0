// Which backends the groups of a plan communicate over.
#include "engine/runtime/backend_selection.hpp"

#include <doctest/doctest.h>

#include "engine/plan/plan_draft.hpp"
#include "tests/unit/error_of.hpp"
#include "tests/unit/runtime/program_runner.hpp"

namespace {

using namespace plait;
using runtime::BackendSelection;
using runtime::GroupMemory;
using runtime::Peer;

plait_comm_item backend(const char* name, uint32_t reach, const char* device = nullptr) {
  plait_comm_item item{};
  item.struct_size = sizeof item;
  item.name = name;
  item.help = "";
  item.reach = reach;
  item.device = device;
  item.open = [](const plait_host*, const plait_options*, const plait_comm_setup*,
                 plait_comm**) -> plait_error* { return nullptr; };
  item.close = [](plait_comm*) {};
  item.prepare = [](plait_comm*, const plait_comm_desc*, plait_comm_call**) -> plait_error* {
    return nullptr;
  };
  item.release = [](plait_comm_call*) {};
  item.start = item.finish = [](plait_comm_call*, plait_queue*) -> plait_error* { return nullptr; };
  item.abort = [](plait_comm*, const char*, uint64_t) {};
  return item;
}

std::vector<plait_comm_item> items;

constexpr plait_plugin kPlugin{sizeof kPlugin,
                               PLAIT_ABI_VERSION,
                               0,
                               "links",
                               "1.0.0",
                               "Apache-2.0",
                               "Backends for tests",
                               [](const plait_host* host, const char*, void** state) {
                                 *state = nullptr;
                                 for (const plait_comm_item& item : items)
                                   if (plait_error* e = host->add(host, PLAIT_KIND_COMM, &item))
                                     return e;
                                 return static_cast<plait_error*>(nullptr);
                               },
                               [](void*) {}};

// The plan of a rank; its device is "gpu".
std::unique_ptr<plan::PlanDraft> plan_with(std::vector<plait_comm_item> backends) {
  items = std::move(backends);
  auto registry = test::load_plugins({});
  registry->load_static(kPlugin);
  auto plan = std::make_unique<plan::PlanDraft>();
  plan->registry = std::move(registry);
  plan->device = "gpu";
  plan->backend = "auto";
  return plan;
}

const plait_comm_item kProcess = backend("process", PLAIT_COMM_REACH_PROCESS),
                      kHost = backend("host", PLAIT_COMM_REACH_HOST),
                      kNetwork = backend("network", PLAIT_COMM_REACH_NETWORK),
                      kGpu = backend("gpus", PLAIT_COMM_REACH_NETWORK, "gpu"),
                      kOther = backend("others", PLAIT_COMM_REACH_PROCESS, "npu");
const std::vector<plait_comm_item> kAll{kGpu, kHost, kNetwork, kOther, kProcess},
    kOfHost{kHost, kNetwork, kOther, kProcess};

// Ranks by host and process: "a1" is a process of host a.
std::vector<Peer> peers(const std::vector<std::string>& places) {
  std::vector<Peer> all;
  for (const std::string& place : places) all.push_back({place, place.substr(0, 1), place});
  return all;
}

BackendSelection select(const plan::Plan& plan, const std::vector<std::string>& places,
                        GroupMemory memory = GroupMemory::kHost,
                        const std::set<std::string>& passed_over = {}) {
  topology::ProcessGroup group;
  for (size_t i = 0; i < places.size(); ++i) group.members.push_back(static_cast<int32_t>(i));
  return runtime::select_backend(plan, peers(places), group, memory, passed_over);
}

}  // namespace

TEST_CASE("the nearest backend that reaches all members is taken") {
  const auto plan = plan_with(kOfHost);
  for (const auto& [places, name] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"a1", "a1"}, "process"}, {{"a1", "a2"}, "host"}, {{"a1", "b1"}, "network"}}) {
    CAPTURE(name);
    const BackendSelection found = select(*plan, places);
    CHECK(found.name == name);
    CHECK(found.flat->name == name);
    CHECK_FALSE(found.intra);
    CHECK_FALSE(found.staged);
    CHECK_FALSE(found.hierarchical());
  }
  CHECK(select(*plan, {"a1", "a1"}, GroupMemory::kHost, {"process"}).name == "host");
  CHECK(select(*plan, {"a1", "a1"}, GroupMemory::kHost, {"process", "host"}).name == "network");
}

TEST_CASE("of several hosts: one backend within each, and one between them") {
  const auto plan = plan_with(kOfHost);
  const BackendSelection first = select(*plan, {"a1", "a2", "b1"});
  CHECK(first.name == "host+network");
  CHECK(first.hierarchical());
  CHECK(first.flat->name == std::string("network"));
  REQUIRE(first.intra);
  CHECK(first.intra->name == std::string("host"));
  // A rank that is alone on its host; and hosts whose ranks are connected in different ways.
  plan->rank = 2;
  CHECK(select(*plan, {"a1", "a2", "b1"}).name == "host+network");
  CHECK_FALSE(select(*plan, {"a1", "a2", "b1"}).intra);
  CHECK(select(*plan, {"a1", "a2", "b1", "b1", "c1", "c2"}).name == "host+process+network");
  CHECK(select(*plan, {"a1", "a2", "b1", "b1"}).intra->name == std::string("process"));
  // Nothing nearer than the network connects them.
  const auto far = plan_with({kNetwork});
  CHECK(select(*far, {"a1", "a2", "b1"}).name == "network");
  CHECK_FALSE(select(*far, {"a1", "a2", "b1"}).hierarchical());
}

TEST_CASE("memory of the device: its own backend, else a staged group") {
  const auto plan = plan_with(kAll);
  const BackendSelection own = select(*plan, {"a1", "a1", "b1"}, GroupMemory::kDevice);
  CHECK(own.name == "gpus");
  CHECK_FALSE(own.staged);
  CHECK_FALSE(own.intra);
  // Beside it, the host's memory is not for the device's backend.
  CHECK(select(*plan, {"a1", "a1"}, GroupMemory::kBesideHost).name == "process");
  CHECK(select(*plan, {"a1", "b1"}, GroupMemory::kBesideHost).name == "network");
  const BackendSelection staged = select(*plan, {"a1", "a1"}, GroupMemory::kDevice, {"gpus"});
  CHECK(staged.name == "process");
  CHECK(staged.staged);
  // No staged group is hierarchical.
  CHECK(select(*plan, {"a1", "a2", "b1"}, GroupMemory::kDevice, {"gpus"}).name == "network");
}

TEST_CASE("a backend that topology.backend names is taken as it is") {
  const auto plan = plan_with(kAll);
  plan->backend = "network";
  CHECK(select(*plan, {"a1", "a1"}).name == "network");
  CHECK(select(*plan, {"a1", "a2", "b1"}).name == "network");
  CHECK(select(*plan, {"a1", "a1"}, GroupMemory::kDevice).staged);
  CHECK(select(*plan, {"a1", "a1"}, GroupMemory::kBesideHost).name == "network");
  plan->backend = "gpus";
  CHECK(select(*plan, {"a1", "a1"}, GroupMemory::kDevice).name == "gpus");
  CHECK(select(*plan, {"a1", "a1"}, GroupMemory::kBesideHost).name == "process");
  plan->backend = "others";
  CHECK(test::error_of([&] { select(*plan, {"a1"}, GroupMemory::kDevice); }, PLAIT_ERR_CONFIG) ==
        "[topology] backend 'others' (topology.backend) works on device 'npu' only, and run.device "
        "is 'gpu'; choose another, or \"auto\"");
}

TEST_CASE("no backend for a group: what is loaded, and what it would have to connect") {
  const auto plan = plan_with({kProcess, kHost, kOther});
  const auto error = [&](const std::vector<std::string>& places) {
    return test::error_of([&] { select(*plan, places); }, PLAIT_ERR_CONFIG);
  };
  CHECK(error({"a1", "b1"})
            .starts_with("[topology] no backend of those loaded (host, others, process) connects "
                         "ranks of several "
                         "hosts on device 'gpu'; add a comm plugin, allow one in plugins.allow, or "
                         "name one with "
                         "topology.backend"));
  plan->experiment.plugins.allow = {"another"};
  CHECK(error({"a1", "a1"}).find("connects ranks of one process") != std::string::npos);
  CHECK(error({"a1", "a2"}).find("connects ranks of one host") != std::string::npos);
  plan->experiment.plugins.allow = {"another", "links"};
  CHECK(select(*plan, {"a1", "a1"}).name == "process");
  const auto none = plan_with({});
  CHECK(test::error_of([&] { select(*none, {"a1"}); }, PLAIT_ERR_CONFIG)
            .starts_with("[topology] no backend of those loaded (none) connects"));
}

TEST_CASE("backends of one machine and of host memory start late what may be deferred") {
  CHECK(runtime::defers(kProcess));
  CHECK(runtime::defers(kHost));
  CHECK_FALSE(runtime::defers(kNetwork));
  CHECK_FALSE(runtime::defers(kOther));
}

TEST_CASE("groups of this rank that collectives use, of each channel") {
  const auto plan = plan_with({});
  plan->grid = topology::Grid(1, 2, 2);
  plan->rank = 3;
  const auto needed = [&](std::vector<std::pair<topology::Axis, uint32_t>> used) {
    plan->collectives.clear();
    for (const auto& [axis, channel] : used) {
      plan->collectives.emplace_back();
      plan->collectives.back().axis = axis;
      plan->collectives.back().channel = channel;
    }
    std::string names;
    for (const runtime::NeededGroup& g : runtime::needed_groups(*plan))
      names += g.members.name() + ":" + std::to_string(g.channel) + " ";
    return names;
  };
  using topology::Axis;
  CHECK(needed({}) == "");
  CHECK(needed({{Axis::kData, 0}}) == "data.1:0 ");
  CHECK(needed({{Axis::kData, 1}, {Axis::kData, 0}}) == "data.1:0 data.1:1 ");
  CHECK(needed({{Axis::kTensor, 1}, {Axis::kPipeline, 0}}) == "tensor.1:1 ");
  const auto flat = [&](Axis axis, uint32_t channel) {
    return runtime::plan_needs_flat_group(*plan, axis, channel);
  };
  needed({{Axis::kData, 1}});
  plan->collectives[0].kind = PLAIT_COMM_ALL_TO_ALL;
  CHECK(flat(Axis::kData, 1));
  CHECK_FALSE(flat(Axis::kData, 0));
  CHECK_FALSE(flat(Axis::kTensor, 1));
  CHECK(flat(Axis::kPipeline, 0));
  plan->collectives[0].kind = PLAIT_COMM_ALL_GATHER;
  CHECK_FALSE(flat(Axis::kData, 1));
}
