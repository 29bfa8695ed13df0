#include "engine/runtime/control/door.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/runtime/control/messages.hpp"

namespace plait::runtime::control {
namespace {

constexpr size_t kMostVisitors = 64;
constexpr size_t kMostAtOnce = 512;  // bytes read from a stranger
constexpr auto kPatience = std::chrono::seconds(5);
// A rank says hello with its first packet. When there is no room, who has not for so long makes way, then who does not go on.
constexpr auto kSilentTime = std::chrono::milliseconds(50);
constexpr auto kSlowTime = std::chrono::seconds(1);
constexpr auto kRest = std::chrono::milliseconds(100);
constexpr unsigned kMostLogged = 5;
constexpr auto kLogSpan = std::chrono::seconds(10);

}  // namespace

void Complaints::log_rest() noexcept {
  char text[64];
  std::snprintf(text, sizeof text, "[control] %u more connections were refused", dropped_);
  if (dropped_ > 0) log_.warn(text);
  dropped_ = 0;
}

void Complaints::add(const std::string& text, Time now) {
  if (now - since_ > kLogSpan) {
    log_rest();
    since_ = now;
    logged_ = 0;
  }
  if (logged_ == kMostLogged) {
    ++dropped_;
    return;
  }
  ++logged_;
  log_.warn("[control] " + text);
}

Door::Door(int listener, std::string secret, std::string run, Log& log, Enter enter)
    : listener_(listener),
      secret_(std::move(secret)),
      run_(std::move(run)),
      enter_(std::move(enter)),
      complaints_(log) {
  // Who knocked may be gone when we open: that must not keep the thread waiting.
  const int flags = fcntl(listener, F_GETFL);
  if (flags < 0 || fcntl(listener, F_SETFL, flags | O_NONBLOCK) != 0)
    fail_io("[control] cannot make a listening socket non-blocking", errno);
}

bool Door::is_late(const Visitor& visitor, Time now) {
  return now >= visitor.since + limit(visitor);
}

Clock::duration Door::limit(const Visitor& visitor) {
  return visitor.greeted ? Clock::duration(kSlowTime) : Clock::duration(kSilentTime);
}

bool Door::has_room(Time now) const {
  return visitors_.size() < kMostVisitors ||
         std::any_of(visitors_.begin(), visitors_.end(),
                     [&](const Visitor& v) { return is_late(v, now); });
}

// Sends the oldest away: of those who have not even said hello, if there are any.
void Door::make_room(Time now) {
  for (const bool greeted : {false, true}) {
    const auto oldest = std::find_if(visitors_.begin(), visitors_.end(), [&](const Visitor& v) {
      return v.greeted == greeted && is_late(v, now);
    });
    if (oldest == visitors_.end()) continue;
    drop(*oldest, "made way for others, since it did not prove itself", now);
    visitors_.erase(oldest);
    return;
  }
}

void Door::watch(std::vector<pollfd>& fds, Time now) const {
  // A negative descriptor is skipped by poll().
  fds.push_back({now >= rest_until_ && has_room(now) ? listener_ : -1, POLLIN, 0});
  for (const Visitor& visitor : visitors_)
    fds.push_back({visitor.line->fd(), visitor.line->events(), 0});
}

Time Door::due(Time now) const {
  Time first = rest_until_ > Time{} ? rest_until_ : Time::max();
  const bool room = has_room(now);
  for (const Visitor& v : visitors_)
    first = std::min(first, v.since + (room ? Clock::duration(kPatience) : limit(v)));
  return first;
}

void Door::serve(const std::vector<pollfd>& fds, size_t first, Time now) {
  if (now >= rest_until_) rest_until_ = {};
  size_t at = first + 1;
  for (Visitor& visitor : visitors_) {
    const bool ready = at < fds.size() && fds[at].revents != 0;
    ++at;
    if (ready) hear(visitor, now);
    if (!visitor.gone && now - visitor.since >= kPatience)
      drop(visitor, "did not prove itself within 5 s", now);
  }
  std::erase_if(visitors_, [](const Visitor& v) { return v.gone; });
  if (first < fds.size() && fds[first].revents != 0) accept_some(now);
}

void Door::accept_some(Time now) {
  while (has_room(now)) {
    Fd fd(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      const int error = errno;
      // None left, or the one that was there is gone.
      if (error == EAGAIN || error == EINTR || error == ECONNABORTED) return;
      char reason[128] = "";
      complaints_.add(std::string("rank 0 cannot take a connection: ") +
                          strerror_r(error, reason, sizeof reason),
                      now);
      rest_until_ = now + kRest;
      return;
    }
    if (visitors_.size() >= kMostVisitors) make_room(now);
    Visitor visitor;
    visitor.from = text_of(address_of_peer(fd.get()));
    visitor.since = now;
    visitor.line = std::make_unique<Line>(std::move(fd), kMostUnproven);
    visitors_.push_back(std::move(visitor));
  }
}

void Door::drop(Visitor& visitor, const std::string& why, Time now) {
  visitor.gone = true;
  complaints_.add("dropped a connection from " + visitor.from + ": it " + why, now);
}

void Door::hear(Visitor& visitor, Time now) {
  try {
    const std::string closed = visitor.line->receive(kMostAtOnce);
    while (!visitor.gone) {
      const auto frame = visitor.line->next();
      if (!frame) break;
      if (visitor.greeted)
        admit(visitor, *frame);
      else
        answer(visitor, *frame);
    }
    if (visitor.gone) return;
    if (!closed.empty()) return drop(visitor, "went away before it had proven itself", now);
    if (!visitor.line->send().empty()) drop(visitor, "went away before it had proven itself", now);
  } catch (const Error& e) {
    drop(visitor, e.code() == PLAIT_ERR_PEER ? e.text() : "sent what is no message of ours", now);
  }
}

void Door::answer(Visitor& visitor, const Frame& frame) {
  const Hello hello = decode_hello(frame);
  Challenge& c = visitor.challenge;
  c = {run_, hello.nonce, random_bytes(kNonceSize), hello.rank, hello.size};
  visitor.line->put(encode(Greeting{c.run, c.server_nonce, proof(secret_, c, Side::kServer)}));
  visitor.greeted = true;
}

void Door::admit(Visitor& visitor, const Frame& frame) {
  if (frame.kind != Kind::kProof ||
      !same(frame.payload, proof(secret_, visitor.challenge, Side::kClient)))
    fail(PLAIT_ERR_PEER,
         strf("does not know the job's secret (it says it is rank %u)", visitor.challenge.rank));
  visitor.gone = true;
  visitor.line->trust();
  enter_(std::move(visitor.line), visitor.challenge, visitor.from);
}

}  // namespace plait::runtime::control
