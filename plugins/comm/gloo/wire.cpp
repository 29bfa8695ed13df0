#include "plugins/comm/gloo/wire.hpp"

#include <gloo/transport/pair.h>
#include <gloo/transport/unbound_buffer.h>
#include <sys/socket.h>

#include <algorithm>

#include "plugins/comm/gloo/sigpipe.hpp"

namespace plait::comm_gloo {
namespace {

// A closed connection must be seen this often before the peer counts as dead: Gloo may still be busy with its last words.
constexpr int kLooks = 3;
constexpr uint64_t kFarewell = 1;  // slot of the last message; those of calls are larger

}  // namespace

Wire::Wire(const comm_support::Members& members,
           std::shared_ptr<::gloo::transport::Context> context, std::vector<Fd> ends)
    : members_(members),
      ends_(std::move(ends)),
      context_(std::move(context)),
      farewells_(members.size) {
  expect_farewells();
}

Wire::~Wire() {
  const SigpipeBlock block;
  farewell_buffers_.clear();
  context_.reset();
}

void Wire::expect_farewells() {
  for (uint32_t r = 0; r < members_.size; ++r) {
    if (r == members_.rank) continue;
    farewell_buffers_.push_back(context_->createUnboundBuffer(&farewells_[r], 1));
    farewell_buffers_.back()->recv(static_cast<int>(r), kFarewell, 0, 1);
  }
}

bool Wire::farewell_of(uint32_t rank) const {
  return std::atomic_ref(const_cast<char&>(farewells_[rank])).load() != 0;
}

void Wire::say_farewell() noexcept {
  if (failed_) return;
  char farewell = 1;
  for (uint32_t r = 0; r < members_.size; ++r) {
    if (r == members_.rank) continue;
    try {
      const auto buffer = context_->createUnboundBuffer(&farewell, 1);
      buffer->send(static_cast<int>(r), kFarewell, 0, 1);
      buffer->waitSend(std::chrono::milliseconds(100));
    } catch (const std::exception&) {  // nobody is there to hear it
    }
  }
}

void Wire::throw_failure() const {
  const std::lock_guard lock(mutex_);
  fail(PLAIT_ERR_PEER, failure_);
}

void Wire::fail_all(std::string text) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (failed_) return;
    failure_ = std::move(text);
    failed_ = true;
    for (Exchange* exchange : under_way_)
      for (Exchange::Message& message : exchange->messages_) message.wake();
  }
  // Breaks every pair: the other ranks notice, and nothing more comes in.
  for (const Fd& end : ends_)
    if (end) shutdown(end.get(), SHUT_RDWR);
}

void Wire::nudge() noexcept {
  const std::lock_guard lock(mutex_);
  for (Exchange* exchange : under_way_)
    if (exchange->waited_for_) exchange->waited_for_->wake();
}

Exchange::Exchange(Wire& wire, const std::string& what, Clock::time_point deadline)
    : wire_(wire), what_(what), deadline_(deadline) {
  const std::lock_guard lock(wire_.mutex_);
  wire_.under_way_.push_back(this);
}

Exchange::~Exchange() {
  std::vector<Message> last;
  const std::lock_guard lock(wire_.mutex_);
  std::erase(wire_.under_way_, this);
  messages_.swap(last);  // destroyed after the lock: Gloo's thread may hold one for a moment
}

void Exchange::send(uint32_t to, uint64_t slot, const void* memory, uint64_t bytes) {
  post(to, slot, const_cast<void*>(memory), bytes, false);
}
void Exchange::receive(uint32_t from, uint64_t slot, void* memory, uint64_t bytes) {
  post(from, slot, memory, bytes, true);
}

void Exchange::post(uint32_t peer, uint64_t slot, void* memory, uint64_t bytes, bool incoming) {
  if (bytes == 0) return;
  auto buffer = wire_.context_->createUnboundBuffer(memory, bytes);
  auto* const raw = buffer.get();
  {
    const std::lock_guard lock(wire_.mutex_);
    messages_.push_back({peer, incoming, false, std::move(buffer)});
  }
  if (wire_.failed()) wire_.throw_failure();
  try {
    if (incoming)
      raw->recv(static_cast<int>(peer), slot, 0, bytes);
    else
      raw->send(static_cast<int>(peer), slot, 0, bytes);
  } catch (const std::exception& e) {
    lost(peer, e.what());
  }
}

bool Exchange::Message::wait(std::chrono::milliseconds most) {
  if (!done) done = incoming ? buffer->waitRecv(most) : buffer->waitSend(most);
  return done;
}
void Exchange::Message::wake() { incoming ? buffer->abortWaitRecv() : buffer->abortWaitSend(); }

// Round and round, so that the loss of any peer is noticed and not only of the first that is awaited.
void Exchange::wait() {
  const auto open = [](const Message& message) { return !message.done; };
  while (std::any_of(messages_.begin(), messages_.end(), open))
    for (Message& message : messages_)
      if (!message.done) visit(message);
}

void Exchange::visit(Message& message) {
  const auto set_waited = [&](Message* waited) {
    const std::lock_guard lock(wire_.mutex_);
    waited_for_ = waited;
  };
  set_waited(&message);
  std::string broken;
  try {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now());
    message.wait(std::max(left, std::chrono::milliseconds(1)));
  } catch (const std::exception& e) {
    broken = e.what();
  }
  set_waited(nullptr);
  if (message.done) return;
  if (wire_.failed()) wire_.throw_failure();
  if (Clock::now() >= deadline_) overdue();
  if (!broken.empty()) lost(message.peer, broken);
  look_around(message);
}

// A closed connection is a death unless its rank has taken leave, and even then for whoever still waits for it.
void Exchange::look_around(const Message& awaited) {
  looked_dead_.resize(wire_.members().size);
  for (uint32_t r = 0; r < looked_dead_.size(); ++r) {
    const bool dead =
        r != wire_.members().rank && wire_.gone(r) && (r == awaited.peer || !wire_.farewell_of(r));
    looked_dead_[r] = dead ? looked_dead_[r] + 1 : 0;
    if (looked_dead_[r] >= kLooks) lost(r, "its connection is closed");
  }
}

// Peers whose message is not there yet, but for those in `besides`. Only when the group is over: asking Gloo breaks it.
std::string Exchange::missing(const std::vector<bool>& besides) {
  std::vector<bool> absent(wire_.members().size);
  for (Message& message : messages_) {
    try {
      if (message.wait(std::chrono::milliseconds(0))) continue;
    } catch (const std::exception&) {
    }
    absent[message.peer] = besides.empty() || !besides[message.peer];
  }
  return wire_.members().list([&](uint32_t r) { return absent[r]; });
}

void Exchange::overdue() {
  end_with("timed out; missing: " + missing({}) + ", or it started another call");
}

void Exchange::lost(uint32_t peer, const std::string& why) {
  if (wire_.failed()) wire_.throw_failure();
  std::vector<bool> gone(wire_.members().size);
  for (uint32_t r = 0; r < gone.size(); ++r)
    gone[r] = r == peer || (r != wire_.members().rank && wire_.gone(r));
  const std::string others = missing(gone);
  end_with("lost " + wire_.members().list([&](uint32_t r) { return gone[r]; }) + ": " + why +
           (others.empty() ? "" : "; missing: " + others));
}

void Exchange::end_with(const std::string& text) {
  wire_.fail_all(wire_.members().head() + ": " + what_ + " " + text);
  wire_.throw_failure();
}

}  // namespace plait::comm_gloo
