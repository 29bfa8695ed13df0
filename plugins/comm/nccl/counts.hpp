// For each prepared call, how often the GPU has begun and ended it: two counts in memory of the
// host, which kernels before and after the call raise. Calls in graphs are counted, too, although
// the host does not see them begin.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plugins/comm/nccl/communicator.hpp"

namespace plait::comm_nccl {

class Counts {
 public:
  // The counts of one call.
  struct Slot {
    uint32_t* begun = nullptr;
    uint32_t* ended = nullptr;
    std::string what;  // "all_reduce of 10 f32 (sum)"
    // What look() saw last.
    uint32_t seen = 0;
    Clock::time_point since{};
    bool under_way = false, in_use = false;
  };

  Counts() = default;
  ~Counts();  // where the context is current
  Counts(const Counts&) = delete;
  Counts& operator=(const Counts&) = delete;

  // Whether the GPU has begun a call that it has not ended.
  static bool under_way(const Slot& slot);

  // Where the context is current. The reference is valid until put().
  Slot& take(std::string what);
  // The slot may still be under way; it is given to another call only when it has ended.
  void put(Slot& slot) noexcept;
  // The call that has been under way for `timeout` seconds, "" if there is none. Called again and
  // again by one thread.
  std::string late(double timeout);
  // A call that is under way, "" if there is none.
  std::string begun() const noexcept;

 private:
  Slot* take_unused(std::string& what) noexcept;

  mutable std::mutex
      mutex_;  // not held in calls of the driver, which may block: late() would wait, too
  std::vector<uint32_t*> blocks_;
  std::vector<std::unique_ptr<Slot>> slots_;
};

}  // namespace plait::comm_nccl
