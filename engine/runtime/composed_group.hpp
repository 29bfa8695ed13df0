// One rank's end of a composed group: its parts, and their common end.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/runtime/composed.hpp"
#include "engine/runtime/composed_steps.hpp"
#include "engine/runtime/lane.hpp"

namespace plait::runtime {

// The group's store, with names of its own for a part.
class PartStore {
 public:
  PartStore(const plait_store* whole, std::string prefix)
      : raw_{sizeof(plait_store), this, set, get}, whole_(*whole), prefix_(std::move(prefix)) {}
  PartStore(const PartStore&) = delete;
  PartStore& operator=(const PartStore&) = delete;
  const plait_store* raw() const { return &raw_; }

 private:
  static plait_error* set(void* self, const char* key, const void* data, uint64_t size);
  static plait_error* get(void* self, const char* key, void* data, uint64_t capacity,
                          uint64_t* size);
  const plait_store raw_;
  const plait_store whole_;
  const std::string prefix_;
};

class ComposedGroup {
 public:
  ComposedGroup(const Composition& composition, const plait_comm_setup& setup);
  ~ComposedGroup();
  ComposedGroup(const ComposedGroup&) = delete;
  ComposedGroup& operator=(const ComposedGroup&) = delete;

  // Ends all parts; the first text stays. [thread: any]
  void abort(std::string text) noexcept;
  // Throws the text it was ended with, if it was.
  void check() const {
    if (failed_) throw_failure();
  }
  [[noreturn]] void throw_failure() const;

  const std::string& head() const { return head_; }  // "[NAME] group 'data[0]'"
  const std::string& name(uint32_t member) const { return names_.at(member); }
  const CommParts& parts() const { return parts_; }
  Lane& lane() { return *lane_; }

 private:
  // Connects some of the members. `where` ends the name of the part: " on HOST"; `extra`: seconds it waits longer for a call.
  CommPart open(const CommBackend& backend, const plait_comm_setup& setup,
                std::span<const uint32_t> members, const std::string& where,
                const std::string& prefix, double extra);
  void open_all(const Composition& composition, const plait_comm_setup& setup);
  void close() noexcept;

  const std::string head_;
  CommParts parts_;
  std::vector<std::string> names_;  // (R)
  std::deque<PartStore> stores_;
  mutable std::mutex mutex_;
  std::string failure_;
  std::atomic<bool> failed_{false};
  std::optional<Lane> lane_;
};

}  // namespace plait::runtime
