#include "plugins/comm/shm/pieces.hpp"

#include <algorithm>
#include <cstring>

#include "plugins/comm/reduce.hpp"
#include "plugins/comm/shm/channel.hpp"
#include "plugins/comm/shm/copy.hpp"

namespace plait::comm_shm {
namespace {

using comm_support::row;

constexpr uint64_t kStreamed = 4 * 1024 * 1024;  // results from this size on go past the caches
constexpr uint32_t kReduced = 1u << 31;          // of a reducer's flag: it is done

// One chunk of a call's rows.
struct Chunk {
  uint64_t number, first, n, bytes;  // elements before it; in it
};
Chunk chunk_of(const Call& c, uint64_t number) {
  const uint64_t first = number * c.cut.chunk, n = std::min(c.cut.chunk, c.desc.n - first);
  return {number, first, n, n * support::dtype_bytes(c.desc.dtype)};
}
// The chunk's place in a row of the caller's tensors.
const char* in_row(const Call& c, const Chunk& k, uint64_t r) {
  return row(c.desc, c.desc.in, r) + k.first * support::dtype_bytes(c.desc.dtype);
}
char* out_row(const Call& c, const Chunk& k, uint64_t r) {
  return row(c.desc, c.desc.out, r) + k.first * support::dtype_bytes(c.desc.dtype);
}
// Row i of the chunk in a member's room.
char* shared_row(const Call& c, const Chunk& k, uint32_t member, uint64_t i) {
  const Part& part = c.parts[member];
  uint64_t slot = 0;
  if (c.many())
    slot = std::min<uint64_t>(part.head().slots()[k.number].load(std::memory_order_relaxed),
                              c.cut.count - 1);
  return part.memory + head_bytes(c.cut.count) + slot * c.cut.slot_bytes() + i * c.cut.stride;
}
// Which of a member's rows is for `reader`: it has none for itself.
uint64_t row_for(uint32_t reader, uint32_t member) { return reader < member ? reader : reader - 1; }

bool streamed(const Call& c) { return comm_support::bytes_of(c.desc) >= kStreamed; }

void copy(const Call& c, void* to, const void* from, uint64_t bytes) {
  if (to == from) return;
  if (streamed(c))
    stream(to, from, bytes);
  else
    std::memcpy(to, from, bytes);
}

// Reduces the chunk of rows(m), m a member, to `out`.
template <class Rows>
void reduce(Call& c, const Chunk& k, char* out, Rows rows) {
  constexpr uint64_t kBlock = 4096;  // bytes on their way past the caches
  const uint32_t members = c.channel.size();
  const uint64_t size = support::dtype_bytes(c.desc.dtype);
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

void take_chunk(Call& c, const Chunk& k) {
  const uint32_t own = c.channel.own(), members = c.channel.size();
  switch (c.desc.kind) {
    case PLAIT_COMM_ALL_REDUCE:
      return reduce(c, k, out_row(c, k, 0), [&](uint32_t m) {
        return m == own ? in_row(c, k, 0) : shared_row(c, k, m, 0);
      });
    case PLAIT_COMM_REDUCE_SCATTER:
      return reduce(c, k, out_row(c, k, 0), [&](uint32_t m) {
        return m == own ? in_row(c, k, own) : shared_row(c, k, m, row_for(own, m));
      });
    case PLAIT_COMM_ALL_GATHER:
      for (uint32_t m = 0; m < members; ++m)
        copy(c, out_row(c, k, m), m == own ? in_row(c, k, 0) : shared_row(c, k, m, 0), k.bytes);
      return;
    case PLAIT_COMM_ALL_TO_ALL:
      for (uint32_t m = 0; m < members; ++m)
        copy(c, out_row(c, k, m),
             m == own ? in_row(c, k, own) : shared_row(c, k, m, row_for(own, m)), k.bytes);
      return;
    case PLAIT_COMM_BROADCAST:
      return copy(c, out_row(c, k, 0),
                  own == c.desc.peer ? in_row(c, k, 0) : shared_row(c, k, c.desc.peer, 0), k.bytes);
    case PLAIT_COMM_RECEIVE:
      return copy(c, out_row(c, k, 0), shared_row(c, k, 0, 0), k.bytes);
    default:
      return;
  }
}

// Whether member m has handed chunk `number` over, as far as it has to.
bool has_staged(Call& c, uint32_t m, uint64_t number) {
  if (!c.stages(m)) return true;
  if (m == c.channel.own()) return c.staged > number;
  if (!c.many() || c.parts[m].staged > number) return true;
  c.parts[m].staged = c.parts[m].head().staged;
  return c.parts[m].staged > number;
}
bool all_staged(Call& c, uint64_t number) {
  for (uint32_t m = 0; m < c.channel.size(); ++m)
    if (!has_staged(c, m, number)) return false;
  return true;
}

void taken_one(Call& c) {
  ++c.taken;
  if (c.many()) c.parts[c.channel.own()].head().taken.store(c.taken, std::memory_order_release);
}

Flag& reducer_of(const Call& c, uint64_t number) {
  return c.parts[0].head().reducers(c.cut.count)[number];
}

// Reduces a chunk in the group's memory: pieces that stay in the nearest cache, and from there to all members.
void reduce_in_memory(Call& c, const Chunk& k) {
  constexpr uint64_t kBlock = 4096;  // bytes
  const uint32_t members = c.channel.size();
  const uint64_t size = support::dtype_bytes(c.desc.dtype),
                 at = c.memory->offset_of(c.desc.out) + k.first * size;
  alignas(kLine) char block[kBlock];
  for (uint64_t done = 0; done < k.bytes; done += kBlock) {
    const uint64_t bytes = std::min(kBlock, k.bytes - done);
    for (uint32_t m = 0; m < members; ++m) c.rows[m] = c.memory->of(m) + at + done;
    comm_support::reduce_rows(c.desc.dtype, c.desc.reduction, c.rows.data(), members, block,
                              bytes / size);
    for (uint32_t m = 0; m < members; ++m) std::memcpy(c.memory->of(m) + at + done, block, bytes);
  }
}

// Reduces a chunk for all, unless another member is at it. The result replaces what one of them, in turn, has handed over.
bool reduce_for_all(Call& c, uint64_t number) {
  const uint32_t own = c.channel.own(), members = c.channel.size();
  uint32_t nobody = 0;
  if (!reducer_of(c, number).compare_exchange_strong(nobody, own + 1)) return false;
  const Chunk k = chunk_of(c, number);
  char* const result =
      c.memory ? nullptr : shared_row(c, k, static_cast<uint32_t>(number % members), 0);
  if (c.memory) {
    reduce_in_memory(c, k);
  } else {
    for (uint32_t m = 0; m < members; ++m) c.rows[m] = shared_row(c, k, m, 0);
    comm_support::reduce_rows(c.desc.dtype, c.desc.reduction, c.rows.data(), members, result, k.n);
  }
  reducer_of(c, number) = kReduced | (own + 1);
  c.channel.wake_others();
  if (result) copy(c, out_row(c, k, 0), result, k.bytes);
  return true;
}

// The own chunks first; then the others', those that nobody has begun yet as well: so nobody waits for a member that is busy with
// something else.
bool step_divided(Call& c) {
  const uint32_t own = c.channel.own(), members = c.channel.size();
  if (c.next_own < c.cut.count && all_staged(c, c.next_own)) {
    reduce_for_all(c, c.next_own);
    c.next_own += members;
    return true;
  }
  if (c.taken == c.cut.count) return false;
  const uint32_t reducer = reducer_of(c, c.taken);
  if (reducer == 0) {
    if (!all_staged(c, c.taken) || !reduce_for_all(c, c.taken)) return false;
  } else if (!(reducer & kReduced)) {
    return false;
  } else if (!c.memory && reducer != (kReduced | (own + 1))) {
    const Chunk k = chunk_of(c, c.taken);
    copy(c, out_row(c, k, 0), shared_row(c, k, static_cast<uint32_t>(c.taken % members), 0),
         k.bytes);
  }
  taken_one(c);
  return true;
}

// Counts as freed the chunks that all members have taken.
void reclaim(Call& c) {
  const uint32_t own = c.channel.own();
  const auto needed = [&](uint32_t m) {
    if (m == own) return c.takes() > 0 && c.taken <= c.freed;
    Part& part = c.parts[m];
    if (part.taken <= c.freed) part.taken = part.head().taken.load(std::memory_order_acquire);
    return part.taken <= c.freed;
  };
  while (c.unknown == 0 && c.freed < c.staged) {
    for (uint32_t m = 0; m < c.channel.size(); ++m)
      if (needed(m)) return;
    c.free_slots.push_back(c.slots[c.freed++]);
  }
}

// One whose chunk nobody needs any more, still in the caches when ranks run side by side; else one not used yet.
uint32_t slot_for_next(Call& c) {
  reclaim(c);
  if (c.free_slots.empty()) return c.fresh_slot++;
  const uint32_t slot = c.free_slots.back();
  c.free_slots.pop_back();
  return slot;
}

}  // namespace

void stage(Call& c) {
  const uint32_t own = c.channel.own(), members = c.channel.size();
  const Chunk k = chunk_of(c, c.staged);
  RoomHead& head = c.parts[own].head();
  if (c.many()) {
    c.slots[k.number] = slot_for_next(c);
    head.slots()[k.number].store(c.slots[k.number], std::memory_order_relaxed);
  }
  if (!c.cut.addressed)
    std::memcpy(shared_row(c, k, own, 0), in_row(c, k, 0), k.bytes);
  else
    for (uint32_t m = 0; m < members; ++m)
      if (m != own) std::memcpy(shared_row(c, k, own, row_for(m, own)), in_row(c, k, m), k.bytes);
  ++c.staged;
  if (!c.many()) return;
  head.staged = c.staged;
  c.channel.wake_others();
}

bool step(Call& c) {
  if (c.unknown > 0 && !c.channel.meet(c)) return false;
  if (c.cut.divided) return step_divided(c);
  if (c.taken == c.takes() || !all_staged(c, c.taken)) return false;
  take_chunk(c, chunk_of(c, c.taken));
  taken_one(c);
  return true;
}

std::vector<bool> awaited(const Call& c) {
  std::vector<bool> ranks(c.channel.end().members().size);
  for (uint32_t m = 0; m < c.channel.size(); ++m) {
    if (m == c.channel.own()) continue;
    const Part& part = c.parts[m];
    bool awaited = !part.memory;
    if (part.memory && c.unknown == 0) {
      if (c.many() && c.stages(m)) awaited = part.head().staged <= c.taken;
      if (c.cut.divided && c.taken < c.cut.count)
        awaited = awaited || reducer_of(c, c.taken) == m + 1;
    }
    ranks[c.channel.rank(m)] = awaited;
  }
  return ranks;
}

}  // namespace plait::comm_shm
