#include "plugins/support/host_queue.hpp"

#include <cstring>

namespace plait::support {

void HostGraph::add(GraphStep step, void* const* operands, uint32_t n) {
  first_.push_back(operands_.size());
  operands_.insert(operands_.end(), operands, operands + n);
  steps_.push_back(step);
}

void HostGraph::finish() {
  for (size_t i = 0; i < steps_.size(); ++i) steps_[i].operands = operands_.data() + first_[i];
}

plait_error* run_copy(const plait_kernel*, plait_queue*, void* const* operands, void*) {
  if (const auto bytes = reinterpret_cast<uintptr_t>(operands[2]))
    std::memmove(operands[0], operands[1], bytes);
  return nullptr;
}

}  // namespace plait::support
