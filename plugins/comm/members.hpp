// Who is in a group, and how messages name group, members and calls.
#pragma once

#include <plait/comm.h>

#include <plait/plugin.hpp>
#include <span>
#include <string>
#include <vector>

#include "kit/dtype.hpp"

namespace plait::comm_support {

constexpr const char* kind_name(uint32_t kind) {
  constexpr const char* kNames[] = {"?",          "barrier",   "all_reduce", "reduce_scatter",
                                    "all_gather", "broadcast", "all_to_all", "send",
                                    "receive"};
  return kind < std::size(kNames) ? kNames[kind] : kNames[0];
}
constexpr bool reduces(uint32_t kind) {
  return kind == PLAIT_COMM_ALL_REDUCE || kind == PLAIT_COMM_REDUCE_SCATTER;
}
constexpr bool point_to_point(uint32_t kind) {
  return kind == PLAIT_COMM_SEND || kind == PLAIT_COMM_RECEIVE;
}
constexpr bool has_peer(uint32_t kind) {
  return kind == PLAIT_COMM_BROADCAST || point_to_point(kind);
}

// "all_reduce of 10 f32 (sum)", "broadcast of 3 i64 from 1": what must be equal on all ranks.
inline std::string describe(const plait_comm_desc& d) {
  constexpr const char* kReductions[] = {"", "sum", "max", "min"};
  std::string text = kind_name(d.kind);
  if (d.kind == PLAIT_COMM_BARRIER) return text;
  text += " of " + std::to_string(d.n) + " " + kit::dtype_name(d.dtype);
  if (reduces(d.kind)) text += std::string(" (") + kReductions[d.reduction & 3] + ")";
  if (d.kind == PLAIT_COMM_BROADCAST) text += " from " + std::to_string(d.peer);
  return text;
}

// A group as one rank sees it. Copies all texts.
struct Members {
  std::string backend, group;
  uint32_t rank, size;
  std::vector<std::string> names, hosts;  // (R)

  Members(const char* backend_name, const plait_comm_setup& s)
      : backend(backend_name), group(s.name), rank(s.rank), size(s.size) {
    if (s.size == 0 || s.rank >= s.size)
      fail(PLAIT_ERR_INVALID, "[" + backend + "] group '" + group + "' has rank " +
                                  std::to_string(s.rank) + " of " + std::to_string(s.size) +
                                  "; give a rank below the size");
    names.assign(s.ranks, s.ranks + s.size);
    hosts.assign(s.hosts, s.hosts + s.size);
  }
  // "[threads] group 'data[0]'": how every message begins.
  std::string head() const { return "[" + backend + "] group '" + group + "'"; }
  // The members for which `chosen(rank)` is true, "rank 1, rank 3".
  template <class Chosen>
  std::string list(Chosen chosen) const {
    std::string text;
    for (uint32_t r = 0; r < size; ++r)
      if (chosen(r)) text += (text.empty() ? "" : ", ") + names[r];
    return text;
  }
  // "send of 10 f32 to rank 1", as rank r (by default this one) calls it.
  std::string describe_call(const plait_comm_desc& d) const {
    if (!point_to_point(d.kind)) return describe(d);
    return describe(d) + (d.kind == PLAIT_COMM_SEND ? " to " : " from ") + names[d.peer];
  }
};

}  // namespace plait::comm_support
