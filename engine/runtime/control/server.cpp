#include "engine/runtime/control/server.hpp"

#include <algorithm>
#include <cerrno>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/base/thread.hpp"

namespace plait::runtime::control {
namespace {

constexpr auto kLinger = std::chrono::seconds(5);
constexpr auto kLateComers = std::chrono::seconds(1);
constexpr auto kLastWords = std::chrono::milliseconds(200);

}  // namespace

Clock::duration beat_interval(double timeout) { return span(std::min(1.0, timeout / 4)); }

std::string silent_for(double timeout) {
  return strf("it has said nothing for %g s; it may be stopped or its machine unreachable",
              timeout);
}

Server::Server(const ServerConfig& config, int listener, Log& log)
    : config_(config),
      log_(log),
      interval_(beat_interval(config.timeout)),
      members_(config.size),
      board_(config.size, config.connect_timeout, config.where, Clock::now(),
             [this](uint32_t rank, const std::string& bytes) {
               if (members_[rank].line) members_[rank].line->put(bytes);
             }),
      door_(listener, config.secret, config.run, log,
            [this](std::unique_ptr<Line> line, const Challenge& who, const std::string& from) {
              enter(std::move(line), who, from);
            }) {
  thread_ = start_thread([this] { run(); });
}

Server::~Server() {
  closing_.store(true);
  waker_.wake();
  thread_.join();
}

void Server::run() noexcept {
  try {
    next_beat_ = Clock::now() + interval_;
    while (turn()) {
    }
  } catch (const std::exception& e) {
    log_.error(std::string_view("[control] rank 0 serves no longer"));
    log_.error(e.what());
  }
  // Whoever is still connected sees it close.
  for (Member& member : members_) member.line.reset();
}

Time Server::due(Time now) const {
  Time first = std::min({next_beat_, board_.due(), door_.due(now)});
  if (close_until_ == Time{}) return first;
  return std::min(first, now < late_until_ ? late_until_ : close_until_);
}

void Server::watch(Time now) {
  fds_.assign(1, {waker_.fd(), POLLIN, 0});
  ranks_.clear();
  for (uint32_t i = 0; i < members_.size(); ++i) {
    if (!members_[i].line) continue;
    fds_.push_back({members_[i].line->fd(), members_[i].line->events(), 0});
    ranks_.push_back(i);
  }
  door_.watch(fds_, now);
}

// One round. False when there is nothing left to do.
bool Server::turn() {
  Time now = Clock::now();
  watch(now);
  const Time until = due(now);
  const int n = poll(fds_.data(), fds_.size(), poll_ms(until, now));
  if (n < 0)
    for (pollfd& fd : fds_) fd.revents = 0;
  now = Clock::now();
  // This process was stopped, or starved: no wonder that it heard nothing.
  if (const auto late = now - until; late > interval_)
    for (Member& member : members_) member.heard += late;
  waker_.clear();
  for (size_t i = 0; i < ranks_.size(); ++i)
    if (fds_[i + 1].revents != 0 && members_[ranks_[i]].line) hear(ranks_[i], now);
  door_.serve(fds_, ranks_.size() + 1, now);
  if (now >= next_beat_) beat(now);
  board_.tick(now);
  send_all();
  return !over(now);
}

void Server::enter(std::unique_ptr<Line> line, const Challenge& who, const std::string& from) {
  const Time now = Clock::now();
  if (const auto refusal = board_.admit(who.rank, who.size)) {
    door_.complaints().add("refused a connection from " + from + ": " + refusal->text, now);
    line->put(encode(*refusal));
    line->send();  // it fits, or it is no loss
    return;
  }
  tune(line->fd(), config_.timeout);
  line->put(Writer(Kind::kWelcome).u64(milliseconds(config_.timeout)).done());
  members_[who.rank] = {std::move(line), now};
}

void Server::hear(uint32_t rank, Time now) {
  Member& member = members_[rank];
  try {
    const std::string closed = member.line->receive();
    member.heard = now;
    while (auto frame = member.line->next()) {
      const bool was_here = board_.here(rank);
      if (was_here) board_.handle(rank, *frame, now);
      if (was_here && !board_.here(rank)) return member.line.reset();  // it said goodbye
    }
    if (!closed.empty()) lose(rank, closed);
  } catch (const Error& e) {
    log_.warn("[control] rank " + std::to_string(rank) + ": " + e.text());
    lose(rank, "it sent what makes no sense");
  }
}

void Server::lose(uint32_t rank, const std::string& how) {
  members_[rank].line.reset();
  board_.lost(rank, how);
}

void Server::beat(Time now) {
  next_beat_ = now + interval_;
  const std::string bytes = Writer(Kind::kBeat).i64(board_.step(0)).done();
  for (uint32_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    if (!member.line || !board_.here(i)) continue;
    // Its connection stays: should it come to life again, it reads why it is out.
    if (now - member.heard > span(config_.timeout))
      board_.lost(i, silent_for(config_.timeout));
    else
      member.line->put(bytes);
  }
}

void Server::send_all() {
  // A loss gives the others more to hear.
  for (bool again = true; again;) {
    again = false;
    for (uint32_t i = 0; i < members_.size(); ++i) {
      if (!members_[i].line || members_[i].line->all_sent()) continue;
      const std::string closed = members_[i].line->send();
      if (closed.empty()) continue;
      lose(i, closed);
      again = true;
    }
  }
}

bool Server::over(Time now) {
  if (!closing_.load()) return false;
  if (close_until_ == Time{}) {
    close_until_ = now + kLinger;
    late_until_ = now + kLateComers;
  }
  // Who comes too late to a meeting that failed is told so, rather than left to knock at a closed door.
  if (board_.n_here() == 0 && (board_.all_came() || now >= late_until_)) return true;
  if (now < close_until_) return false;
  board_.close_down();
  for (const Time until = now + kLastWords; Clock::now() < until;) {
    send_all();
    const bool done = std::all_of(members_.begin(), members_.end(),
                                  [](const Member& m) { return !m.line || m.line->all_sent(); });
    if (done) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace plait::runtime::control
