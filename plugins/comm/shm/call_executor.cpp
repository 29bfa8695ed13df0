#include "plugins/comm/shm/call_executor.hpp"

#include "plugins/comm/shm/chunks.hpp"
#include "plugins/comm/shm/copy.hpp"

namespace plait::comm_shm {

CallExecutor::CallExecutor(GroupEndpoint& endpoint)
    : endpoint_(endpoint),
      staging_(endpoint.file(), endpoint.members().size),
      symmetric_(endpoint, [this](const std::string& what, uint64_t first, uint64_t second) {
        return gather(what, first, second);
      }) {}

std::unique_ptr<CallState> CallExecutor::prepare(const plait_comm_desc& desc,
                                                 const std::string& text) {
  const bool message = comm_support::point_to_point(desc.kind);
  const auto key = message ? std::pair{desc.kind, desc.peer} : std::pair{0u, 0u};
  auto found = channels_.find(key);
  if (found == channels_.end())
    found = channels_
                .emplace(std::piecewise_construct, std::forward_as_tuple(key),
                         std::forward_as_tuple(endpoint_, staging_, desc))
                .first;
  return std::make_unique<CallState>(found->second, staging_, desc, text, symmetric_operand(desc));
}

void* CallExecutor::memory(const Host& host, uint64_t bytes) {
  void* memory = nullptr;
  fail_group_on_error([&] { memory = symmetric_.make(host, bytes); });
  return memory;
}

std::vector<uint64_t> CallExecutor::gather(const std::string& what, uint64_t first,
                                           uint64_t second) {
  const uint64_t own[2] = {first, second};
  std::vector<uint64_t> all(2 * endpoint_.members().size);
  const plait_comm_desc desc{
      sizeof(plait_comm_desc), PLAIT_COMM_ALL_GATHER, PLAIT_I64, 0, 0, 2, own, all.data()};
  const auto call = prepare(desc, what);
  start(*call);
  finish(*call);
  return all;
}

// The symmetric memory that the call is executed in, or NULL. Only large calls run in place,
// because it costs the members one more synchronisation.
const SymmetricBuffer* CallExecutor::symmetric_operand(const plait_comm_desc& d) const {
  constexpr uint64_t kLarge = 256 * 1024, kMaxLines = UINT32_MAX;
  const uint64_t bytes = comm_support::bytes_of(d);
  if (d.kind != PLAIT_COMM_ALL_REDUCE || d.in != d.out || bytes < kLarge) return nullptr;
  const SymmetricBuffer* const memory = symmetric_.of(d.out, bytes);
  if (!memory) return nullptr;
  const uint64_t at = memory->offset_of(d.out);
  return at % kLine == 0 && at / kLine <= kMaxLines ? memory : nullptr;
}

// Any error on this rank ends the group, since the other ranks would otherwise wait until the
// time-out.
template <class F>
void CallExecutor::fail_group_on_error(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    endpoint_.fail_all(e.what());
    throw;
  }
}

void CallExecutor::start(CallState& call) {
  Channel& channel = call.channel;
  for (uint32_t m = 0; m < channel.size(); ++m)
    if (endpoint_.has_left(channel.rank(m)))
      endpoint_.fail_here(call.text + " of " + endpoint_.members().names[endpoint_.members().rank] +
                          " cannot start: " + endpoint_.members().names[channel.rank(m)] +
                          " has left the group");
  channel.enter(call);
  fail_group_on_error([&] {
    init_execution(call);
    stage_input(call);
  });
}

// Resets the buffer to the state that the other members expect.
void CallExecutor::init_execution(CallState& call) {
  const Channel& channel = call.channel;
  call.acquire_buffer();
  call.peers.assign(channel.size(), PeerState{});
  call.peers[channel.own()].memory = call.buffer->memory;
  call.not_started = channel.size() - 1;
  call.staged = call.consumed = call.freed = 0;
  call.next_to_reduce = channel.own();
  call.deadline = after(endpoint_.timeout());
  call.free_slots.clear();
  call.fresh_slot = 0;
  StagingHeader& header = call.peers[channel.own()].header();
  constexpr auto kPrivate = std::memory_order_relaxed;  // until it is announced
  header.readers.store(channel.size() - 1, kPrivate);
  if (!call.many()) return;
  if (call.memory) call.staged = call.chunking.count;  // all data is in place already
  header.staged.store(call.staged, kPrivate);
  header.consumed.store(0, kPrivate);
  if (call.chunking.reduce_once && channel.own() == 0)
    for (uint64_t i = 0; i < call.chunking.count; ++i)
      header.reducers(call.chunking.count)[i].store(0, kPrivate);
}

void CallExecutor::stage_input(CallState& call) {
  const bool stages = call.stages(call.channel.own());
  if (!call.many() && call.chunking.count == 1 && stages) stage(call);
  call.channel.announce(call);
  if (!call.many() || !stages) return;
  while (call.staged < call.chunking.count) {
    endpoint_.check();
    stage(call);
    while (step(call)) {  // chunks that are in the caches now
    }
  }
}

void CallExecutor::finish(CallState& call) {
  const auto complete = [&] {
    do endpoint_.check();
    while (step(call));
    return call.complete();
  };
  fail_group_on_error([&] { endpoint_.wait(complete, [&] { poll_peers(call); }); });
  call.channel.leave();
  if (call.many()) stream_fence();
  for (uint32_t m = 0; m < call.channel.size(); ++m)
    if (m != call.channel.own()) call.peers[m].header().readers.fetch_sub(1);
  call.release_buffer();
}

// A rank that is gone may have finished its work before, so the call makes progress once more
// before it fails.
void CallExecutor::poll_peers(CallState& call) {
  const comm_support::Members& members = endpoint_.members();
  const std::vector<bool> gone = endpoint_.gone(awaited(call));
  while (step(call)) endpoint_.check();
  if (call.complete()) return;
  const std::vector<bool> missing = awaited(call);
  const std::string what = call.text + " of " + members.names[members.rank];
  const std::string left =
      members.list([&](uint32_t r) { return gone[r] && missing[r] && endpoint_.has_left(r); });
  const std::string dead =
      members.list([&](uint32_t r) { return gone[r] && missing[r] && !endpoint_.has_left(r); });
  if (!dead.empty()) endpoint_.fail_here(what + " lost " + dead + ": its process has ended");
  if (!left.empty()) endpoint_.fail_here(what + " cannot finish: " + left + " has left the group");
  if (Clock::now() < call.deadline) return;
  endpoint_.fail_here(
      what + " timed out; missing: " + members.list([&](uint32_t r) { return missing[r]; }));
}

}  // namespace plait::comm_shm
