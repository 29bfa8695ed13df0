#include "plugins/comm/shm/chunks.hpp"

#include <algorithm>
#include <cstring>

#include "kit/dtype.hpp"
#include "plugins/comm/reduce.hpp"
#include "plugins/comm/shm/channel.hpp"
#include "plugins/comm/shm/copy.hpp"

namespace plait::comm_shm {
namespace {

using comm_support::row;

constexpr uint64_t kStreamingBytes =
    4 * 1024 * 1024;                     // results from this size on go past the caches
constexpr uint32_t kReduced = 1u << 31;  // of a reducer's flag: it is done

// One chunk of a call's rows.
struct Chunk {
  uint64_t number, first, n, bytes;  // elements before it; in it
};
Chunk chunk_of(const CallState& c, uint64_t number) {
  const uint64_t first = number * c.chunking.chunk,
                 n = std::min(c.chunking.chunk, c.desc.n - first);
  return {number, first, n, n * kit::dtype_bytes(c.desc.dtype)};
}
// The chunk's place in a row of the caller's tensors.
const char* in_row(const CallState& c, const Chunk& k, uint64_t r) {
  return row(c.desc, c.desc.in, r) + k.first * kit::dtype_bytes(c.desc.dtype);
}
char* out_row(const CallState& c, const Chunk& k, uint64_t r) {
  return row(c.desc, c.desc.out, r) + k.first * kit::dtype_bytes(c.desc.dtype);
}
// Row i of the chunk in a member's buffer.
char* staged_row(const CallState& c, const Chunk& k, uint32_t member, uint64_t i) {
  const PeerState& peer = c.peers[member];
  uint64_t slot = 0;
  if (c.many())
    slot = std::min<uint64_t>(peer.header().slots()[k.number].load(std::memory_order_relaxed),
                              c.chunking.count - 1);
  return peer.memory + head_bytes(c.chunking.count) + slot * c.chunking.slot_bytes() +
         i * c.chunking.stride;
}
// Which of a member's rows is for `reader`: it has none for itself.
uint64_t row_for(uint32_t reader, uint32_t member) { return reader < member ? reader : reader - 1; }

bool streamed(const CallState& c) { return comm_support::bytes_of(c.desc) >= kStreamingBytes; }

void copy(const CallState& c, void* to, const void* from, uint64_t bytes) {
  if (to == from) return;
  if (streamed(c))
    stream(to, from, bytes);
  else
    std::memcpy(to, from, bytes);
}

// Reduces the chunk of rows(m), m a member, to `out`.
template <class Rows>
void reduce(CallState& c, const Chunk& k, char* out, Rows rows) {
  constexpr uint64_t kBlock = 4096;  // bytes on their way past the caches
  const uint32_t members = c.channel.size();
  const uint64_t size = kit::dtype_bytes(c.desc.dtype);
  std::vector<const void*>& at = c.rows;
  for (uint32_t m = 0; m < members; ++m) at[m] = rows(m);
  const auto reduce_to = [&](void* to, uint64_t n) {
    comm_support::reduce_rows(c.desc.dtype, c.desc.reduction, at.data(), members, to, n);
  };
  if (!streamed(c)) return reduce_to(out, k.n);
  alignas(kLine) char block[kBlock];
  for (uint64_t done = 0; done < k.bytes; done += kBlock) {
    const uint64_t bytes = std::min(kBlock, k.bytes - done);
    reduce_to(block, bytes / size);
    copy(c, out + done, block, bytes);
    for (const void*& p : at) p = static_cast<const char*>(p) + kBlock;
  }
}

void consume_chunk(CallState& c, const Chunk& k) {
  const uint32_t own = c.channel.own(), members = c.channel.size();
  switch (c.desc.kind) {
    case PLAIT_COMM_ALL_REDUCE:
      return reduce(c, k, out_row(c, k, 0), [&](uint32_t m) {
        return m == own ? in_row(c, k, 0) : staged_row(c, k, m, 0);
      });
    case PLAIT_COMM_REDUCE_SCATTER:
      return reduce(c, k, out_row(c, k, 0), [&](uint32_t m) {
        return m == own ? in_row(c, k, own) : staged_row(c, k, m, row_for(own, m));
      });
    case PLAIT_COMM_ALL_GATHER:
      for (uint32_t m = 0; m < members; ++m)
        copy(c, out_row(c, k, m), m == own ? in_row(c, k, 0) : staged_row(c, k, m, 0), k.bytes);
      return;
    case PLAIT_COMM_ALL_TO_ALL:
      for (uint32_t m = 0; m < members; ++m)
        copy(c, out_row(c, k, m),
             m == own ? in_row(c, k, own) : staged_row(c, k, m, row_for(own, m)), k.bytes);
      return;
    case PLAIT_COMM_BROADCAST:
      return copy(c, out_row(c, k, 0),
                  own == c.desc.peer ? in_row(c, k, 0) : staged_row(c, k, c.desc.peer, 0), k.bytes);
    case PLAIT_COMM_RECEIVE:
      return copy(c, out_row(c, k, 0), staged_row(c, k, 0, 0), k.bytes);
    default:
      return;
  }
}

// Whether member m has staged chunk `number`, if it stages any.
bool has_staged(CallState& c, uint32_t m, uint64_t number) {
  if (!c.stages(m)) return true;
  if (m == c.channel.own()) return c.staged > number;
  if (!c.many() || c.peers[m].staged > number) return true;
  c.peers[m].staged = c.peers[m].header().staged;
  return c.peers[m].staged > number;
}
bool all_staged(CallState& c, uint64_t number) {
  for (uint32_t m = 0; m < c.channel.size(); ++m)
    if (!has_staged(c, m, number)) return false;
  return true;
}

void count_consumed(CallState& c) {
  ++c.consumed;
  if (c.many())
    c.peers[c.channel.own()].header().consumed.store(c.consumed, std::memory_order_release);
}

Flag& reducer_of(const CallState& c, uint64_t number) {
  return c.peers[0].header().reducers(c.chunking.count)[number];
}

// Reduces a chunk in the group's memory: pieces that stay in the nearest cache, and from there to
// all members.
void reduce_in_memory(CallState& c, const Chunk& k) {
  constexpr uint64_t kBlock = 4096;  // bytes
  const uint32_t members = c.channel.size();
  const uint64_t size = kit::dtype_bytes(c.desc.dtype),
                 at = c.memory->offset_of(c.desc.out) + k.first * size;
  alignas(kLine) char block[kBlock];
  for (uint64_t done = 0; done < k.bytes; done += kBlock) {
    const uint64_t bytes = std::min(kBlock, k.bytes - done);
    for (uint32_t m = 0; m < members; ++m) c.rows[m] = c.memory->of_rank(m) + at + done;
    comm_support::reduce_rows(c.desc.dtype, c.desc.reduction, c.rows.data(), members, block,
                              bytes / size);
    for (uint32_t m = 0; m < members; ++m)
      std::memcpy(c.memory->of_rank(m) + at + done, block, bytes);
  }
}

// Reduces a chunk for all, unless another member is at it. The result replaces what one of them,
// round robin, has staged.
bool reduce_for_all(CallState& c, uint64_t number) {
  const uint32_t own = c.channel.own(), members = c.channel.size();
  uint32_t nobody = 0;
  if (!reducer_of(c, number).compare_exchange_strong(nobody, own + 1)) return false;
  const Chunk k = chunk_of(c, number);
  char* const result =
      c.memory ? nullptr : staged_row(c, k, static_cast<uint32_t>(number % members), 0);
  if (c.memory) {
    reduce_in_memory(c, k);
  } else {
    for (uint32_t m = 0; m < members; ++m) c.rows[m] = staged_row(c, k, m, 0);
    comm_support::reduce_rows(c.desc.dtype, c.desc.reduction, c.rows.data(), members, result, k.n);
  }
  reducer_of(c, number) = kReduced | (own + 1);
  c.channel.wake_others();
  if (result) copy(c, out_row(c, k, 0), result, k.bytes);
  return true;
}

// The own chunks first; then the others', those that nobody has begun yet as well: so nobody waits
// for a member that is busy with something else.
bool step_reduce_once(CallState& c) {
  const uint32_t own = c.channel.own(), members = c.channel.size();
  if (c.next_to_reduce < c.chunking.count && all_staged(c, c.next_to_reduce)) {
    reduce_for_all(c, c.next_to_reduce);
    c.next_to_reduce += members;
    return true;
  }
  if (c.consumed == c.chunking.count) return false;
  const uint32_t reducer = reducer_of(c, c.consumed);
  if (reducer == 0) {
    if (!all_staged(c, c.consumed) || !reduce_for_all(c, c.consumed)) return false;
  } else if (!(reducer & kReduced)) {
    return false;
  } else if (!c.memory && reducer != (kReduced | (own + 1))) {
    const Chunk k = chunk_of(c, c.consumed);
    copy(c, out_row(c, k, 0), staged_row(c, k, static_cast<uint32_t>(c.consumed % members), 0),
         k.bytes);
  }
  count_consumed(c);
  return true;
}

// Counts as freed the chunks that all members have consumed.
void reclaim(CallState& c) {
  const uint32_t own = c.channel.own();
  const auto needed = [&](uint32_t m) {
    if (m == own) return c.chunks_to_consume() > 0 && c.consumed <= c.freed;
    PeerState& peer = c.peers[m];
    if (peer.consumed <= c.freed)
      peer.consumed = peer.header().consumed.load(std::memory_order_acquire);
    return peer.consumed <= c.freed;
  };
  while (c.not_started == 0 && c.freed < c.staged) {
    for (uint32_t m = 0; m < c.channel.size(); ++m)
      if (needed(m)) return;
    c.free_slots.push_back(c.slots[c.freed++]);
  }
}

// One whose chunk nobody needs any more, still in the caches when ranks run side by side; else one
// not used yet.
uint32_t slot_for_next(CallState& c) {
  reclaim(c);
  if (c.free_slots.empty()) return c.fresh_slot++;
  const uint32_t slot = c.free_slots.back();
  c.free_slots.pop_back();
  return slot;
}

}  // namespace

void stage(CallState& c) {
  const uint32_t own = c.channel.own(), members = c.channel.size();
  const Chunk k = chunk_of(c, c.staged);
  StagingHeader& header = c.peers[own].header();
  if (c.many()) {
    c.slots[k.number] = slot_for_next(c);
    header.slots()[k.number].store(c.slots[k.number], std::memory_order_relaxed);
  }
  if (!c.chunking.per_peer)
    std::memcpy(staged_row(c, k, own, 0), in_row(c, k, 0), k.bytes);
  else
    for (uint32_t m = 0; m < members; ++m)
      if (m != own) std::memcpy(staged_row(c, k, own, row_for(m, own)), in_row(c, k, m), k.bytes);
  ++c.staged;
  if (!c.many()) return;
  header.staged = c.staged;
  c.channel.wake_others();
}

bool step(CallState& c) {
  if (c.not_started > 0 && !c.channel.match(c)) return false;
  if (c.chunking.reduce_once) return step_reduce_once(c);
  if (c.consumed == c.chunks_to_consume() || !all_staged(c, c.consumed)) return false;
  consume_chunk(c, chunk_of(c, c.consumed));
  count_consumed(c);
  return true;
}

std::vector<bool> awaited(const CallState& c) {
  std::vector<bool> ranks(c.channel.endpoint().members().size);
  for (uint32_t m = 0; m < c.channel.size(); ++m) {
    if (m == c.channel.own()) continue;
    const PeerState& peer = c.peers[m];
    bool awaited = !peer.memory;
    if (peer.memory && c.not_started == 0) {
      if (c.many() && c.stages(m)) awaited = peer.header().staged <= c.consumed;
      if (c.chunking.reduce_once && c.consumed < c.chunking.count)
        awaited = awaited || reducer_of(c, c.consumed) == m + 1;
    }
    ranks[c.channel.rank(m)] = awaited;
  }
  return ranks;
}

}  // namespace plait::comm_shm
