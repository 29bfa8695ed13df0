#include "engine/runtime/control/client.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/base/thread.hpp"
#include "engine/runtime/control/collective_order_check.hpp"
#include "engine/runtime/control/identity.hpp"
#include "engine/runtime/control/job_state.hpp"
#include "engine/runtime/control/server.hpp"

namespace plait::runtime::control {
namespace {

constexpr auto kLastWords = std::chrono::seconds(2);  // to send the remaining frames before leaving
constexpr auto kLastAnswer = std::chrono::seconds(1);  // for rank 0 to close
constexpr size_t kMaxReport = 4096;

}  // namespace

Client::Client(const ControlConfig& config, JoinedServer joined, Time deadline, Log& log)
    : job_(config.job),
      name_(own_name(config)),
      identity_(config.identity),
      timeout_(config.job.timeout),
      interval_(
          heartbeat_interval(std::min(timeout_, joined.server_timeout), config.times.heartbeat)),
      // Rank 0 may have a longer timeout than this rank, and then sends heartbeats less often.
      silence_(std::max(to_duration(timeout_),
                        4 * heartbeat_interval(joined.server_timeout, config.times.heartbeat))),
      report_deadline_(deadline + to_duration(config.times.report)),
      log_(log),
      joined_(std::move(joined)),
      termination_([this] {
        const std::lock_guard lock(mutex_);
        changed_.notify_all();
      }),
      peers_(static_cast<size_t>(job_.size)) {
  Arrival arrival = own_arrival(config);
  const auto remaining = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  arrival.connect_timeout_ms = static_cast<uint64_t>(std::max<int64_t>(0, remaining.count()));
  out_ = encode(arrival);
  thread_ = start_thread([this] { run(); });
}

Client::~Client() {
  leaving_.store(true);
  waker_.wake();
  thread_.join();
}

std::vector<Peer> Client::wait_for_ranks() {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, report_deadline_,
                      [&] { return started_ || termination_.get().code != PLAIT_OK; });
  if (started_) return peers_;
  if (const EndReason end = termination_.get(); end.code != PLAIT_OK)
    fail(end.code, "[control] " + end.text);
  fail(PLAIT_ERR_PEER, strf("[control] rank 0 at %s did not report within %g s that all ranks "
                            "are connected; check that it still runs",
                            joined_.where.c_str(), job_.connect_timeout));
}

Client::Answer Client::ask(MessageKind kind, const std::string& key, std::string_view value,
                           Time deadline, bool& late) {
  Answer answer;
  late = false;
  if (termination_.get().code != PLAIT_OK) return answer;
  std::unique_lock lock(mutex_);
  const uint32_t request = ++last_request_;
  FrameWriter frame(kind);
  frame.u32(request).text(key);
  if (kind == MessageKind::kSet) frame.text(value);
  out_ += frame.done();
  asked_.emplace(request, &answer);
  waker_.wake();
  const auto answered = [&] { return answer.arrived || termination_.get().code != PLAIT_OK; };
  late = !changed_.wait_until(lock, deadline, answered);
  if (late && kind == MessageKind::kGet) {
    // The value may be there and its reply on the way: rank 0 says whether it is.
    out_ += FrameWriter(MessageKind::kCancel).u32(request).done();
    waker_.wake();
    late = !changed_.wait_until(lock, Clock::now() + to_duration(timeout_), answered);
  }
  asked_.erase(request);
  return answer;
}

void Client::fail_ended(const char* what, const std::string& key) const {
  const EndReason end = termination_.get();
  fail(end.code, std::string("[control] cannot ") + what + " '" + key + "': " + end.text);
}

void Client::set(const std::string& key, std::string_view value) {
  bool late = false;
  const Answer answer =
      ask(MessageKind::kSet, key, value, Clock::now() + to_duration(timeout_), late);
  if (late)
    fail(PLAIT_ERR_PEER,
         strf("[control] rank 0 did not store '%s' within %g s", key.c_str(), timeout_));
  if (!answer.arrived) fail_ended("publish", key);
  if (answer.code != PLAIT_OK)
    fail(answer.code, "[control] cannot publish '" + key + "': " + answer.bytes);
}

std::string Client::get(const std::string& key, double seconds) {
  if (std::optional<std::string> value = get_within(key, seconds)) return *std::move(value);
  fail(PLAIT_ERR_PEER, strf("[control] %s waited %g s for '%s', which no rank has published",
                            name_.c_str(), seconds, key.c_str()));
}

