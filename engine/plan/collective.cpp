#include "engine/plan/collective.hpp"

#include <plait/comm.h>

#include "engine/base/text.hpp"
#include "engine/program/shape.hpp"

namespace plait::plan {

std::string text(const Collective& e) {
  return strf("%s %d %u %u %u %lu;", e.name.c_str(), static_cast<int>(e.axis), e.kind, e.reduction,
              e.dtype, static_cast<unsigned long>(e.n));
}

const char* kind_name(uint32_t kind) {
  static const char* const kKinds[] = {"",           "barrier",   "all_reduce", "reduce_scatter",
                                       "all_gather", "broadcast", "all_to_all", "send",
                                       "receive"};
  return kKinds[kind];
}

bool is_message(const Collective& e) {
  return e.kind == PLAIT_COMM_SEND || e.kind == PLAIT_COMM_RECEIVE;
}

bool may_be_deferred(const topology::Grid& grid, const Collective& e) {
  constexpr uint64_t kLarge = 1 << 20;  // bytes
  return !is_message(e) && grid.pipeline() == 1 && e.n * program::dtype_bytes(e.dtype) >= kLarge;
}

}  // namespace plait::plan
