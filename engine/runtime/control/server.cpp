#include "engine/runtime/control/server.hpp"

#include <algorithm>
#include <cerrno>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/base/thread.hpp"

namespace plait::runtime::control {
namespace {

constexpr auto kLastWords = std::chrono::milliseconds(200);

}  // namespace

Clock::duration heartbeat_interval(double timeout, double longest) {
  return to_duration(std::min(longest, timeout / 4));
}

std::string silent_for(double timeout) {
  return strf("it has been silent for %g s; it may be stopped or its machine unreachable", timeout);
}

Server::Server(const ServerConfig& config, int listener, Log& log)
    : config_(config),
      log_(log),
      interval_(heartbeat_interval(config.timeout, config.times.heartbeat)),
      members_(config.size),
      met_(config.size, 0),
      job_state_(config.size, config.connect_timeout, config.where, Clock::now(),
                 config.times.leave,
                 [this](uint32_t rank, const std::string& bytes) {
                   if (members_[rank].connection) members_[rank].connection->put(bytes);
                 }),
      acceptor_(listener, config.secret, config.run, config.times.authentication, log,
                [this](std::unique_ptr<Connection> connection, const Challenge& who,
                       const std::string& from) { add_member(std::move(connection), who, from); }) {
  thread_ = start_thread([this] { run(); });
}

Server::~Server() {
  closing_.store(true);
  waker_.wake();
  thread_.join();
}

void Server::run() noexcept {
  try {
    next_heartbeat_ = Clock::now() + interval_;
    notice_at_ = Clock::now() + to_duration(config_.times.notice);
    while (poll_once()) {
    }
  } catch (const std::exception& e) {
    log_.error(std::string_view("[control] rank 0 no longer serves the control channel"));
    log_.error(e.what());
  } catch (...) {
    log_.error(std::string_view("[control] rank 0 no longer serves the control channel"));
  }
  // Ranks that are still connected see the connection close.
  for (Member& member : members_) member.connection.reset();
}

Time Server::due(Time now) const {
  Time first = std::min({next_heartbeat_, notice_at_, job_state_.due(), acceptor_.due(now)});
  if (close_deadline_ == Time{}) return first;
  return std::min(first, now < latecomer_deadline_ ? latecomer_deadline_ : close_deadline_);
}

void Server::watch(Time now) {
  fds_.assign(1, {waker_.fd(), POLLIN, 0});
  ranks_.clear();
  for (uint32_t i = 0; i < members_.size(); ++i) {
    if (!members_[i].connection) continue;
    fds_.push_back({members_[i].connection->fd(), members_[i].connection->events(), 0});
    ranks_.push_back(i);
  }
  acceptor_.watch(fds_, now);
}

// One round. False when nothing is left to do.
bool Server::poll_once() {
  Time now = Clock::now();
  watch(now);
  const Time until = due(now);
  const int n = poll(fds_.data(), fds_.size(), poll_ms(until, now));
  if (n < 0)
    for (pollfd& fd : fds_) fd.revents = 0;
  now = Clock::now();
  // This process was stopped or starved, so the silence is not the ranks' fault.
  if (const auto late = now - until; late > interval_)
    for (Member& member : members_) member.last_received += late;
  waker_.clear();
  for (size_t i = 0; i < ranks_.size(); ++i)
    if (fds_[i + 1].revents != 0 && members_[ranks_[i]].connection) receive_frames(ranks_[i], now);
  acceptor_.serve(fds_, ranks_.size() + 1, now);
  if (now >= next_heartbeat_) heartbeat(now);
  if (now >= notice_at_) tell_missing();
  job_state_.tick(now);
  send_all();
  return !is_finished(now);
}

// A rank that was killed, or never started, cannot say so itself.
void Server::tell_missing() {
  notice_at_ = Time::max();
  if (!job_state_.is_waiting()) return;
  log_.warn(strf("[control] after %g s rank 0 still waits for ", config_.times.notice) +
            job_state_.missing_names() + ", to connect at " + config_.where +
            strf("; the job ends %g s after it began to wait", config_.connect_timeout));
}

void Server::add_member(std::unique_ptr<Connection> connection, const Challenge& who,
                        const std::string& from) {
  const Time now = Clock::now();
  if (who.rank < met_.size() && !met_[who.rank]) {
    met_[who.rank] = 1;
    ++n_met_;
  }
  if (const auto refusal = job_state_.admit(who.rank, who.size)) {
    acceptor_.refusal_log().add("refused a connection from " + from + ": " + refusal->text, now);
    connection->put(encode(*refusal));
    connection->send();  // fits into the socket buffer; losing it does no harm
    return;
  }
  configure_socket(connection->fd(), config_.timeout);
  connection->put(FrameWriter(MessageKind::kWelcome).u64(milliseconds(config_.timeout)).done());
  members_[who.rank] = {std::move(connection), now};
}

void Server::receive_frames(uint32_t rank, Time now) {
  Member& member = members_[rank];
  try {
    const std::string closed = member.connection->receive();
    member.last_received = now;
    while (auto frame = member.connection->next()) {
      const bool was_here = job_state_.is_connected(rank);
      if (was_here) job_state_.handle(rank, *frame, now);
      if (was_here && !job_state_.is_connected(rank))
        return member.connection.reset();  // it said goodbye
    }
    if (!closed.empty()) drop_member(rank, closed);
  } catch (const Error& e) {
    log_.warn("[control] rank " + std::to_string(rank) + ": " + e.text());
    drop_member(rank, "it sent an invalid message");
  }
}

void Server::drop_member(uint32_t rank, const std::string& how) {
  members_[rank].connection.reset();
  job_state_.mark_lost(rank, how);
}

void Server::heartbeat(Time now) {
  next_heartbeat_ = now + interval_;
  const std::string bytes = FrameWriter(MessageKind::kHeartbeat).i64(job_state_.step(0)).done();
  for (uint32_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    if (!member.connection || !job_state_.is_connected(i)) continue;
    // Its connection stays open: if the rank was only stopped and continues, it reads why it was
    // dropped.
    if (now - member.last_received > to_duration(config_.timeout))
      job_state_.mark_lost(i, silent_for(config_.timeout));
    else
      member.connection->put(bytes);
  }
}

void Server::send_all() {
  // The loss of a rank adds messages for the others.
  for (bool again = true; again;) {
    again = false;
    for (uint32_t i = 0; i < members_.size(); ++i) {
      if (!members_[i].connection || members_[i].connection->all_sent()) continue;
      const std::string closed = members_[i].connection->send();
      if (closed.empty()) continue;
      drop_member(i, closed);
      again = true;
    }
  }
}

bool Server::is_finished(Time now) {
  if (!closing_.load()) return false;
  if (close_deadline_ == Time{}) {
    close_deadline_ = now + to_duration(config_.times.linger);
    latecomer_deadline_ = now + to_duration(config_.times.late);
  }
  // A rank that comes after the rendezvous has failed gets the reason.
  if (job_state_.n_connected() == 0 && (job_state_.all_arrived() || now >= latecomer_deadline_))
    return true;
  if (now < close_deadline_) return false;
  job_state_.shut_down();
  for (const Time until = now + kLastWords; Clock::now() < until;) {
    send_all();
    const bool done = std::all_of(members_.begin(), members_.end(), [](const Member& m) {
      return !m.connection || m.connection->all_sent();
    });
    if (done) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace plait::runtime::control
