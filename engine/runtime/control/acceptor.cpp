#include "engine/runtime/control/acceptor.hpp"

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

constexpr size_t kMaxPending = 64;
constexpr size_t kMaxAtOnce = 512;  // bytes read from an unauthenticated connection
// A rank sends its hello with its first packet. When all slots are taken, connections that have
// sent none for this long are dropped first, then those that have stalled.
constexpr auto kSilentTime = std::chrono::milliseconds(50);
constexpr auto kSlowTime = std::chrono::seconds(1);
constexpr auto kAcceptPause = std::chrono::milliseconds(100);
constexpr unsigned kMaxLogged = 5;
constexpr auto kLogSpan = std::chrono::seconds(10);

}  // namespace

void RateLimitedLog::log_rest() noexcept {
  char text[64];
  std::snprintf(text, sizeof text, "[control] %u more connections were refused", dropped_);
  if (dropped_ > 0) log_.warn(text);
  dropped_ = 0;
}

void RateLimitedLog::add(const std::string& text, Time now) {
  if (now - since_ > kLogSpan) {
    log_rest();
    since_ = now;
    logged_ = 0;
  }
  if (logged_ == kMaxLogged) {
    ++dropped_;
    return;
  }
  ++logged_;
  log_.warn("[control] " + text);
}

Acceptor::Acceptor(int listener, kit::Secret secret, std::string run, double timeout, Log& log,
                   OnAdmitted on_admitted)
    : listener_(listener),
      secret_(std::move(secret)),
      run_(std::move(run)),
      timeout_(timeout),
      on_admitted_(std::move(on_admitted)),
      refusal_log_(log) {
  // The peer may be gone before accept(), which must not block the thread then.
  const int flags = fcntl(listener, F_GETFL);
  if (flags < 0 || fcntl(listener, F_SETFL, flags | O_NONBLOCK) != 0)
    fail_io("[control] cannot make a listening socket non-blocking", errno);
}

bool Acceptor::is_overdue(const PendingConnection& pending, Time now) {
  return now >= pending.since + limit(pending);
}

Clock::duration Acceptor::limit(const PendingConnection& pending) {
  return pending.greeted ? Clock::duration(kSlowTime) : Clock::duration(kSilentTime);
}

bool Acceptor::has_capacity(Time now) const {
  return pending_.size() < kMaxPending ||
         std::any_of(pending_.begin(), pending_.end(),
                     [&](const PendingConnection& v) { return is_overdue(v, now); });
}

// Drops the oldest connection, preferring those that have not sent a hello.
void Acceptor::evict_oldest(Time now) {
  for (const bool greeted : {false, true}) {
    const auto oldest = std::find_if(
        pending_.begin(), pending_.end(),
        [&](const PendingConnection& v) { return v.greeted == greeted && is_overdue(v, now); });
    if (oldest == pending_.end()) continue;
    drop(*oldest, "did not authenticate, and its slot was needed", now);
    pending_.erase(oldest);
    return;
  }
}

void Acceptor::watch(std::vector<pollfd>& fds, Time now) const {
  // poll() ignores negative descriptors.
  fds.push_back({now >= paused_until_ && has_capacity(now) ? listener_ : -1, POLLIN, 0});
  for (const PendingConnection& pending : pending_)
    fds.push_back({pending.connection->fd(), pending.connection->events(), 0});
}

Time Acceptor::due(Time now) const {
  Time first = paused_until_ > Time{} ? paused_until_ : Time::max();
  const bool room = has_capacity(now);
  for (const PendingConnection& v : pending_)
    first = std::min(first, v.since + (room ? to_duration(timeout_) : limit(v)));
  return first;
}

void Acceptor::serve(const std::vector<pollfd>& fds, size_t first, Time now) {
  if (now >= paused_until_) paused_until_ = {};
  size_t at = first + 1;
  for (PendingConnection& pending : pending_) {
    const bool ready = at < fds.size() && fds[at].revents != 0;
    ++at;
    if (ready) receive_frames(pending, now);
    if (!pending.gone && now - pending.since >= to_duration(timeout_))
      drop(pending, strf("did not authenticate within %g s", timeout_), now);
  }
  std::erase_if(pending_, [](const PendingConnection& v) { return v.gone; });
  if (first < fds.size() && fds[first].revents != 0) accept_pending(now);
}

void Acceptor::accept_pending(Time now) {
  while (has_capacity(now)) {
    Fd fd(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      const int error = errno;
      // No connection is waiting, or the waiting one is gone.
      if (error == EAGAIN || error == EINTR || error == ECONNABORTED) return;
      char reason[128] = "";
      refusal_log_.add(std::string("rank 0 cannot take a connection: ") +
                           strerror_r(error, reason, sizeof reason),
                       now);
      paused_until_ = now + kAcceptPause;
      return;
    }
    if (pending_.size() >= kMaxPending) evict_oldest(now);
    PendingConnection pending;
    pending.from = text_of(address_of_peer(fd.get()));
    pending.since = now;
    pending.connection = std::make_unique<Connection>(std::move(fd), kMaxUnproven);
    pending_.push_back(std::move(pending));
  }
}

void Acceptor::drop(PendingConnection& pending, const std::string& why, Time now) {
  pending.gone = true;
  refusal_log_.add("dropped a connection from " + pending.from + ": it " + why, now);
}

void Acceptor::receive_frames(PendingConnection& pending, Time now) {
  try {
    const std::string closed = pending.connection->receive(kMaxAtOnce);
    while (pending.connection && !pending.gone) {
      const auto frame = pending.connection->next();
      if (!frame) break;
      if (pending.greeted)
        admit(pending, *frame);
      else
        answer(pending, *frame);
    }
    if (pending.gone || !pending.connection) return;
    if (!closed.empty()) return drop(pending, "closed before it had authenticated", now);
    if (!pending.connection->send().empty())
      drop(pending, "closed before it had authenticated", now);
  } catch (const Error& e) {
    drop(pending, e.code() == PLAIT_ERR_PEER ? e.text() : "sent an invalid message", now);
  }
}

void Acceptor::answer(PendingConnection& pending, const Frame& frame) {
  const Hello hello = decode_hello(frame);
  Challenge& c = pending.challenge;
  c = {run_, hello.nonce, random_bytes(kNonceSize), hello.rank, hello.size};
  pending.connection->put(
      encode(Greeting{c.run, c.server_nonce, proof(secret_, c, Side::kServer)}));
  pending.greeted = true;
}

void Acceptor::admit(PendingConnection& pending, const Frame& frame) {
  if (frame.kind != MessageKind::kProof ||
      !equal_constant_time(frame.payload, proof(secret_, pending.challenge, Side::kClient)))
    fail(PLAIT_ERR_PEER,
         strf("does not know the job's secret (it says it is rank %u)", pending.challenge.rank));
  pending.gone = true;
  pending.connection->trust();
  on_admitted_(std::move(pending.connection), pending.challenge, pending.from);
}

}  // namespace plait::runtime::control
