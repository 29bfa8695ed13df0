#include "plugins/comm/gloo/peer_links.hpp"

#include <gloo/transport/pair.h>
#include <gloo/transport/unbound_buffer.h>
#include <sys/socket.h>

#include <algorithm>

#include "plugins/comm/gloo/sigpipe.hpp"

namespace plait::comm_gloo {
namespace {

// A peer counts as dead after this many polls that find its connection closed: Gloo may still be
// reading its last messages.
constexpr int kClosedPolls = 3;
constexpr uint64_t kGoodbyeSlot = 1;  // slot of the last message; slots of calls are larger

// Gloo's text of a fault, with the peer's address in place of "[127.0.0.1]:4711", the one that the
// pair was made with (pairs.hpp).
std::string with_address(std::string text, const std::string& address) {
  constexpr std::string_view kLoopback = "[127.0.0.1]:";
  const size_t at = text.find(kLoopback);
  if (at == std::string::npos) return text;
  const size_t end = text.find_first_not_of("0123456789", at + kLoopback.size());
  return text.replace(at, std::min(end, text.size()) - at, address);
}

}  // namespace

PeerLinks::PeerLinks(const comm_support::Members& members,
                     std::shared_ptr<::gloo::transport::Context> context, std::vector<Fd> sockets)
    : members_(members),
      sockets_(std::move(sockets)),
      context_(std::move(context)),
      goodbyes_(members.size) {
  for (const Fd& socket : sockets_) addresses_.push_back(socket ? text_of_peer(socket.get()) : "");
  post_goodbye_receives();
}

PeerLinks::~PeerLinks() {
  const SigpipeBlock block;
  goodbye_buffers_.clear();
  context_.reset();
}

void PeerLinks::post_goodbye_receives() {
  for (uint32_t r = 0; r < members_.size; ++r) {
    if (r == members_.rank) continue;
    goodbye_buffers_.push_back(context_->createUnboundBuffer(&goodbyes_[r], 1));
    goodbye_buffers_.back()->recv(static_cast<int>(r), kGoodbyeSlot, 0, 1);
  }
}

bool PeerLinks::said_goodbye(uint32_t rank) const {
  return std::atomic_ref(const_cast<char&>(goodbyes_[rank])).load() != 0;
}

void PeerLinks::send_goodbye() noexcept {
  if (failed_) return;
  char goodbye = 1;
  for (uint32_t r = 0; r < members_.size; ++r) {
    if (r == members_.rank) continue;
    try {
      const auto buffer = context_->createUnboundBuffer(&goodbye, 1);
      buffer->send(static_cast<int>(r), kGoodbyeSlot, 0, 1);
      buffer->waitSend(std::chrono::milliseconds(100));
    } catch (const std::exception&) {  // no peer is left to receive it
    }
  }
}

void PeerLinks::throw_failure() const {
  const std::lock_guard lock(mutex_);
  fail(PLAIT_ERR_PEER, failure_);
}

void PeerLinks::fail_all(std::string text) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (failed_) return;
    failure_ = std::move(text);
    failed_ = true;
    for (MessageBatch* batch : active_)
      for (MessageBatch::Message& message : batch->messages_) message.wake();
  }
  // Breaks every pair: the other ranks notice it, and no more data arrives.
  for (const Fd& fd : sockets_)
    if (fd) shutdown(fd.get(), SHUT_RDWR);
}

void PeerLinks::wake() noexcept {
  const std::lock_guard lock(mutex_);
  for (MessageBatch* batch : active_)
    if (batch->current_) batch->current_->wake();
}

MessageBatch::MessageBatch(PeerLinks& links, const std::string& what, Clock::time_point deadline)
    : links_(links), what_(what), deadline_(deadline) {
  const std::lock_guard lock(links_.mutex_);
  links_.active_.push_back(this);
}

MessageBatch::~MessageBatch() {
  std::vector<Message> last;
  const std::lock_guard lock(links_.mutex_);
  std::erase(links_.active_, this);
  // Destroyed after the lock is released: Gloo's thread may still hold one briefly.
  messages_.swap(last);
}