std::optional<std::string> Client::get_within(const std::string& key, double seconds) {
  bool late = false;
  Answer answer = ask(MessageKind::kGet, key, "", Clock::now() + to_duration(seconds), late);
  if (late || answer.code == PLAIT_ERR_CANCELLED) return std::nullopt;
  if (!answer.arrived) fail_ended("get", key);
  if (answer.code != PLAIT_OK)
    fail(answer.code, "[control] cannot get '" + key + "': " + answer.bytes);
  return std::move(answer.bytes);
}

void Client::forget(const std::string& key) {
  const std::string frame = FrameWriter(MessageKind::kForget).text(key).done();
  {
    const std::lock_guard lock(mutex_);
    out_ += frame;
  }
  waker_.wake();
}

void Client::watch(const std::string& group, const CollectiveLog& calls) {
  const std::lock_guard lock(watch_mutex_);
  watched_[group] = &calls;
}

void Client::unwatch() noexcept {
  const std::lock_guard lock(watch_mutex_);
  watched_.clear();
}

void Client::abort(std::string_view text) noexcept {
  try {
    const std::string frame =
        FrameWriter(MessageKind::kAbort).text(shortened(text, kMaxText)).done();
    const std::lock_guard lock(mutex_);
    out_ += frame;
  } catch (...) {
    broken_.store(true);  // no memory for a message: the others notice that this rank is gone
  }
  waker_.wake();
}

// --- the thread ---

void Client::run() noexcept {
  try {
    last_received_ = Clock::now();
    next_heartbeat_ = last_received_;
    receive_frames();  // some may have come with the welcome, and poll() does not report them
    while (!closed_ && !leaving_.load()) poll_once();
    if (!closed_) leave();
  } catch (...) {
    joined_.connection->shut();
    termination_.fail();
    log_.error("[control] this rank no longer takes part in the control channel");
  }
}

void Client::poll_once() {
  Time now = Clock::now();
  const std::string closed = flush();
  pollfd fds[2] = {{joined_.connection->fd(), joined_.connection->events(), 0},
                   {waker_.fd(), POLLIN, 0}};
  const Time until = next_heartbeat_;
  if (closed.empty() && poll(fds, 2, poll_ms(until, now)) < 0) fds[0].revents = 0;
  now = Clock::now();
  // This process was stopped or starved, so the silence is not rank 0's fault.
  if (const auto late = now - until; late > interval_) last_received_ += late;
  waker_.clear();
  // Read even if it cannot be written to: the reason for the close may be waiting.
  if (fds[0].revents != 0 || !closed.empty()) receive_frames();
  if (!closed.empty() && !closed_) lose_rank_0(closed, false);
  if (broken_.load() && !closed_) {
    joined_.connection->shut();
    closed_ = true;
    finish({PLAIT_ERR_PEER, name_ + " aborted"});
  }
  if (!closed_) watch_server(now);
}

// Writes pending bytes to the socket.
std::string Client::flush() {
  std::string out;
  {
    const std::lock_guard lock(mutex_);
    out.swap(out_);
  }
  joined_.connection->put(out);
  return joined_.connection->send();
}

void Client::receive_frames() {
  try {
    const std::string closed = joined_.connection->receive();
    if (closed.empty()) last_received_ = Clock::now();
    while (const auto frame = joined_.connection->next()) handle(*frame);
    if (!closed.empty()) lose_rank_0(closed, false);
  } catch (const Error& e) {
    if (e.code() != PLAIT_ERR_DATA) throw;
    lose_rank_0("it sent an invalid message", false);
  }
}

void Client::handle(const Frame& frame) {
  PayloadReader r(frame.payload);
  switch (frame.kind) {
    case MessageKind::kHeartbeat:
      step_of_rank_0_ = r.i64();
      return r.done();
    case MessageKind::kReply:
      return answer(frame);
    case MessageKind::kPeer:
      return introduce(frame);
    case MessageKind::kAskKeys: {
      const uint64_t what = r.u64();
      r.done();
      return joined_.connection->put(encode_keys(identity_, what));
    }
    case MessageKind::kAskCall:
      return describe_call(r);
    case MessageKind::kEnd:
      return finish(decode_end(frame));
    case MessageKind::kStart: {
      r.done();
      const std::lock_guard lock(mutex_);
      started_ = true;
      changed_.notify_all();
      return;
    }
    default:
      fail_data("[control] an unexpected message");
  }
}

