#include "plugins/comm/threads/chunks.hpp"

#include <algorithm>
#include <cstring>

#include "kit/dtype.hpp"
#include "plugins/comm/call.hpp"
#include "plugins/comm/reduce.hpp"

namespace plait::comm_threads {
namespace {

using comm_support::bytes_of;
using comm_support::row;

constexpr uint64_t kStride =
    64 * 1024;  // elements or bytes between two looks at `stop`: well below a millisecond

void copy(void* to, const void* from, uint64_t bytes, const std::atomic<bool>& stop) {
  if (to == from) return;
  for (uint64_t at = 0; at < bytes && !stop.load(std::memory_order_relaxed); at += 16 * kStride)
    std::memcpy(static_cast<char*>(to) + at, static_cast<const char*>(from) + at,
                std::min(16 * kStride, bytes - at));
}

// Elements [first, first + n) of each rank's `in`, past `skip` bytes, reduced to `out` of the same
// element.
template <class Then>
void reduce(const MatchedCalls& matched, PendingCall& call, uint64_t skip, uint64_t first,
            uint64_t n, const std::atomic<bool>& stop, Then then) {
  const plait_comm_desc& d = call.desc;
  const uint64_t size = kit::dtype_bytes(d.dtype);
  for (uint64_t at = 0; at < n && !stop.load(std::memory_order_relaxed); at += kStride) {
    const uint64_t count = std::min(kStride, n - at), offset = (first + at) * size;
    for (size_t r = 0; r < matched.members.size(); ++r)
      call.rows[r] = static_cast<const char*>(matched.members[r]->desc.in) + skip + offset;
    then(offset, count);
  }
}

// Every rank reduces one part of the tensor and hands it to all: each element is added once, in one
// place.
void all_reduce(const MatchedCalls& matched, PendingCall& call, const std::atomic<bool>& stop) {
  const plait_comm_desc& d = call.desc;
  const auto ranks = static_cast<uint32_t>(matched.members.size());
  const auto part = comm_support::shard_range(d.n, call.rank, ranks);
  const uint64_t size = kit::dtype_bytes(d.dtype);
  reduce(matched, call, 0, part.first, part.count, stop, [&](uint64_t offset, uint64_t count) {
    char* own = static_cast<char*>(d.out) + offset;
    comm_support::reduce_rows(d.dtype, d.reduction, call.rows.data(), ranks, own, count);
    for (const PendingCall* member : matched.members)
      if (member != &call)
        std::memcpy(static_cast<char*>(member->desc.out) + offset, own, count * size);
  });
}

void reduce_scatter(const MatchedCalls& matched, PendingCall& call, const std::atomic<bool>& stop) {
  const plait_comm_desc& d = call.desc;
  reduce(matched, call, call.rank * bytes_of(d), 0, d.n, stop,
         [&](uint64_t offset, uint64_t count) {
           comm_support::reduce_rows(d.dtype, d.reduction, call.rows.data(), matched.members.size(),
                                     static_cast<char*>(d.out) + offset, count);
         });
}

}  // namespace

bool has_work(const plait_comm_desc& desc) { return bytes_of(desc) > 0; }

void run_chunk(const MatchedCalls& matched, PendingCall& call, const std::atomic<bool>& stop) {
  const plait_comm_desc& d = call.desc;
  const uint64_t bytes = bytes_of(d);
  const auto in_of = [&](size_t r) { return matched.members[r]->desc.in; };
  switch (d.kind) {
    case PLAIT_COMM_ALL_REDUCE:
      return all_reduce(matched, call, stop);
    case PLAIT_COMM_REDUCE_SCATTER:
      return reduce_scatter(matched, call, stop);
    case PLAIT_COMM_ALL_GATHER:
      for (size_t r = 0; r < matched.members.size(); ++r)
        copy(row(d, d.out, r), in_of(r), bytes, stop);
      return;
    case PLAIT_COMM_BROADCAST:
      return copy(d.out, in_of(d.peer), bytes, stop);
    case PLAIT_COMM_ALL_TO_ALL:
      for (size_t r = 0; r < matched.members.size(); ++r)
        copy(row(d, d.out, r), row(d, in_of(r), call.rank), bytes, stop);
      return;
    case PLAIT_COMM_RECEIVE:
      return copy(d.out, matched.members[0]->desc.in, bytes, stop);
    default:
      return;
  }
}

}  // namespace plait::comm_threads
