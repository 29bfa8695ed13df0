#include "engine/runtime/hierarchical_group.hpp"

#include <algorithm>
#include <numeric>

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/base/thread.hpp"

namespace plait::runtime {
namespace {

// Calls f() with the prefixed name of a subgroup's key in the group's store.
template <class F>
plait_error* with_prefix(const std::string& prefix, const char* key, F f) {
  plait_error* error = nullptr;
  plait_error* own = guard_c([&] { error = f((prefix + key).c_str()); });
  return own ? own : error;
}

}  // namespace

plait_error* PrefixedStore::set(void* self, const char* key, const void* data, uint64_t size) {
  const auto& store = *static_cast<const PrefixedStore*>(self);
  return with_prefix(store.prefix_, key, [&](const char* name) {
    return store.whole_.set(store.whole_.self, name, data, size);
  });
}

plait_error* PrefixedStore::get(void* self, const char* key, void* data, uint64_t capacity,
                                uint64_t* size) {
  const auto& store = *static_cast<const PrefixedStore*>(self);
  return with_prefix(store.prefix_, key, [&](const char* name) {
    return store.whole_.get(store.whole_.self, name, data, capacity, size);
  });
}

plait_error* PrefixedStore::get_within(void* self, const char* key, double seconds, void* data,
                                       uint64_t capacity, uint64_t* size, uint32_t* found) {
  const auto& store = *static_cast<const PrefixedStore*>(self);
  return with_prefix(store.prefix_, key, [&](const char* name) {
    return store.whole_.get_within(store.whole_.self, name, seconds, data, capacity, size, found);
  });
}

HierarchicalGroup::HierarchicalGroup(const HierarchicalConfig& config,
                                     const plait_comm_setup& setup)
    : head_("[" + config.name + "] group '" + setup.name + "'"),
      subgroups_{Hosts(std::span(setup.hosts, setup.size)), setup.rank, {}, {}, {}, {}},
      names_(setup.ranks, setup.ranks + setup.size) {
  try {
    open_all(config, setup);
    with_threads([&] { worker_.emplace(); });
  } catch (const Error&) {
    close();
    rethrow_with(head_ + " did not connect");
  } catch (...) {
    close();
    throw;
  }
}

// All members open the subgroups in the same order, so that no two wait for each other; the
// subgroup with all members comes first, so that its error names the missing ones.
void HierarchicalGroup::open_all(const HierarchicalConfig& config, const plait_comm_setup& setup) {
  const Hosts& hosts = subgroups_.hosts;
  const uint32_t host = hosts.host_of(setup.rank), local_index = hosts.local_index_of(setup.rank);
  // A rank that waits for a waiting rank gets a longer time-out, so that the error names the rank
  // that is really missing.
  const double extra_timeout = std::min(setup.timeout / 2, 2.0);
  const auto open_intra = [&](const char* when, double extra) {
    if (hosts.size_of(host) == 1) return CommSubgroup{};
    return open(config.intra, setup, hosts.members()[host], " on " + hosts.name(host),
                when + std::to_string(host) + ".", extra);
  };
  if (config.flat) {
    std::vector<uint32_t> all(setup.size);
    std::iota(all.begin(), all.end(), 0u);
    subgroups_.flat = open(config.inter, setup, all, " between all ranks", "flat.", 0);
  }
  subgroups_.intra = open_intra("intra.", 0);
  subgroups_.intra_broadcast = open_intra("broadcast.", 2 * extra_timeout);
  if (!subgroups_.through_leaders() || local_index == 0) {
    std::vector<uint32_t> counterparts;
    for (const std::vector<uint32_t>& members : hosts.members())
      counterparts.push_back(members[local_index]);
    subgroups_.inter = open(config.inter, setup, counterparts, " between hosts",
                            "inter." + std::to_string(local_index) + ".", extra_timeout);
  }
}

HierarchicalGroup::~HierarchicalGroup() {
  worker_.reset();
  close();
}

CommSubgroup HierarchicalGroup::open(const CommBackend& backend, const plait_comm_setup& setup,
                                     std::span<const uint32_t> members, const std::string& where,
                                     const std::string& prefix, double extra) {
  const std::string name = setup.name + where;
  std::vector<const char*> hosts, ranks;
  plait_comm_setup sub = setup;
  sub.struct_size = sizeof sub;
  sub.name = name.c_str();
  sub.size = static_cast<uint32_t>(members.size());
  for (uint32_t i = 0; i < members.size(); ++i) {
    hosts.push_back(setup.hosts[members[i]]);
    ranks.push_back(setup.ranks[members[i]]);
    if (members[i] == setup.rank) sub.rank = i;
  }
  sub.hosts = hosts.data();
  sub.ranks = ranks.data();
  sub.timeout = setup.timeout + extra;
  sub.store = stores_.emplace_back(setup.store, prefix).raw();
  CommSubgroup opened{backend.item, nullptr, backend.host};
  const auto open = [&] {
    return backend.item->open(backend.host, backend.options, &sub, &opened.comm);
  };
  check_plugin({backend.plugin, "open", "backend", backend.item->name},
               "connecting group '" + name + "'", open);
  return opened;
}

void HierarchicalGroup::close() noexcept {
  for (CommSubgroup* subgroup :
       {&subgroups_.flat, &subgroups_.intra_broadcast, &subgroups_.inter, &subgroups_.intra})
    if (subgroup->comm)
      call_plugin_noexcept(subgroup->host, {"", "close", "backend", subgroup->item->name},
                           [&] { subgroup->item->close(subgroup->comm); });
}

// Sets the text first: calls that end because their subgroup has ended read the reason here.
void HierarchicalGroup::abort(std::string text) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (failed_) return;
    failure_ = std::move(text);
    failed_ = true;
  }
  for (const CommSubgroup* subgroup :
       {&subgroups_.intra, &subgroups_.inter, &subgroups_.intra_broadcast, &subgroups_.flat})
    if (subgroup->comm)
      call_plugin_noexcept(subgroup->host, {"", "abort", "backend", subgroup->item->name}, [&] {
        subgroup->item->abort(subgroup->comm, failure_.data(), failure_.size());
      });
}

void HierarchicalGroup::throw_failure() const {
  const std::lock_guard lock(mutex_);
  fail(PLAIT_ERR_PEER, failure_);
}

}  // namespace plait::runtime
