#include "engine/runtime/control/connection.hpp"

#include <poll.h>

#include <algorithm>

namespace plait::runtime::control {
namespace {

constexpr size_t kChunk = 16 * 1024;
constexpr size_t kMaxSent = 1 << 20;     // bytes kept after they were sent
constexpr size_t kMaxUnsent = 64 << 20;  // bytes queued for a peer that does not read

}  // namespace

short Connection::events() const {
  return static_cast<short>(out_.empty() ? POLLIN : POLLIN | POLLOUT);
}

std::string Connection::send() {
  while (sent_ < out_.size()) {
    const IoResult moved = send_some(fd(), std::string_view(out_).substr(sent_));
    if (moved.closed) return moved.why;
    if (moved.done == 0) break;
    sent_ += moved.done;
  }
  if (sent_ == out_.size() || sent_ > kMaxSent) {
    out_.erase(0, sent_);
    sent_ = 0;
  }
  return out_.size() - sent_ > kMaxUnsent ? "it does not read its messages" : "";
}

std::string Connection::receive(size_t most) {
  char chunk[kChunk];
  for (size_t left = most; left > 0;) {
    const size_t room = std::min(left, sizeof chunk);
    const IoResult moved = receive_some(fd(), chunk, room);
    if (moved.closed) return moved.why;
    reader_.add({chunk, moved.done});
    if (moved.done < room) break;
    left -= moved.done;
  }
  return "";
}

void Connection::shut() const { shutdown(fd(), SHUT_WR); }

}  // namespace plait::runtime::control
