// Allocates symmetric memory (symmetric_buffer.hpp). The members agree on it by calls of the group,
// so that a member that is missing, leaves or aborts is noticed as in any other call.
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
  // Gathers two numbers of every member in rank order: (R, 2); the arguments are this rank's
  // numbers.
  using Gather = std::function<std::vector<uint64_t>(const std::string& what, uint64_t, uint64_t)>;
  SymmetricMemory(GroupEndpoint& endpoint, Gather gather)
      : endpoint_(endpoint), gather_(std::move(gather)) {}

  // Implements plait_comm_item.memory; logs to `host` if none can be allocated.
  void* make(const Host& host, uint64_t bytes);
  // The buffer that contains these bytes; NULL: none.
  const SymmetricBuffer* of(const void* data, uint64_t bytes) const;

 private:
  bool has_space(const Host& host, uint64_t bytes);
  uint64_t allocate(const Host& host, uint64_t bytes);

  GroupEndpoint& endpoint_;
  const Gather gather_;
  std::vector<std::unique_ptr<SymmetricBuffer>> all_;
};

}  // namespace plait::comm_shm