void Client::answer(const Frame& frame) {
  PayloadReader r(frame.payload);
  const uint32_t request = r.u32();
  const uint32_t code = r.u32();
  const std::lock_guard lock(mutex_);
  const auto found = asked_.find(request);
  if (found == asked_.end()) return;  // too late
  *found->second = {true, code, std::string(r.raw(frame.payload.size() - 8))};
  changed_.notify_all();
}

void Client::introduce(const Frame& frame) {
  const Introduction one = decode_introduction(frame);
  const std::lock_guard lock(mutex_);
  if (one.rank >= peers_.size() || started_) fail_data("[control] a rank that does not exist");
  peers_[one.rank] = one.peer;
  if (one.rank == 0) rank_0_ = one;
}

void Client::watch_server(Time now) {
  if (now < next_heartbeat_) return;
  next_heartbeat_ = now + interval_;
  if (now - last_received_ > silence_) {
    lose_rank_0(silent_for(std::chrono::duration<double>(silence_).count()), true);
    last_received_ = now;
  }
  const std::string bytes = heartbeat();
  const std::lock_guard lock(mutex_);
  out_ += bytes;
}

// The content of every heartbeat.
std::string Client::heartbeat() {
  std::string bytes =
      FrameWriter(MessageKind::kHeartbeat).i64(step_.load(std::memory_order_relaxed)).done();
  // Number and name belong together if the number is the same before and after.
  const uint64_t calls = calls_.load(std::memory_order_acquire);
  const char* call = call_.load(std::memory_order_acquire);
  if (call && calls_.load(std::memory_order_acquire) == calls)
    bytes += FrameWriter(MessageKind::kCall).u64(calls).text(call).done();
  const std::lock_guard lock(watch_mutex_);
  for (const auto& [group, calls_log] : watched_)
    bytes += encode({group, calls_log->prefix_hashes()});
  return bytes;
}

// Rank 0 has found two ranks that differ; this is one of them.
void Client::describe_call(PayloadReader r) {
  const std::string group(r.text(kMaxKey));
  const uint64_t number = r.u64();
  r.done();
  const std::lock_guard lock(watch_mutex_);
  const auto at = watched_.find(group);
  const std::string text = at == watched_.end() ? "a different call" : at->second->text(number);
  joined_.connection->put(
      FrameWriter(MessageKind::kCallDescription).text(shortened(text, kMaxName)).done());
}

void Client::lose_rank_0(const std::string& how, bool tell) {
  closed_ = !tell;
  server_silent_ = tell;
  if (termination_.get().code != PLAIT_OK) return;
  bool started = false;
  {
    const std::lock_guard lock(mutex_);
    started = started_;
  }
  EndReason end{PLAIT_ERR_PEER, (started ? rank_0_.peer.name : "rank 0") + " is lost: " + how};
  end.text += started ? last_seen(rank_0_.peer.host, rank_0_.process_id, step_of_rank_0_)
                      : " while the ranks connected";
  // If rank 0 was only stopped and continues, it learns why the others have ended.
  if (tell)
    joined_.connection->put(
        FrameWriter(MessageKind::kReport).text(shortened(end.text, kMaxReport)).done());
  finish(std::move(end));
}

void Client::finish(EndReason end) {
  if (end.code == PLAIT_OK) end.code = PLAIT_ERR_PEER;
  if (termination_.get().code != PLAIT_OK) return;
  log_.debug("[control] the job is over: " + end.text);
  termination_.set(std::move(end));
}

// Sends the remaining frames and a goodbye. Rank 0 closes when it has read them; closing earlier
// would lose them.
void Client::leave() {
  {
    const std::lock_guard lock(mutex_);
    out_ += FrameWriter(MessageKind::kGoodbye).done();
  }
  bool shut = false;
  char rest[4096];
  for (Time until = Clock::now() + kLastWords;;) {
    if (!shut && !flush().empty()) return;
    if (!shut && joined_.connection->all_sent()) {
      joined_.connection->shut();
      shut = true;
      if (server_silent_) return;
      until = Clock::now() + kLastAnswer;
    }
    const Time now = Clock::now();
    if (now >= until) return;
    pollfd one{joined_.connection->fd(), joined_.connection->events(), 0};
    poll(&one, 1, poll_ms(until, now));
    if (receive_some(joined_.connection->fd(), rest, sizeof rest).closed) return;
  }
}

}  // namespace plait::runtime::control
