#include "engine/session/usable_backends.hpp"

#include <algorithm>
#include <charconv>
#include <deque>
#include <map>

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/collectives.hpp"
#include "engine/program/shape.hpp"

namespace plait::session {

uint64_t bytes_in_flight(const plan::Plan& plan) {
  // Calls that wait for each other share their memory; of sizes that differ by less than 2.
  std::map<std::pair<topology::Axis, uint32_t>, uint64_t> largest;
  uint64_t together = 0;
  for (const plan::Collective& e : plan.collectives) {
    const uint64_t ranks =
        e.kind == PLAIT_COMM_REDUCE_SCATTER ? static_cast<uint64_t>(ranks_of(plan, e.axis)) : 1;
    const uint64_t bytes = e.n * program::dtype_bytes(e.dtype) * ranks;
    if (e.kind == PLAIT_COMM_SEND)
      together += bytes * static_cast<uint64_t>(e.slotted ? plan.grid.pipeline() : 1);
    else if (e.kind != PLAIT_COMM_RECEIVE && e.axis == topology::Axis::kData &&
             !plan::may_be_deferred(plan.grid, e))
      together += bytes;
    else if (e.kind != PLAIT_COMM_RECEIVE)
      largest[{e.axis, e.channel}] = std::max(largest[{e.axis, e.channel}], 2 * bytes);
  }
  for (const auto& [group, bytes] : largest) together += bytes;
  return together;
}

namespace {

struct Refusal {
  std::string backend;
  uint32_t code = PLAIT_OK;
  std::string text;  // "backend\ncode\ntext" between ranks
};

std::string packed(const Refusal& r) {
  return r.backend.empty() ? "" : r.backend + "\n" + std::to_string(r.code) + "\n" + r.text;
}

Refusal unpacked(const std::string& line) {
  const size_t first = line.find('\n'), second = line.find('\n', first + 1);
  if (second == std::string::npos)
    fail(PLAIT_ERR_PEER, "[session] a rank sent a malformed word on its backends");
  Refusal r{line.substr(0, first), 0, line.substr(second + 1)};
  std::from_chars(line.data() + first + 1, line.data() + second, r.code);
  return r;
}

// The needs of all ranks of this machine.
plait_comm_needs needs_of_machine(const plan::Plan& plan, const std::vector<runtime::Peer>& peers,
                                  ControlCollectives& collectives) {
  const std::string own = std::to_string(bytes_in_flight(plan)) + " " +
                          std::to_string(runtime::needed_groups(plan).size());
  const std::vector<std::string> all = collectives.all_gather(own);
  plait_comm_needs needs{};
  needs.struct_size = sizeof needs;
  for (size_t r = 0; r < all.size(); ++r) {
    if (peers[r].host != peers[static_cast<size_t>(plan.rank)].host) continue;
    uint64_t bytes = 0;
    uint32_t groups = 0;
    const char* const end = all[r].data() + all[r].size();
    const auto parsed = std::from_chars(all[r].data(), end, bytes);
    if (parsed.ptr < end) std::from_chars(parsed.ptr + 1, end, groups);
    ++needs.ranks;
    needs.groups += groups;
    needs.bytes += bytes;
  }
  return needs;
}

// Asks one backend.
Refusal ask(const plan::Plan& plan, const plait_comm_item& item, const plait_comm_needs& needs) {
  constexpr size_t kSize = offsetof(plait_comm_item, probe) + sizeof(plait_comm_item::probe);
  if (item.struct_size < kSize || !item.probe) return {};
  config::Problems problems;
  const config::OptionSet options = config::comm_options(plan.experiment, *plan.registry, item.name,
                                                         config::PathResolver(), problems);
  try {
    check_plugin({plan.registry->plugin_of(&item), "probe", "backend", item.name},
                 "asking whether this machine suffices",
                 [&] { return item.probe(plan.registry->host_of(&item), &options, &needs); });
  } catch (const Error& e) {
    const Error* cause = &e;  // the backend's own words
    while (cause->cause()) cause = cause->cause().get();
    return {item.name, e.code(), cause->text()};
  }
  return {};
}

Refusal ask_all(const plan::Plan& plan, const std::vector<runtime::Peer>& peers,
                const plait_comm_needs& needs, bool host_memory, const std::set<std::string>& out) {
  std::set<const plait_comm_item*> asked;
  for (const runtime::NeededGroup& g : runtime::needed_groups(plan)) {
    std::vector<runtime::GroupMemory> memories = {host_memory ? runtime::GroupMemory::kHost
                                                              : runtime::GroupMemory::kDevice};
    if (!host_memory) memories.push_back(runtime::GroupMemory::kBesideHost);
    for (const runtime::GroupMemory memory : memories) {
      const auto selected = runtime::select_backend(plan, peers, g.members, memory, out);
      for (const plait_comm_item* item : {selected.flat, selected.intra})
        if (item && asked.insert(item).second)
          if (Refusal r = ask(plan, *item, needs); !r.backend.empty()) return r;
    }
  }
  return {};
}

}  // namespace

std::set<std::string> unusable_backends(const plan::Plan& plan, const runtime::Control& control,
                                        ControlCollectives& collectives, bool host_memory,
                                        Log& log) {
  const std::vector<runtime::Peer>& peers = control.peers();
  const plait_comm_needs needs = needs_of_machine(plan, peers, collectives);
  std::set<std::string> out;
  Refusal last;
  for (;;) {
    Refusal own;
    try {
      own = ask_all(plan, peers, needs, host_memory, out);
    } catch (const Error& e) {
      // Nothing else connects the ranks: the first reason is the one that can be mended.
      if (last.backend.empty()) throw;
      throw Error(last.code, last.text, std::make_shared<const Error>(e));
    }
    const std::vector<std::string> all = collectives.all_gather(packed(own));
    const auto first =
        std::find_if(all.begin(), all.end(), [](const std::string& one) { return !one.empty(); });
    if (first == all.end()) return out;
    last = unpacked(*first);
    if (last.backend == plan.backend)
      throw Error(last.code, "[topology] backend '" + last.backend + "' of plugin " +
                                 plan.registry->plugin_of(&plan.registry->comm(last.backend)) +
                                 " (topology.backend) does not work on this machine: " + last.text);
    if (!out.insert(last.backend).second)
      fail(PLAIT_ERR_PEER, "[session] backend '" + last.backend + "' was refused twice");
    if (collectives.is_leader())
      log.warn("[topology] all ranks pass over backend '" + last.backend + "' and take the next (" +
               "topology.backend = \"auto\"): " + last.text);
  }
}

}  // namespace plait::session
