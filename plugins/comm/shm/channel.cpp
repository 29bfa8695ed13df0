#include "plugins/comm/shm/channel.hpp"

#include <algorithm>

namespace plait::comm_shm {

using comm_support::point_to_point;

namespace {

CallSignature signature_of(const CallState& c) {
  const auto small = [](uint32_t v) { return static_cast<uint16_t>(v); };
  const plait_comm_desc& d = c.desc;
  CallSignature s{small(d.kind), small(d.dtype), small(d.reduction), 0, d.peer, 0, d.n};
  if (!c.memory) return s;
  s.memory = small(c.memory->number());
  s.line = static_cast<uint32_t>(c.memory->offset_of(d.out) / kLine);
  return s;
}

// Messages must agree in type and extent at both ends, collectives in everything.
bool agree(const CallState& c, const CallSignature& other) {
  if (point_to_point(c.desc.kind)) return c.desc.dtype == other.dtype && c.desc.n == other.n;
  return signature_of(c) == other;
}

// "all_reduce of 100000 f32 (sum) at byte 64 of memory 1".
std::string placed(std::string text, const CallSignature& s) {
  if (s.memory == 0) return text;
  return text + " at byte " + std::to_string(s.line * kLine) + " of memory " +
         std::to_string(s.memory);
}

}  // namespace

Channel::Channel(GroupEndpoint& endpoint, StagingBuffers& staging, const plait_comm_desc& desc)
    : endpoint_(endpoint), staging_(staging) {
  const auto& group = endpoint.members();
  if (point_to_point(desc.kind)) {
    const bool sends = desc.kind == PLAIT_COMM_SEND;
    const uint32_t from = sends ? group.rank : desc.peer, to = sends ? desc.peer : group.rank;
    members_ = {{from, 1 + 2 * to, nullptr, 0}, {to, 2 + 2 * from, nullptr, 0}};
    own_ = sends ? 0 : 1;
  } else {
    for (uint32_t r = 0; r < group.size; ++r) members_.push_back({r, 0, nullptr, 0});
    own_ = group.rank;
  }
  File& file = endpoint.file();
  const uint64_t at = file.grow(kRingBytes);
  ring_ = reinterpret_cast<Ring*>(file.map(at, kRingBytes));
  file.directory(group.rank, members_[own_].ring_index) = at;
}

Ring* Channel::ring_of(const Member& member) {
  File& file = endpoint_.file();
  const uint64_t at = file.directory(member.rank, member.ring_index);
  return at == 0 ? nullptr : reinterpret_cast<Ring*>(file.map(at, kRingBytes));
}

void Channel::enter(CallState& call) {
  if (under_way_ == kMostUnderWay)
    fail(PLAIT_ERR_STATE, endpoint_.members().head() + ": more than " +
                              std::to_string(kMostUnderWay) +
                              " calls are under way at once; finish some before you start more");
  ++under_way_;
  call.number = next_++;
  calls_[call.number % kRing] = &call;
}

void Channel::announce(const CallState& call) {
  const BufferLocation& location = call.buffer->location;
  Entry& entry = ring_->entries[call.number % kRing];
  entry.signature = signature_of(call);
  entry.extent = location.extent;
  entry.extent_bytes = location.extent_bytes;
  entry.offset = location.offset;
  entry.buffer = location.buffer;
  entry.number = call.number + 1;
  wake_others();
}

void Channel::wake_others() const noexcept {
  for (uint32_t m = 0; m < size(); ++m)
    if (m != own_) endpoint_.wake(members_[m].rank);
}

bool Channel::match(const CallState& call) {
  for (uint32_t m = 0; m < size(); ++m)
    if (m != own_ && members_[m].read <= call.number) read(members_[m], m);
  return call.not_started == 0;
}

void Channel::read(Member& member, uint32_t index) {
  if (!member.ring && !(member.ring = ring_of(member))) return;
  for (; member.read < next_; ++member.read) {
    const Entry& entry = member.ring->entries[member.read % kRing];
    if (entry.number != member.read + 1) break;
    endpoint_.check();  // the announced calls are still there afterwards
    CallState& call = *calls_[member.read % kRing];
    if (!agree(call, entry.signature)) disagree(call, member.rank, entry.signature);
    const BufferLocation buffer{entry.extent, entry.extent_bytes, entry.offset, entry.buffer};
    const uint64_t bytes = head_bytes(call.chunking.count) + call.bytes_of(index);
    call.peers[index] = {staging_.find(member.rank, buffer, bytes)};
    --call.not_started;
  }
}

void Channel::disagree(const CallState& call, uint32_t rank, const CallSignature& other) {
  const auto& group = endpoint_.members();
  plait_comm_desc theirs{};
  theirs.kind = other.kind;
  theirs.dtype = other.dtype;
  theirs.reduction = other.reduction;
  theirs.peer = std::min(other.peer, group.size - 1);
  theirs.n = other.n;
  endpoint_.fail_here(
      group.names[group.rank] + " started " + placed(call.text, signature_of(call)) + ", but " +
      group.names[rank] + " " + placed(group.describe_call(theirs), other) +
      (point_to_point(call.desc.kind) ? "; both ends must name the same"
                                      : "; all ranks must start the same calls in the same order"));
}

}  // namespace plait::comm_shm
