// One call as a backend keeps it: the checks that all backends make, and addresses of rows.
#pragma once

#include <cstdint>

#include "kit/dtype.hpp"
#include "plugins/comm/members.hpp"

namespace plait::comm_support {

// Bytes of n elements.
inline uint64_t bytes_of(const plait_comm_desc& d) {
  return d.kind == PLAIT_COMM_BARRIER ? 0 : d.n * kit::dtype_bytes(d.dtype);
}
// Row i of a tensor with rows of n elements.
inline const char* row(const plait_comm_desc& d, const void* base, uint64_t i) {
  return static_cast<const char*>(base) + i * bytes_of(d);
}
inline char* row(const plait_comm_desc& d, void* base, uint64_t i) {
  return static_cast<char*>(base) + i * bytes_of(d);
}

namespace detail {
inline bool disjoint(const void* a, uint64_t a_bytes, const void* b, uint64_t b_bytes) {
  const auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
  return x + a_bytes <= y || y + b_bytes <= x;
}

// Whether this rank's call reads `in` or writes `out`.
inline bool reads(const Members& m, const plait_comm_desc& d) {
  return d.kind != PLAIT_COMM_RECEIVE && (d.kind != PLAIT_COMM_BROADCAST || d.peer == m.rank);
}

// Where memory of a call may lie; empty when it may lie as it does.
inline std::string memory_fault(const Members& m, const plait_comm_desc& d) {
  const uint64_t bytes = bytes_of(d), all = bytes * m.size;
  if (bytes == 0) return "";
  if (reads(m, d) && !d.in) return "in is NULL";
  if (d.kind != PLAIT_COMM_SEND && !d.out) return "out is NULL";
  switch (d.kind) {
    case PLAIT_COMM_ALL_REDUCE:
    case PLAIT_COMM_BROADCAST:
      if (reads(m, d) && d.in != d.out && !disjoint(d.in, bytes, d.out, bytes))
        return "out overlaps in without being in";
      return "";
    case PLAIT_COMM_REDUCE_SCATTER:
      if (d.out != row(d, d.in, m.rank) && !disjoint(d.in, all, d.out, bytes))
        return "out overlaps in without being this rank's row of it";
      return "";
    case PLAIT_COMM_ALL_GATHER:
      if (d.in != row(d, d.out, m.rank) && !disjoint(d.in, bytes, d.out, all))
        return "in overlaps out without being this rank's row of it";
      return "";
    case PLAIT_COMM_ALL_TO_ALL:
      return disjoint(d.in, all, d.out, all) ? "" : "out overlaps in";
    default:
      return "";
  }
}

// What is wrong with a call; empty when nothing is.
inline std::string fault(const Members& m, const plait_comm_desc& d) {
  constexpr size_t kV1 = offsetof(plait_comm_desc, out) + sizeof(d.out);
  if (d.struct_size < kV1) return "struct_size " + std::to_string(d.struct_size) + " is too small";
  if (d.kind < PLAIT_COMM_BARRIER || d.kind > PLAIT_COMM_RECEIVE)
    return "kind " + std::to_string(d.kind) + " is unknown";
  if (has_peer(d.kind) && d.peer >= m.size)
    return "peer " + std::to_string(d.peer) + " is no member of " + std::to_string(m.size);
  if (point_to_point(d.kind) && d.peer == m.rank) return "the peer is this rank itself";
  if (!has_peer(d.kind) && d.peer != 0) return "a peer is given to a kind that has none";
  if (d.kind == PLAIT_COMM_BARRIER) return d.n == 0 ? "" : "a barrier has elements";
  const uint64_t size = kit::dtype_bytes(d.dtype);
  if (size == 0) return "element type " + std::to_string(d.dtype) + " is unknown";
  if (reduces(d.kind) && (d.reduction < PLAIT_COMM_SUM || d.reduction > PLAIT_COMM_MIN))
    return "reduction " + std::to_string(d.reduction) + " is unknown";
  if (!reduces(d.kind) && d.reduction != 0) return "a reduction is given to a kind that has none";
  if (reduces(d.kind) && d.dtype == PLAIT_BOOL) return "bool cannot be reduced";
  if (d.n > INT64_MAX / size / m.size) return std::to_string(d.n) + " elements exceed memory";
  return memory_fault(m, d);
}
}  // namespace detail

// Throws PLAIT_ERR_INVALID unless `d` is a call this rank may make; else a copy of it with what it
// does not use cleared.
inline plait_comm_desc checked(const Members& m, const plait_comm_desc& d) {
  const std::string fault = detail::fault(m, d);
  if (!fault.empty())
    fail(PLAIT_ERR_INVALID, m.head() + ": a call of kind " + kind_name(d.kind) +
                                " cannot be prepared: " + fault + "; see plait/comm.h");
  plait_comm_desc copy{
      sizeof(plait_comm_desc), d.kind, d.dtype, d.reduction, d.peer, d.n, d.in, d.out};
  if (d.kind == PLAIT_COMM_BARRIER) copy.dtype = copy.reduction = 0;
  return copy;
}

}  // namespace plait::comm_support
