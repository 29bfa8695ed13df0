#include "engine/runtime/composed_group.hpp"

#include <algorithm>
#include <numeric>

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"

namespace plait::runtime {
namespace {

// f() with the name of a part's key in the group's store.
template <class F>
plait_error* with_name(const std::string& prefix, const char* key, F f) {
  plait_error* error = nullptr;
  plait_error* own = guard_c([&] { error = f((prefix + key).c_str()); });
  return own ? own : error;
}

}  // namespace

plait_error* PartStore::set(void* self, const char* key, const void* data, uint64_t size) {
  const auto& store = *static_cast<const PartStore*>(self);
  return with_name(store.prefix_, key, [&](const char* name) {
    return store.whole_.set(store.whole_.self, name, data, size);
  });
}

plait_error* PartStore::get(void* self, const char* key, void* data, uint64_t capacity,
                            uint64_t* size) {
  const auto& store = *static_cast<const PartStore*>(self);
  return with_name(store.prefix_, key, [&](const char* name) {
    return store.whole_.get(store.whole_.self, name, data, capacity, size);
  });
}

ComposedGroup::ComposedGroup(const Composition& composition, const plait_comm_setup& setup)
    : head_("[" + composition.name + "] group '" + setup.name + "'"),
      parts_{Hosts(std::span(setup.hosts, setup.size)), setup.rank, {}, {}, {}, {}},
      names_(setup.ranks, setup.ranks + setup.size) {
  try {
    open_all(composition, setup);
    lane_.emplace();
  } catch (const Error&) {
    close();
    rethrow_with(head_ + " did not come about");
  } catch (...) {
    close();
    throw;
  }
}

// In the same order everywhere, so that no two wait for each other; what has all members first, to name those who are missing.
void ComposedGroup::open_all(const Composition& composition, const plait_comm_setup& setup) {
  const Hosts& hosts = parts_.hosts;
  const uint32_t host = hosts.host_of(setup.rank), place = hosts.place_of(setup.rank);
  // Whoever waits for somebody who waits himself has more patience: so the one who is really missing is named first.
  const double patience = std::min(setup.timeout / 2, 2.0);
  const auto open_near = [&](const char* when, double extra) {
    if (hosts.size_of(host) == 1) return CommPart{};
    return open(composition.near, setup, hosts.members()[host], " on " + hosts.name(host),
                when + std::to_string(host) + ".", extra);
  };
  if (composition.pairs) {
    std::vector<uint32_t> all(setup.size);
    std::iota(all.begin(), all.end(), 0u);
    parts_.pairs = open(composition.far, setup, all, " between pairs", "pairs.", 0);
  }
  parts_.near = open_near("near.", 0);
  parts_.after = open_near("after.", 2 * patience);
  if (!parts_.through_leaders() || place == 0) {
    std::vector<uint32_t> like;
    for (const std::vector<uint32_t>& members : hosts.members()) like.push_back(members[place]);
    parts_.far = open(composition.far, setup, like, " between hosts",
                      "far." + std::to_string(place) + ".", patience);
  }
}

ComposedGroup::~ComposedGroup() {
  lane_.reset();
  close();
}

CommPart ComposedGroup::open(const CommBackend& backend, const plait_comm_setup& setup,
                             std::span<const uint32_t> members, const std::string& where,
                             const std::string& prefix, double extra) {
  const std::string name = setup.name + where;
  std::vector<const char*> hosts, ranks;
  plait_comm_setup part = setup;
  part.struct_size = sizeof part;
  part.name = name.c_str();
  part.size = static_cast<uint32_t>(members.size());
  for (uint32_t i = 0; i < members.size(); ++i) {
    hosts.push_back(setup.hosts[members[i]]);
    ranks.push_back(setup.ranks[members[i]]);
    if (members[i] == setup.rank) part.rank = i;
  }
  part.hosts = hosts.data();
  part.ranks = ranks.data();
  part.timeout = setup.timeout + extra;
  part.store = stores_.emplace_back(setup.store, prefix).raw();
  CommPart opened{backend.item, nullptr, backend.host};
  const auto open = [&] {
    return backend.item->open(backend.host, backend.options, &part, &opened.comm);
  };
  check_plugin(try_plugin({backend.plugin, "open", "backend", backend.item->name}, open),
               backend.plugin, "connecting group '" + name + "'");
  return opened;
}

void ComposedGroup::close() noexcept {
  for (CommPart* part : {&parts_.pairs, &parts_.after, &parts_.far, &parts_.near})
    if (part->comm)
      leave_plugin(part->host, {"", "close", "backend", part->item->name},
                   [&] { part->item->close(part->comm); });
}

// The text first: calls that end because their part does look here why.
void ComposedGroup::abort(std::string text) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (failed_) return;
    failure_ = std::move(text);
    failed_ = true;
  }
  for (const CommPart* part : {&parts_.near, &parts_.far, &parts_.after, &parts_.pairs})
    if (part->comm)
      leave_plugin(part->host, {"", "abort", "backend", part->item->name},
                   [&] { part->item->abort(part->comm, failure_.data(), failure_.size()); });
}

void ComposedGroup::throw_failure() const {
  const std::lock_guard lock(mutex_);
  fail(PLAIT_ERR_PEER, failure_);
}

}  // namespace plait::runtime
