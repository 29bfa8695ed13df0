// How the members of a group come to memory of their own (memory.hpp): they agree on it by calls of the group, so that whoever is
// missing, leaves or aborts is noticed as in any other.
#pragma once

#include <functional>
#include <memory>
#include <plait/plugin.hpp>
#include <span>
#include <vector>

#include "plugins/comm/shm/end.hpp"
#include "plugins/comm/shm/memory.hpp"

namespace plait::comm_shm {

class Memories {
 public:
  // (2) numbers of every member, in order of ranks: (R, 2), from this rank's.
  using Gather = std::function<std::vector<uint64_t>(const std::string& what, uint64_t, uint64_t)>;
  Memories(End& end, Gather gather) : end_(end), gather_(std::move(gather)) {}

  // plait_comm_item.memory; `host` learns of it when there is none to be had.
  void* make(const Host& host, uint64_t bytes);
  // The one that these bytes lie in; NULL: none.
  const Memory* of(const void* data, uint64_t bytes) const;

 private:
  bool enough(const Host& host, uint64_t bytes);
  uint64_t take(const Host& host, uint64_t bytes);

  End& end_;
  const Gather gather_;
  std::vector<std::unique_ptr<Memory>> all_;
};

}  // namespace plait::comm_shm
