#include "engine/session/usable_backends.hpp"

#include <algorithm>
#include <charconv>

#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/base/text.hpp"
#include "engine/runtime/backend_needs.hpp"
#include "engine/session/rank_context.hpp"

namespace plait::session {

namespace {

using Needs = runtime::BackendNeeds;

std::string packed(const Needs& needs) {
  std::string text;
  for (const auto& [name, of] : needs)
    text += name + " " + std::to_string(of.groups) + " " + std::to_string(of.bytes) + "\n";
  return text;
}

// Adds what a rank of this machine needs.
void add_packed(const std::string& text, Needs& to) {
  for (const std::string& line : split(text, '\n')) {
    const std::vector<std::string> words = split(line, ' ');
    if (words.size() != 3) continue;  // the end
    uint32_t groups = 0;
    uint64_t bytes = 0;
    std::from_chars(words[1].data(), words[1].data() + words[1].size(), groups);
    std::from_chars(words[2].data(), words[2].data() + words[2].size(), bytes);
    plait_comm_needs& of = to[words[0]];
    of.struct_size = sizeof of;
    ++of.ranks;
    of.groups += groups;
    of.bytes += bytes;
  }
}

constexpr size_t kLongestReason = 4096;

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
    if (e.code() != PLAIT_ERR_MEMORY && e.code() != PLAIT_ERR_IO) throw;
    const Error* cause = &e;  // the backend's own words
    while (cause->cause()) cause = cause->cause().get();
    return {item.name, e.code(), cause->text().substr(0, kLongestReason)};
  }
  return {};
}

}  // namespace

std::set<std::string> unusable_backends(const plan::Plan& plan, const runtime::Control& control,
                                        ControlCollectives& collectives, bool host_memory,
                                        Log& log) {
  const std::vector<runtime::Peer>& peers = control.peers();
  const auto is_here = [&](size_t rank) {
    return peers[rank].host == peers[static_cast<size_t>(plan.rank)].host;
  };
  std::set<std::string> out;
  Refusal last;
  for (;;) {
    Needs needs;
    try {
      needs = runtime::backend_needs(plan, peers, host_memory, out);
    } catch (const Error& e) {
      // Nothing else connects the ranks: the first reason is the one that can be mended.
      if (last.backend.empty()) throw;
      fail_collective(last.code, "[topology] " + last.text +
                                     "; no other backend connects all ranks: " + e.text());
    }
    // A rank comes here when its device is open, which is a part of connecting.
    const std::vector<std::string> of_ranks = collectives.all_gather(
        packed(needs), control.connect_timeout(),
        "look at its device, or raise topology.connect_timeout, which counts "
        "from the connection of the ranks until all devices are open");
    Needs here;
    for (size_t r = 0; r < of_ranks.size(); ++r)
      if (is_here(r)) add_packed(of_ranks[r], here);
    Refusal own;
    for (const auto& entry : needs)
      if (own.backend.empty())
        own = ask(plan, plan.registry->comm(entry.first), here.at(entry.first));
    const std::vector<std::string> all = collectives.all_gather(packed(own));
    const auto first =
        std::find_if(all.begin(), all.end(), [](const std::string& one) { return !one.empty(); });
    if (first == all.end()) return out;
    const auto rank = static_cast<size_t>(first - all.begin());
    last = unpacked(*first);
    last.text = strf("rank %zu on %s: ", rank, peers[rank].host.c_str()) + last.text;
    if (last.backend == plan.backend)
      fail_collective(last.code, "[topology] backend '" + last.backend + "' of plugin " +
                                     plan.registry->plugin_of(&plan.registry->comm(last.backend)) +
                                     " (topology.backend) does not work: " + last.text);
    if (!out.insert(last.backend).second)
      fail_collective(PLAIT_ERR_PEER, "[session] backend '" + last.backend + "' was refused twice");
    if (collectives.is_leader())
      log.warn("[topology] all ranks pass over backend '" + last.backend + "' and take the next (" +
               "topology.backend = \"auto\"): " + last.text);
  }
}

}  // namespace plait::session
