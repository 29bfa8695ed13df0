#include "engine/runtime/backend_needs.hpp"

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/plan/bytes_under_way.hpp"

namespace plait::runtime {
namespace {

// When a group starts calls on one of its backends.
plan::CallStart call_start(const BackendSelection& selected, const plait_comm_item& item) {
  if (selected.hierarchical()) return plan::CallStart::kOneByOne;
  if (selected.staged) return plan::CallStart::kAtOnce;
  return defers(item) ? plan::CallStart::kDeferred : plan::CallStart::kAtOnce;
}

// Whether the memory of the plan's device is taken for the host's while no device is open.
bool counts_as_host(const plan::Plan& plan) {
  const std::vector<std::string> names = plan.registry->comms();
  return std::none_of(names.begin(), names.end(), [&](const std::string& name) {
    const char* device = plan.registry->comm(name).device;
    return device && plan.device == device;
  });
}

// All ranks, as if they ran on this machine.
std::vector<Peer> peers_here(const plan::Plan& plan) {
  std::vector<Peer> peers;
  for (int32_t r = 0; r < plan.grid.ranks(); ++r) peers.push_back({"", "here", std::to_string(r)});
  return peers;
}

}  // namespace

BackendNeeds backend_needs(const plan::Plan& plan, const std::vector<Peer>& peers, bool host_memory,
                           const std::set<std::string>& passed_over) {
  BackendNeeds needs;
  const plan::RankCalls calls = plan::calls_of(plan);
  for (const NeededGroup& g : needed_groups(plan)) {
    std::vector<GroupMemory> memories = {host_memory ? GroupMemory::kHost : GroupMemory::kDevice};
    if (!host_memory) memories.push_back(GroupMemory::kBesideHost);
    for (const GroupMemory memory : memories) {
      const auto selected = select_backend(plan, peers, g.members, memory, passed_over);
      for (const plait_comm_item* item : {selected.flat, selected.intra}) {
        if (!item) continue;
        plait_comm_needs& of = needs[item->name];
        of.struct_size = sizeof of;
        ++of.groups;
        // Groups beside a device's exchange a few numbers.
        if (memory == GroupMemory::kBesideHost) continue;
        plan::CallingGroup group{g.members.axis, g.channel};
        group.position = static_cast<uint32_t>(g.members.position(plan.rank));
        group.ranks = static_cast<uint32_t>(g.members.size());
        group.start = call_start(selected, *item);
        of.bytes += plan::bytes_under_way(calls, plan.grid, group);
      }
    }
  }
  return needs;
}

void check_named_backend(const plan::Plan& plan) {
  if (plan.backend != "auto") backend_needs(plan, peers_here(plan), counts_as_host(plan), {});
}

std::vector<plan::SharedMemoryUse> shared_memory_of(const plan::Plan& plan) {
  std::vector<plan::SharedMemoryUse> all;
  const int32_t ranks = plan.grid.ranks();
  if (ranks < 2) return all;
  BackendNeeds needs;
  try {
    needs = backend_needs(plan, peers_here(plan), counts_as_host(plan), {});
  } catch (const Error& e) {
    if (e.code() != PLAIT_ERR_CONFIG) throw;
    return all;  // opening a session says so
  }
  constexpr size_t kSize =
      offsetof(plait_comm_item, shared_memory) + sizeof(plait_comm_item::shared_memory);
  for (auto& [name, of] : needs) {
    const plait_comm_item& item = plan.registry->comm(name);
    if (item.struct_size < kSize || !item.shared_memory) continue;
    of.ranks = static_cast<uint32_t>(ranks);
    of.groups *= of.ranks;
    of.bytes *= of.ranks;
    config::Problems problems;
    const config::OptionSet options = config::comm_options(plan.experiment, *plan.registry, name,
                                                           config::PathResolver(), problems);
    plan::SharedMemoryUse use{name, of.ranks, of.groups, 0, UINT64_MAX};
    try {
      check_plugin({plan.registry->plugin_of(&item), "shared_memory", "backend", name},
                   "asking what its ranks share", [&] {
                     return item.shared_memory(plan.registry->host_of(&item), &options, &of,
                                               &use.bytes, &use.available);
                   });
    } catch (const Error& e) {
      if (e.code() == PLAIT_ERR_MEMORY) throw;
      continue;  // a plan is not less for it
    }
    all.push_back(std::move(use));
  }
  return all;
}

}  // namespace plait::runtime
