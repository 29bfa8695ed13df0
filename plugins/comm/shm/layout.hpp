// What lies in the file that the ranks of a group share. All of it is atomic, or written by one rank at a time: before an atomic says
// that it is there and while no other may read it, or, of the group's memory, while it reduces that piece.
//
//   Control                     one, at the beginning
//     lines (R)                 how to wake a rank, and whether it is there
//     directory (R, 1 + 2 R)    where each rank's rings lie: of its collectives, then per peer of what it sends and receives
//   Ring                        what one rank has started on one channel, in order, as others find it
//   StagingHeader + data             what one rank stages for one call
//   memory (R)                  of the group, for what is exchanged in place (symmetric_buffer.hpp)
//
// Letters: R ranks, r a rank, M members of a channel.
#pragma once

#include <plait/comm.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace plait::comm_shm {

using Flag = std::atomic<uint32_t>;
using Count = std::atomic<uint64_t>;
static_assert(Flag::is_always_lock_free && Count::is_always_lock_free && sizeof(Flag) == 4 &&
                  sizeof(Count) == 8,
              "atomics must work between processes, and a futex is 4 bytes");

constexpr uint64_t kLine = 64;                // bytes that cores hand to each other
constexpr uint64_t kGranularity = 64 * 1024;  // the file grows in these: pages of any machine
constexpr uint64_t kRing = 1024;              // calls of one channel that a rank may be ahead
constexpr uint64_t kFailureBytes = 4000;      // longest failure text that is shared

constexpr uint64_t round_up(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }

// The futex on which the threads of a rank sleep.
struct alignas(kLine) FutexEvent {
  Flag sequence;  // the futex
  Flag waiters;   // threads; 0: no wake-up needed
};

enum Presence : uint32_t { kExpected, kJoined, kLeft };

struct RankState {
  FutexEvent event;
  alignas(kLine) Flag presence;
  // Written before kJoined.
  uint64_t process, pid_namespace;  // id, and the name space it is an id of
};

enum FailureState : uint32_t { kNone, kBeingWritten, kWritten };

struct Control {
  uint64_t magic, size;      // R
  alignas(kLine) Count end;  // bytes of the file that are given out
  Flag all_joined;           // 1: all members have been here
  alignas(kLine) Flag failure;
  uint32_t failure_bytes;
  char failure_text[kFailureBytes];
};
constexpr uint64_t kMagic = 0x31306d6873706c70;  // "plpshm01"

constexpr uint64_t kRankStatesAt = round_up(sizeof(Control), kLine);
constexpr uint64_t directory_at(uint64_t ranks) {
  return kRankStatesAt + ranks * sizeof(RankState);
}
constexpr uint64_t directory_width(uint64_t ranks) { return 1 + 2 * ranks; }
constexpr uint64_t control_bytes(uint64_t ranks) {
  return round_up(directory_at(ranks) + ranks * directory_width(ranks) * sizeof(Count),
                  kGranularity);
}

// What the members of a channel must agree on.
struct CallSignature {
  uint16_t kind, dtype, reduction;
  uint16_t memory;  // of the group, that the call lies in; 0: none
  uint32_t peer;
  uint32_t line;  // of that memory, where it begins
  uint64_t n;
  bool operator==(const CallSignature&) const = default;
};

// Where a buffer lies: a part of an extent of the file.
struct BufferLocation {
  uint64_t extent, extent_bytes, offset;  // of the file; of the extent
  uint32_t buffer;                        // counted by its rank
};

struct alignas(kLine) Entry {
  Count number;  // that of the call, from 1; stored last
  CallSignature signature;
  uint64_t extent, extent_bytes, offset;
  uint32_t buffer;
};
static_assert(sizeof(Entry) == kLine);

// (M) behind the entries: how many this rank has read of each member.
struct Ring {
  Entry entries[kRing];  // call i in entry i % kRing
  Count& read(uint32_t member) { return reinterpret_cast<Count*>(this + 1)[member]; }
};
constexpr uint64_t ring_bytes(uint64_t members) {
  return round_up(sizeof(Ring) + members * sizeof(Count), kGranularity);
}

// In front of the data of a buffer. (2, chunks) behind it: the slot that a chunk lies in, and who reduces it (chunks.cpp).
struct StagingHeader {
  alignas(kLine) Flag readers;  // members that may still touch the buffer
  alignas(kLine) Count staged;  // chunks that are there; not used by calls of one chunk
  Count consumed;               // chunks of the others that this rank needs no more, likewise
  Flag* slots() { return reinterpret_cast<Flag*>(this + 1); }
  Flag* reducers(uint64_t chunks) { return slots() + chunks; }
};
constexpr uint64_t head_bytes(uint64_t chunks) {
  return round_up(sizeof(StagingHeader) + 2 * chunks * sizeof(Flag), kLine);
}

}  // namespace plait::comm_shm
