#include "plugins/comm/shm/exchange.hpp"

#include "plugins/comm/shm/copy.hpp"
#include "plugins/comm/shm/pieces.hpp"

namespace plait::comm_shm {

Exchange::Exchange(End& end)
    : end_(end),
      rooms_(end.file(), end.members().size),
      memories_(end, [this](const std::string& what, uint64_t first, uint64_t second) {
        return gather(what, first, second);
      }) {}

std::unique_ptr<Call> Exchange::prepare(const plait_comm_desc& desc, const std::string& text) {
  const bool message = comm_support::point_to_point(desc.kind);
  const auto key = message ? std::pair{desc.kind, desc.peer} : std::pair{0u, 0u};
  auto found = channels_.find(key);
  if (found == channels_.end())
    found = channels_
                .emplace(std::piecewise_construct, std::forward_as_tuple(key),
                         std::forward_as_tuple(end_, rooms_, desc))
                .first;
  return std::make_unique<Call>(found->second, rooms_, desc, text, memory_of(desc));
}

void* Exchange::memory(const Host& host, uint64_t bytes) {
  void* memory = nullptr;
  or_fail_all([&] { memory = memories_.make(host, bytes); });
  return memory;
}

std::vector<uint64_t> Exchange::gather(const std::string& what, uint64_t first, uint64_t second) {
  const uint64_t own[2] = {first, second};
  std::vector<uint64_t> all(2 * end_.members().size);
  const plait_comm_desc desc{
      sizeof(plait_comm_desc), PLAIT_COMM_ALL_GATHER, PLAIT_I64, 0, 0, 2, own, all.data()};
  const auto call = prepare(desc, what);
  start(*call);
  finish(*call);
  return all;
}

// Where a call is carried out in place: only what is large, for then members must wait for each other once more.
const Memory* Exchange::memory_of(const plait_comm_desc& d) const {
  constexpr uint64_t kLarge = 256 * 1024, kMostLines = UINT32_MAX;
  const uint64_t bytes = comm_support::bytes_of(d);
  if (d.kind != PLAIT_COMM_ALL_REDUCE || d.in != d.out || bytes < kLarge) return nullptr;
  const Memory* const memory = memories_.of(d.out, bytes);
  if (!memory) return nullptr;
  const uint64_t at = memory->offset_of(d.out);
  return at % kLine == 0 && at / kLine <= kMostLines ? memory : nullptr;
}

// What fails on this rank, for whatever reason, the others would wait for in vain.
template <class F>
void Exchange::or_fail_all(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    end_.fail_all(e.what());
    throw;
  }
}

void Exchange::start(Call& call) {
  Channel& channel = call.channel;
  for (uint32_t m = 0; m < channel.size(); ++m)
    if (end_.has_left(channel.rank(m)))
      end_.fail_here(call.text + " of " + end_.members().names[end_.members().rank] +
                     " cannot start: " + end_.members().names[channel.rank(m)] + " has left");
  channel.enter(call);
  or_fail_all([&] {
    begin(call);
    hand_over(call);
  });
}

// A room, as the others expect to find it.
void Exchange::begin(Call& call) {
  const Channel& channel = call.channel;
  call.enter_room();
  call.parts.assign(channel.size(), Part{});
  call.parts[channel.own()].memory = call.room->memory;
  call.unknown = channel.size() - 1;
  call.staged = call.taken = call.freed = 0;
  call.next_own = channel.own();
  call.deadline = after(end_.timeout());
  call.free_slots.clear();
  call.fresh_slot = 0;
  RoomHead& head = call.parts[channel.own()].head();
  constexpr auto kPrivate = std::memory_order_relaxed;  // until it is announced
  head.readers.store(channel.size() - 1, kPrivate);
  if (!call.many()) return;
  if (call.memory) call.staged = call.cut.count;  // it is all there
  head.staged.store(call.staged, kPrivate);
  head.taken.store(0, kPrivate);
  if (call.cut.divided && channel.own() == 0)
    for (uint64_t i = 0; i < call.cut.count; ++i)
      head.reducers(call.cut.count)[i].store(0, kPrivate);
}

void Exchange::hand_over(Call& call) {
  const bool stages = call.stages(call.channel.own());
  if (!call.many() && call.cut.count == 1 && stages) stage(call);
  call.channel.announce(call);
  if (!call.many() || !stages) return;
  while (call.staged < call.cut.count) {
    end_.check();
    stage(call);
    while (step(call)) {  // what is in the caches now
    }
  }
}

void Exchange::finish(Call& call) {
  const auto complete = [&] {
    do end_.check();
    while (step(call));
    return call.complete();
  };
  or_fail_all([&] { end_.wait(complete, [&] { look_around(call); }); });
  if (call.many()) stream_fence();
  for (uint32_t m = 0; m < call.channel.size(); ++m)
    if (m != call.channel.own()) call.parts[m].head().readers.fetch_sub(1);
  call.leave_room();
}

// Who is gone may have done all before: so what it has done is looked at once more.
void Exchange::look_around(Call& call) {
  const comm_support::Members& members = end_.members();
  const std::vector<bool> gone = end_.gone(awaited(call));
  while (step(call)) end_.check();
  if (call.complete()) return;
  const std::vector<bool> missing = awaited(call);
  const std::string what = call.text + " of " + members.names[members.rank];
  const std::string left =
      members.list([&](uint32_t r) { return gone[r] && missing[r] && end_.has_left(r); });
  const std::string dead =
      members.list([&](uint32_t r) { return gone[r] && missing[r] && !end_.has_left(r); });
  if (!dead.empty()) end_.fail_here(what + " lost " + dead + ": its process has ended");
  if (!left.empty()) end_.fail_here(what + " waits in vain: " + left + " has left");
  if (Clock::now() < call.deadline) return;
  end_.fail_here(what +
                 " timed out; missing: " + members.list([&](uint32_t r) { return missing[r]; }));
}

}  // namespace plait::comm_shm
