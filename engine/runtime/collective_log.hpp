// The collectives of a group in the order in which one rank starts them: their number, how many
// have ended, the text of the newest, and a running hash over all. Members of a group start the
// same calls in the same order, so at the same number they have the same hash.
#pragma once

#include <plait/comm.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace plait::runtime {

// "all_reduce of 10 f32 (sum)": the properties that must be equal on all members. Excludes the peer
// of kinds that have one.
std::string text_of(const plait_comm_desc& call);

// Identifies a call.
struct CallDescription {
  explicit CallDescription(std::string words);
  std::string text;
  uint64_t hash;
};

// Two ranks with equal hashes have made the same calls up to this number.
struct PrefixHash {
  uint64_t number = 0;  // of the call, from 1
  uint64_t hash = 0;    // of all calls up to this one
  bool operator==(const PrefixHash&) const = default;
};

class CollectiveLog {
 public:
  // Appends the next call. `call` must outlive this object's readers. [thread: compute, one at a
  // time]
  void add(const CallDescription& call) noexcept {
    const uint64_t number = ++count_;
    hash_ = (hash_ ^ call.hash) * 0x9e3779b97f4a7c15u;
    hash_ ^= hash_ >> 29;
    recent_[number % kRecent].put(number, hash_, call);
    uint64_t every = kRecent;
    for (size_t i = 0; i < kRare && number % every == 0; ++i, every *= kRecent)
      rare_[i].put(number, hash_, call);
  }

  // One of them has ended; the host has waited for it. [thread: compute, one at a time]
  void finish() noexcept {
    finished_.store(finished_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  uint64_t finished() const { return finished_.load(std::memory_order_relaxed); }  // [thread: any]

  // The prefix hashes that are still stored, by number: of the most recent calls, and of the most
  // recent calls with numbers that are multiples of 16, 256, ..., so that ranks which are far
  // apart have some in common. [thread: any]
  std::vector<PrefixHash> prefix_hashes() const;
  // The text of a call; for a call that is no longer stored, the nearest information. [thread: any]
  std::string text(uint64_t number) const;
  // The most recent calls, by number; those that are being written meanwhile may lack.
  // [thread: any]
  struct StartedCall {
    uint64_t number = 0;  // from 1
    std::string text;
  };
  std::vector<StartedCall> recent() const;

 private:
  static constexpr size_t kRecent = 16, kRare = 7;
  // Written while others read: a copy is consistent if the number was the same before and after.
  struct LogSlot {
    std::atomic<uint64_t> number{0}, hash{0};
    std::atomic<const CallDescription*> call{nullptr};
    void put(uint64_t its_number, uint64_t its_hash, const CallDescription& its_call) noexcept {
      number.store(0, std::memory_order_relaxed);
      hash.store(its_hash, std::memory_order_release);
      call.store(&its_call, std::memory_order_release);
      number.store(its_number, std::memory_order_release);
    }
    const CallDescription* read(PrefixHash& into) const noexcept;  // nullptr if the slot is empty
  };

  uint64_t count_ = 0, hash_ = 0;  // used by the adding thread only
  std::atomic<uint64_t> finished_{0};
  LogSlot recent_[kRecent];  // by number
  LogSlot rare_[kRare];
};

}  // namespace plait::runtime
