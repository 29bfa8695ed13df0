// One rank's end of a hierarchical group: its subgroups, and their common termination.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/runtime/hierarchical.hpp"
#include "engine/runtime/hierarchical_steps.hpp"
#include "kit/serial_worker.hpp"

namespace plait::runtime {

// The group's store with a key prefix for each subgroup. It can do what the group's store can.
class PrefixedStore {
 public:
  PrefixedStore(const plait_store* whole, std::string prefix)
      : raw_{sizeof(plait_store), this, set, get, whole->get_within ? get_within : nullptr},
        whole_(*whole),
        prefix_(std::move(prefix)) {}
  PrefixedStore(const PrefixedStore&) = delete;
  PrefixedStore& operator=(const PrefixedStore&) = delete;
  const plait_store* raw() const { return &raw_; }

 private:
  static plait_error* set(void* self, const char* key, const void* data, uint64_t size);
  static plait_error* get(void* self, const char* key, void* data, uint64_t capacity,
                          uint64_t* size);
  static plait_error* get_within(void* self, const char* key, double seconds, void* data,
                                 uint64_t capacity, uint64_t* size, uint32_t* found);
  const plait_store raw_;
  const plait_store whole_;
  const std::string prefix_;
};

class HierarchicalGroup {
 public:
  HierarchicalGroup(const HierarchicalConfig& config, const plait_comm_setup& setup);
  ~HierarchicalGroup();
  HierarchicalGroup(const HierarchicalGroup&) = delete;
  HierarchicalGroup& operator=(const HierarchicalGroup&) = delete;

  // Ends all subgroups; the first text is kept. [thread: any]
  void abort(std::string text) noexcept;
  // Throws the text of abort(), if it was called.
  void check() const {
    if (failed_) throw_failure();
  }
  [[noreturn]] void throw_failure() const;

  const std::string& head() const { return head_; }  // "[NAME] group 'data[0]'"
  const std::string& name(uint32_t member) const { return names_.at(member); }
  const CommSubgroups& subgroups() const { return subgroups_; }
  kit::SerialWorker& worker() { return *worker_; }

 private:
  // Connects some of the members. `where` ends the subgroup's name: " on HOST"; `extra`: additional
  // seconds of its time-out.
  CommSubgroup open(const CommBackend& backend, const plait_comm_setup& setup,
                    std::span<const uint32_t> members, const std::string& where,
                    const std::string& prefix, double extra);
  void open_all(const HierarchicalConfig& config, const plait_comm_setup& setup);
  void close() noexcept;

  const std::string head_;
  CommSubgroups subgroups_;
  std::vector<std::string> names_;  // (R)
  std::deque<PrefixedStore> stores_;
  mutable std::mutex mutex_;
  std::string failure_;
  std::atomic<bool> failed_{false};
  std::optional<kit::SerialWorker> worker_;
};

}  // namespace plait::runtime
