// The state of one call on one rank.
#pragma once

#include <string>
#include <vector>

#include "plugins/comm/call.hpp"
#include "plugins/comm/shm/futex_event.hpp"
#include "plugins/comm/shm/staging_buffers.hpp"
#include "plugins/comm/shm/symmetric_buffer.hpp"

namespace plait::comm_shm {

class Channel;

// How a call is split: chunks of rows. Derived from parameters on which all members agree, so it is
// the same on every rank.
struct Chunking {
  bool per_peer;     // each other member gets its own row, else all get the same one
  uint64_t rows;     // rows that a rank stages: 1, or one for each other member
  uint64_t chunk;    // elements of one row
  uint64_t stride;   // bytes of one row of a chunk
  uint64_t count;    // chunks
  bool reduce_once;  // all_reduce: each chunk is reduced by one member and copied by the others

  // in_memory: the call runs in symmetric memory, so nothing is staged.
  Chunking(const plait_comm_desc& desc, uint32_t members, bool in_memory);
  uint64_t slot_bytes() const { return rows * stride; }
};

// The progress of a member in a call, as this rank knows it.
struct PeerState {
  char* memory = nullptr;             // its buffer; NULL: it has not started the call
  uint64_t staged = 0, consumed = 0;  // as last read
  StagingHeader& header() const { return *reinterpret_cast<StagingHeader*>(memory); }
};

struct CallState {
  // Takes staging buffers. in: the symmetric memory that the call runs in, or NULL.
  CallState(Channel& on, StagingBuffers& from, const plait_comm_desc& d, std::string what,
            const SymmetricBuffer* in);
  ~CallState();
  CallState(const CallState&) = delete;
  CallState& operator=(const CallState&) = delete;

  // Whether a member stages data; bytes of its buffer after the header.
  bool stages(uint32_t member) const;
  uint64_t bytes_of(uint32_t member) const {
    return stages(member) ? chunking.count * chunking.slot_bytes() : 0;
  }
  uint64_t chunks_to_consume() const;  // chunks that this rank reduces or copies
  bool many() const { return chunking.count > 1; }
  bool complete() const { return not_started == 0 && consumed == chunks_to_consume(); }
  uint64_t buffer_bytes() const;
  // Takes a buffer that no rank uses any more; returns it, though other ranks may still be reading
  // it.
  void acquire_buffer();
  void release_buffer();

  Channel& channel;
  StagingBuffers& pool;
  const plait_comm_desc desc;
  const std::string text;  // for messages
  const SymmetricBuffer* const memory;
  const Chunking chunking;

  // Buffers of a small call: two, so that it can start while other ranks still use one. Large calls
  // share theirs.
  std::vector<StagingBuffer*> own_buffers;
  size_t last = 0;  // index of the buffer used last

  // State of one execution.
  StagingBuffer* buffer = nullptr;
  uint64_t number = 0;  // number of the call on its channel
  Clock::time_point deadline;
  std::vector<PeerState> peers;  // (M)
  uint32_t not_started = 0;      // members that have not started the call
  uint64_t staged = 0;           // chunks this rank has staged
  uint64_t consumed = 0;         // chunks this rank has consumed
  uint64_t next_to_reduce = 0;   // reduce_once: the next chunk that this rank is to reduce
  // Slots of the buffer: the chunk in each slot, the free slots, and how many of the first chunks
  // no rank needs any more.
  std::vector<uint32_t> slots, free_slots;
  uint64_t freed = 0;
  uint32_t fresh_slot = 0;
  std::vector<const void*> rows;  // (M) scratch
};

}  // namespace plait::comm_shm
