// How the members of a group come to memory of their own (symmetric_buffer.hpp): they agree on it by calls of the group, so that whoever is
// missing, leaves or aborts is noticed as in any other.
#pragma once

#include <functional>
#include <memory>
#include <plait/plugin.hpp>
#include <span>
#include <vector>

#include "plugins/comm/shm/endpoint.hpp"
#include "plugins/comm/shm/symmetric_buffer.hpp"

namespace plait::comm_shm {

class SymmetricMemory {
 public:
  // (2) numbers of every member, in order of ranks: (R, 2), from this rank's.
  using Gather = std::function<std::vector<uint64_t>(const std::string& what, uint64_t, uint64_t)>;
  SymmetricMemory(GroupEndpoint& endpoint, Gather gather)
      : endpoint_(endpoint), gather_(std::move(gather)) {}

  // plait_comm_item.memory; `host` learns of it when there is none to be had.
  void* make(const Host& host, uint64_t bytes);
  // The one that these bytes lie in; NULL: none.
  const SymmetricBuffer* of(const void* data, uint64_t bytes) const;

 private:
  bool has_space(const Host& host, uint64_t bytes);
  uint64_t allocate(const Host& host, uint64_t bytes);

  GroupEndpoint& endpoint_;
  const Gather gather_;
  std::vector<std::unique_ptr<SymmetricBuffer>> all_;
};

}  // namespace plait::comm_shm