void MessageBatch::send(uint32_t to, uint64_t slot, const void* memory, uint64_t bytes) {
  post(to, slot, const_cast<void*>(memory), bytes, false);
}
void MessageBatch::receive(uint32_t from, uint64_t slot, void* memory, uint64_t bytes) {
  post(from, slot, memory, bytes, true);
}

void MessageBatch::post(uint32_t peer, uint64_t slot, void* memory, uint64_t bytes, bool incoming) {
  if (bytes == 0) return;
  auto buffer = links_.context_->createUnboundBuffer(memory, bytes);
  auto* const raw = buffer.get();
  {
    const std::lock_guard lock(links_.mutex_);
    messages_.push_back({peer, incoming, false, std::move(buffer)});
  }
  if (links_.failed()) links_.throw_failure();
  try {
    if (incoming)
      raw->recv(static_cast<int>(peer), slot, 0, bytes);
    else
      raw->send(static_cast<int>(peer), slot, 0, bytes);
  } catch (const std::exception& e) {
    lost(peer, e.what());
  }
}

bool MessageBatch::Message::wait(std::chrono::milliseconds most) {
  if (!done) done = incoming ? buffer->waitRecv(most) : buffer->waitSend(most);
  return done;
}
void MessageBatch::Message::wake() { incoming ? buffer->abortWaitRecv() : buffer->abortWaitSend(); }

// Waits for the peers in rotation, so that the loss of any peer is noticed, not only of the first
// one in the list.
void MessageBatch::wait() {
  const auto open = [](const Message& message) { return !message.done; };
  while (std::any_of(messages_.begin(), messages_.end(), open))
    for (Message& message : messages_)
      if (!message.done) wait_for(message);
}

void MessageBatch::wait_for(Message& message) {
  const auto set_waited = [&](Message* waited) {
    const std::lock_guard lock(links_.mutex_);
    current_ = waited;
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
  if (links_.failed()) links_.throw_failure();
  if (Clock::now() >= deadline_) overdue();
  if (!broken.empty()) lost(message.peer, broken);
  poll_peers(message);
}

// A closed connection means that the peer died, unless its rank has said goodbye and no message
// from it is awaited.
void MessageBatch::poll_peers(const Message& awaited) {
  closed_polls_.resize(links_.members().size);
  for (uint32_t r = 0; r < closed_polls_.size(); ++r) {
    const bool dead = r != links_.members().rank && links_.gone(r) &&
                      (r == awaited.peer || !links_.said_goodbye(r));
    closed_polls_[r] = dead ? closed_polls_[r] + 1 : 0;
    if (closed_polls_[r] >= kClosedPolls) lost(r, "its connection is closed");
  }
}

// Peers whose message has not arrived, except the peers in `besides`. Call it only when the group
// has failed: asking Gloo breaks the group.
std::string MessageBatch::missing(const std::vector<bool>& besides) {
  std::vector<bool> absent(links_.members().size);
  for (Message& message : messages_) {
    try {
      if (message.wait(std::chrono::milliseconds(0))) continue;
    } catch (const std::exception&) {
    }
    absent[message.peer] = besides.empty() || !besides[message.peer];
  }
  return links_.members().list([&](uint32_t r) { return absent[r]; });
}

void MessageBatch::overdue() {
  fail_group("timed out; missing: " + missing({}) + ", or it started another call");
}

void MessageBatch::lost(uint32_t peer, const std::string& why) {
  if (links_.failed()) links_.throw_failure();
  std::vector<bool> gone(links_.members().size);
  for (uint32_t r = 0; r < gone.size(); ++r)
    gone[r] = r == peer || (r != links_.members().rank && links_.gone(r));
  const std::string others = missing(gone);
  fail_group("lost " + links_.members().list([&](uint32_t r) { return gone[r]; }) + ": " +
             with_address(why, links_.addresses_[peer]) +
             (others.empty() ? "" : "; missing: " + others));
}

void MessageBatch::fail_group(const std::string& text) {
  links_.fail_all(links_.members().head() + ": " + what_ + " " + text);
  links_.throw_failure();
}

}  // namespace plait::comm_gloo
