// The calls of one group in the order in which one rank starts them: how many, a running hash over all of them, and the last ones in
// words. Members of a group start the same calls in the same order, so at the same number they have the same hash.
#pragma once

#include <plait/comm.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace plait::runtime {

// "all_reduce of 10 f32 (sum)": what must be equal on all members. The peer of the kinds that have one is not in it.
std::string text_of(const plait_comm_desc& call);

// What tells one call from another.
struct CallDescription {
  explicit CallDescription(std::string words);
  std::string text;
  uint64_t hash;
};

// Up to where hashes agree, so do all calls before.
struct PrefixHash {
  uint64_t number = 0;  // of the call, from 1
  uint64_t hash = 0;    // of all calls up to it
  bool operator==(const PrefixHash&) const = default;
};

class CollectiveLog {
 public:
  // The next call starts. `call` lives as long as this object is looked at. [thread: compute, one at a time]
  void add(const CallDescription& call) noexcept {
    const uint64_t number = ++count_;
    hash_ = (hash_ ^ call.hash) * 0x9e3779b97f4a7c15u;
    hash_ ^= hash_ >> 29;
    recent_[number % kRecent].put(number, hash_, call);
    uint64_t every = kRecent;
    for (size_t i = 0; i < kRare && number % every == 0; ++i, every *= kRecent)
      rare_[i].put(number, hash_, call);
  }

  // What is known of it, by number: of the last calls, and of the last ones with numbers that are multiples of 16, 256, ...: ranks that
  // are far apart have some of those in common. [thread: any]
  std::vector<PrefixHash> prefix_hashes() const;
  // A call in words; of one that is not among the last any more, what is known instead. [thread: any]
  std::string text(uint64_t number) const;

 private:
  static constexpr size_t kRecent = 16, kRare = 7;
  // Written while others read: what they got is whole if the number was the same before and after.
  struct LogSlot {
    std::atomic<uint64_t> number{0}, hash{0};
    std::atomic<const CallDescription*> call{nullptr};
    void put(uint64_t its_number, uint64_t its_hash, const CallDescription& its_call) noexcept {
      number.store(0, std::memory_order_relaxed);
      hash.store(its_hash, std::memory_order_release);
      call.store(&its_call, std::memory_order_release);
      number.store(its_number, std::memory_order_release);
    }
    const CallDescription* read(PrefixHash& into) const noexcept;  // nullptr when there is none
  };

  uint64_t count_ = 0, hash_ = 0;  // of the thread that adds
  LogSlot recent_[kRecent];        // by number
  LogSlot rare_[kRare];
};

}  // namespace plait::runtime
