// The layout of the file that the ranks of a group share. Every word is either atomic or written by
// one rank at a time: before an atomic announces it and while no other rank may read it; in
// symmetric memory, while that rank reduces the chunk.
//
//   Control                     one, at the start of the file
//     rank states (R)           how to wake a rank, and whether it has joined
//     directory (R, 1 + 2 R)    offsets of each rank's rings: one for collectives, then one for
//                               sends and one for receives per peer
//   Ring                        the calls that one rank has started on one channel, in order
//   StagingHeader + data        the data that one rank stages for one call
//   memory (R)                  symmetric memory for calls in place (symmetric_buffer.hpp)
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

constexpr uint64_t kLine = 64;  // a cache line: the unit that cores transfer
// The file grows in these steps: whole pages on any machine.
constexpr uint64_t kGranularity = 64 * 1024;
// A rank may have kMostUnderWay calls of a channel under way. What it has finished all members have
// started; a member has read the calls that it has finished itself, which are all but kMostUnderWay
// of those. So no rank is more than twice as many calls ahead of what another has read.
constexpr uint64_t kMostUnderWay = 1024, kRing = 2 * kMostUnderWay;
constexpr uint64_t kKeyBytes = 32;        // hexadecimal digits
constexpr uint64_t kFailureBytes = 4000;  // longest failure text that is shared

constexpr uint64_t round_up(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }

// The futex on which the threads of a rank sleep.
struct alignas(kLine) FutexEvent {
  Flag sequence;  // the futex word
  Flag waiters;   // waiting threads; 0: no wake-up needed
};

enum Presence : uint32_t { kExpected, kJoined, kLeft };

struct RankState {
  FutexEvent event;
  alignas(kLine) Flag presence;
  // Written before kJoined.
  uint64_t process, pid_namespace;  // process id and its PID namespace
};

enum FailureState : uint32_t { kNone, kBeingWritten, kWritten };

struct Control {
  uint64_t magic, size;      // R
  char key[kKeyBytes];       // of the group, which no other file has; written by rank 0 at first
  alignas(kLine) Count end;  // bytes of the file that are allocated
  Flag all_joined;           // 1: all members have joined
  alignas(kLine) Flag failure;
  uint32_t failure_bytes;
  char failure_text[kFailureBytes];
};
constexpr uint64_t kMagic = 0x33306d6873706c70;  // "plpshm03"

constexpr uint64_t kRankStatesAt = round_up(sizeof(Control), kLine);
constexpr uint64_t directory_at(uint64_t ranks) {
  return kRankStatesAt + ranks * sizeof(RankState);
}
constexpr uint64_t directory_width(uint64_t ranks) { return 1 + 2 * ranks; }
constexpr uint64_t control_bytes(uint64_t ranks) {
  return round_up(directory_at(ranks) + ranks * directory_width(ranks) * sizeof(Count),
                  kGranularity);
}

// The properties on which the members of a channel must agree.
struct CallSignature {
  uint16_t kind, dtype, reduction;
  uint16_t memory;  // number of the symmetric memory that the call runs in; 0: none
  uint32_t peer;
  uint32_t line;  // offset in that memory, in cache lines
  uint64_t n;
  bool operator==(const CallSignature&) const = default;
};

// The location of a buffer: a part of an extent of the file.
struct BufferLocation {
  uint64_t extent, extent_bytes, offset;  // offset in the file; size; offset in the extent
  uint32_t buffer;                        // number of the buffer on its rank
};

struct alignas(kLine) Entry {
  Count number;  // number of the call, from 1; stored last
  CallSignature signature;
  uint64_t extent, extent_bytes, offset;
  uint32_t buffer;
};
static_assert(sizeof(Entry) == kLine);

struct Ring {
  Entry entries[kRing];  // call i in entry i % kRing
};
constexpr uint64_t kRingBytes = round_up(sizeof(Ring), kGranularity);

// Precedes the data of a buffer. After it (2, chunks) words: the slot of each chunk, and the rank
// that reduces it (chunks.cpp).
struct StagingHeader {
  alignas(kLine) Flag readers;  // members that may still touch the buffer
  alignas(kLine) Count staged;  // chunks that are staged; not used by calls of one chunk
  Count consumed;               // chunks of the others that this rank no longer needs; likewise
  Flag* slots() { return reinterpret_cast<Flag*>(this + 1); }
  Flag* reducers(uint64_t chunks) { return slots() + chunks; }
};
constexpr uint64_t head_bytes(uint64_t chunks) {
  return round_up(sizeof(StagingHeader) + 2 * chunks * sizeof(Flag), kLine);
}

}  // namespace plait::comm_shm
