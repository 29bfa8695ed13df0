#include "plugins/comm/shm/call_state.hpp"

#include <algorithm>

#include "kit/dtype.hpp"
#include "plugins/comm/shm/channel.hpp"

namespace plait::comm_shm {
namespace {

// A chunk, its copies and its result together lie in the cache next to a core.
constexpr uint64_t kChunkBytes = 256 * 1024, kLeastRowBytes = 4096;
constexpr uint64_t kOwnBufferBytes = 64 * 1024;  // up to here a call has staging buffers of its own
// In the group's memory the same chunk of all members.
constexpr uint64_t kMemoryChunkBytes = 64 * 1024;

}  // namespace

Chunking::Chunking(const plait_comm_desc& d, uint32_t members, bool in_memory) {
  const uint64_t size = std::max<uint64_t>(kit::dtype_bytes(d.dtype), 1);
  if (in_memory) {
    per_peer = false;
    chunk = kMemoryChunkBytes / size;
    count = (d.n + chunk - 1) / chunk;
    rows = stride = 0;
    reduce_once = true;
    return;
  }
  per_peer = d.kind == PLAIT_COMM_REDUCE_SCATTER || d.kind == PLAIT_COMM_ALL_TO_ALL;
  rows = per_peer ? members - 1 : 1;
  chunk = round_up(std::max(kChunkBytes / rows, kLeastRowBytes) / size, kLine);
  if (chunk >= d.n) chunk = d.n;
  count = d.n == 0 ? 0 : (d.n + chunk - 1) / chunk;
  stride = round_up(chunk * size, kLine);
  reduce_once = d.kind == PLAIT_COMM_ALL_REDUCE && members > 2 && count > 1;
}

CallState::CallState(Channel& on, StagingBuffers& from, const plait_comm_desc& d, std::string what,
                     const SymmetricBuffer* in)
    : channel(on),
      pool(from),
      desc(d),
      text(std::move(what)),
      memory(in),
      chunking(d, on.size(), in),
      peers(on.size()),
      rows(on.size()) {
  slots.resize(chunking.count);
  free_slots.reserve(chunking.count);
  if (buffer_bytes() > kOwnBufferBytes) {
    pool.reserve(buffer_bytes());
    return;
  }
  own_buffers.reserve(2);
  while (own_buffers.size() < 2) own_buffers.push_back(&pool.take(buffer_bytes()));
}

CallState::~CallState() {
  release_buffer();
  for (StagingBuffer* one : own_buffers) pool.give_back(*one);
}

uint64_t CallState::buffer_bytes() const {
  return head_bytes(chunking.count) + bytes_of(channel.own());
}

bool CallState::stages(uint32_t member) const {
  switch (desc.kind) {
    case PLAIT_COMM_BARRIER:
      return false;
    case PLAIT_COMM_SEND:
    case PLAIT_COMM_RECEIVE:
      return member == 0;
    case PLAIT_COMM_BROADCAST:
      return member == desc.peer;
    default:
      return true;
  }
}

uint64_t CallState::chunks_to_consume() const {
  const bool copies_itself = desc.kind == PLAIT_COMM_BROADCAST && channel.own() == desc.peer;
  const bool nothing = desc.kind == PLAIT_COMM_SEND || (copies_itself && desc.in == desc.out);
  return nothing ? 0 : chunking.count;
}

void CallState::acquire_buffer() {
  for (size_t i = 0; i < own_buffers.size(); ++i) {
    last = (last + 1) % own_buffers.size();
    buffer = own_buffers[last];
    if (buffer->free()) return;
  }
  buffer = &pool.take(buffer_bytes());
  if (own_buffers.empty()) return;
  own_buffers.push_back(buffer);
  last = own_buffers.size() - 1;
}

void CallState::release_buffer() {
  if (buffer && own_buffers.empty()) pool.give_back(*buffer);
  buffer = nullptr;
}

}  // namespace plait::comm_shm
