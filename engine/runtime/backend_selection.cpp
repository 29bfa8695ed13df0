#include "engine/runtime/backend_selection.hpp"

#include <algorithm>
#include <span>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/plan_inputs.hpp"
#include "engine/runtime/hierarchical.hpp"
#include "engine/runtime/hosts.hpp"

namespace plait::runtime {
namespace {

bool fits(const plan::Plan& plan, const plait_comm_item& item, GroupMemory memory) {
  if (item.device) return memory != GroupMemory::kBesideHost && plan.device == item.device;
  return memory != GroupMemory::kDevice;
}

// Whether the backend can be the one behind a staged group.
bool stages(const plait_comm_item& item, GroupMemory memory) {
  return memory == GroupMemory::kDevice && !item.device;
}

// Whether `one` is to be preferred.
bool is_nearer(const plait_comm_item& one, const plait_comm_item& other, GroupMemory memory) {
  if (stages(one, memory) != stages(other, memory)) return !stages(one, memory);
  return one.reach < other.reach;
}

// Whether topology.backend names the backend; otherwise that of the smallest reach is chosen.
bool is_named(const plan::Plan& plan, GroupMemory memory) {
  if (plan.backend == "auto") return false;
  return memory != GroupMemory::kBesideHost ||
         fits(plan, plan.registry->comm(plan.backend), memory);
}

// The backend of the smallest reach that connects all members and communicates this memory; one for
// host memory if none communicates that of the device.
const plait_comm_item& select_backend(const plan::Plan& plan, const std::vector<Peer>& peers,
                                      std::span<const int32_t> members, GroupMemory memory,
                                      const std::set<std::string>& passed_over) {
  if (is_named(plan, memory)) {
    const plait_comm_item& item = plan.registry->comm(plan.backend);
    if (fits(plan, item, memory) || stages(item, memory)) return item;
    fail_config("[topology] backend '" + plan.backend + "' (topology.backend) works on " +
                (item.device ? "device '" + std::string(item.device) + "'" : "memory of the host") +
                " only, and run.device is '" + plan.device + "'; choose another, or \"auto\"");
  }
  const auto all_share = [&](std::string Peer::*what) {
    return std::all_of(members.begin(), members.end(), [&](int32_t r) {
      return peers[static_cast<size_t>(r)].*what == peers[static_cast<size_t>(members[0])].*what;
    });
  };
  const uint32_t needed = all_share(&Peer::process) ? PLAIT_COMM_REACH_PROCESS
                          : all_share(&Peer::host)  ? PLAIT_COMM_REACH_HOST
                                                    : PLAIT_COMM_REACH_NETWORK;
  const plait_comm_item* best = nullptr;
  for (const std::string& name : plan.registry->comms()) {
    const plait_comm_item& item = plan.registry->comm(name);
    if (item.reach < PLAIT_COMM_REACH_PROCESS || item.reach > PLAIT_COMM_REACH_NETWORK)
      fail(PLAIT_ERR_PLUGIN,
           strf("[plugin %s] backend '%s' says it reaches %u, expected "
                "PLAIT_COMM_REACH_*",
                plan.registry->plugin_of(&item).c_str(), name.c_str(), item.reach));
    const bool usable = fits(plan, item, memory) || stages(item, memory);
    if (!usable || item.reach < needed || passed_over.contains(name) ||
        !plan::is_allowed(plan, plan.registry->plugin_of(&item)))
      continue;
    if (!best || is_nearer(item, *best, memory)) best = &item;
  }
  if (best) return *best;
  static const char* const kReach[] = {"", "one process", "one host", "several hosts"};
  const std::vector<std::string> names = plan.registry->comms();
  fail_config(
      "[topology] no backend of those loaded (" + (names.empty() ? "none" : join(names)) +
      ") connects ranks of " + kReach[needed] + " on device '" + plan.device +
      "'; add a comm plugin, allow one in plugins.allow, or name one with topology.backend" +
      plan.registry->load_summary());
}

Hosts hosts_of(const std::vector<Peer>& peers, const topology::ProcessGroup& group) {
  std::vector<std::string> hosts;
  for (const int32_t r : group.members) hosts.push_back(peers[static_cast<size_t>(r)].host);
  return Hosts(hosts);
}

}  // namespace

std::vector<NeededGroup> needed_groups(const plan::Plan& plan) {
  std::vector<NeededGroup> needed;
  for (const topology::ProcessGroup& members : plan.grid.all_groups())
    for (const uint32_t channel : {0u, 1u})
      if (members.size() > 1 && members.position(plan.rank) >= 0 &&
          std::any_of(plan.collectives.begin(), plan.collectives.end(),
                      [&](const plan::Collective& e) {
                        return e.axis == members.axis && e.channel == channel;
                      }))
        needed.push_back({members, channel});
  return needed;
}

BackendSelection select_backend(const plan::Plan& plan, const std::vector<Peer>& peers,
                                const topology::ProcessGroup& group, GroupMemory memory,
                                const std::set<std::string>& passed_over) {
  BackendSelection selection{&select_backend(plan, peers, group.members, memory, passed_over),
                             nullptr, ""};
  selection.name = selection.flat->name;
  selection.staged = stages(*selection.flat, memory);
  const Hosts hosts = hosts_of(peers, group);
  if (is_named(plan, memory) || memory == GroupMemory::kDevice || hosts.count() == 1 ||
      selection.flat->device)
    return selection;
  std::vector<std::string> names;
  for (const std::vector<uint32_t>& places : hosts.members()) {
    if (places.size() == 1) continue;
    std::vector<int32_t> members;
    for (const uint32_t place : places) members.push_back(group.members[place]);
    const plait_comm_item& intra = select_backend(plan, peers, members, memory, passed_over);
    if (intra.device) return selection;
    if (std::find(names.begin(), names.end(), intra.name) == names.end())
      names.emplace_back(intra.name);
    if (std::find(members.begin(), members.end(), plan.rank) != members.end())
      selection.intra = &intra;
  }
  std::erase(names, selection.flat->name);
  names.emplace_back(selection.flat->name);
  selection.name = join(names, "+");
  return selection;
}

bool defers(const plait_comm_item& backend) {
  return backend.reach < PLAIT_COMM_REACH_NETWORK && !backend.device;
}

// Pipeline stages have different collectives, and they send messages.
bool plan_needs_flat_group(const plan::Plan& plan, topology::Axis axis, uint32_t channel) {
  return axis == topology::Axis::kPipeline ||
         std::any_of(plan.collectives.begin(), plan.collectives.end(),
                     [&](const plan::Collective& e) {
                       return e.axis == axis && e.channel == channel &&
                              needs_flat_group(e.kind, e.dtype, e.reduction);
                     });
}

}  // namespace plait::runtime
