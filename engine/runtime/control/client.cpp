#include "engine/runtime/control/client.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/base/thread.hpp"
#include "engine/runtime/control/board.hpp"
#include "engine/runtime/control/identity.hpp"
#include "engine/runtime/control/orders.hpp"
#include "engine/runtime/control/server.hpp"

namespace plait::runtime::control {
namespace {

constexpr auto kGrace = std::chrono::seconds(1);       // for rank 0 to say that the time is over
constexpr auto kLastWords = std::chrono::seconds(2);   // for what is to be sent before leaving
constexpr auto kLastAnswer = std::chrono::seconds(1);  // for rank 0 to close
constexpr size_t kMostReport = 4096;

}  // namespace

Client::Client(const ControlConfig& config, Joined joined, Time deadline, Log& log)
    : job_(config.job),
      name_(own_name(config)),
      identity_(config.identity),
      timeout_(config.job.timeout),
      interval_(beat_interval(std::min(timeout_, joined.server_timeout))),
      // Rank 0 may be more patient than this rank, and speaks the less often.
      silence_(std::max(span(timeout_), 4 * beat_interval(joined.server_timeout))),
      deadline_(deadline),
      log_(log),
      joined_(std::move(joined)),
      ending_([this] {
        const std::lock_guard lock(mutex_);
        changed_.notify_all();
      }),
      peers_(static_cast<size_t>(job_.size)) {
  Arrival arrival = own_arrival(config);
  const auto patience = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  arrival.patience_ms = static_cast<uint64_t>(std::max<int64_t>(0, patience.count()));
  out_ = encode(arrival);
  thread_ = start_thread([this] { run(); });
}

Client::~Client() {
  leaving_.store(true);
  waker_.wake();
  thread_.join();
}

std::vector<Peer> Client::meet() {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline_ + kGrace,
                      [&] { return started_ || ending_.get().code != PLAIT_OK; });
  if (started_) return peers_;
  if (const End end = ending_.get(); end.code != PLAIT_OK) fail(end.code, "[control] " + end.text);
  fail(PLAIT_ERR_PEER, strf("[control] rank 0 at %s does not say within %g s whether all ranks "
                            "have come; see whether it still runs",
                            joined_.where.c_str(), job_.connect_timeout));
}

Client::Answer Client::ask(Kind kind, const std::string& key, std::string_view value, Time deadline,
                           bool& late) {
  Answer answer;
  late = false;
  if (ending_.get().code != PLAIT_OK) return answer;
  std::unique_lock lock(mutex_);
  const uint32_t request = ++last_request_;
  Writer frame(kind);
  frame.u32(request).text(key);
  if (kind == Kind::kSet) frame.text(value);
  out_ += frame.done();
  asked_.emplace(request, &answer);
  waker_.wake();
  const bool answered = changed_.wait_until(
      lock, deadline, [&] { return answer.here || ending_.get().code != PLAIT_OK; });
  asked_.erase(request);
  late = !answered;
  if (late) {
    out_ += Writer(Kind::kCancel).u32(request).done();
    waker_.wake();
  }
  return answer;
}

void Client::set(const std::string& key, std::string_view value) {
  bool late = false;
  const Answer answer = ask(Kind::kSet, key, value, Clock::now() + span(timeout_), late);
  if (late)
    fail(PLAIT_ERR_PEER,
         strf("[control] rank 0 did not take '%s' within %g s", key.c_str(), timeout_));
  if (!answer.here)
    fail(PLAIT_ERR_PEER, "[control] cannot lay down '" + key + "': " + ending_.get().text);
  if (answer.code != PLAIT_OK)
    fail(answer.code, "[control] cannot lay down '" + key + "': " + answer.bytes);
}

std::string Client::get(const std::string& key, double seconds) {
  bool late = false;
  Answer answer = ask(Kind::kGet, key, "", Clock::now() + span(seconds), late);
  if (late)
    fail(PLAIT_ERR_PEER, strf("[control] %s waited %g s for '%s', which no rank has laid down",
                              name_.c_str(), seconds, key.c_str()));
  if (!answer.here)
    fail(PLAIT_ERR_PEER, "[control] '" + key + "' will not come: " + ending_.get().text);
  if (answer.code != PLAIT_OK)
    fail(answer.code, "[control] '" + key + "' will not come: " + answer.bytes);
  return std::move(answer.bytes);
}

void Client::forget(const std::string& key) {
  const std::string frame = Writer(Kind::kForget).text(key).done();
  {
    const std::lock_guard lock(mutex_);
    out_ += frame;
  }
  waker_.wake();
}

void Client::watch(const std::string& group, const Sequence& calls) {
  const std::lock_guard lock(watch_mutex_);
  watched_[group] = &calls;
}

void Client::unwatch() noexcept {
  const std::lock_guard lock(watch_mutex_);
  watched_.clear();
}

void Client::give_up(std::string_view text) noexcept {
  try {
    const std::string frame = Writer(Kind::kGiveUp).text(shortened(text, kMostText)).done();
    const std::lock_guard lock(mutex_);
    out_ += frame;
  } catch (...) {
    broken_.store(true);  // no memory for words: the others see this rank go
  }
  waker_.wake();
}

// --- the thread -----------------------------------------------------------------------------------------------------------

void Client::run() noexcept {
  try {
    heard_ = Clock::now();
    next_beat_ = heard_;
    while (!closed_ && !leaving_.load()) turn();
    if (!closed_) leave();
  } catch (const std::exception& e) {
    log_.error(e.what());
    joined_.line->shut();
    ending_.fail(e.what());
  }
}

void Client::turn() {
  Time now = Clock::now();
  const std::string closed = flush();
  pollfd fds[2] = {{joined_.line->fd(), joined_.line->events(), 0}, {waker_.fd(), POLLIN, 0}};
  const Time until = next_beat_;
  if (closed.empty() && poll(fds, 2, poll_ms(until, now)) < 0) fds[0].revents = 0;
  now = Clock::now();
  // This process was stopped, or starved: no wonder that it heard nothing.
  if (const auto late = now - until; late > interval_) heard_ += late;
  waker_.clear();
  // Also when it cannot be written to: why it was closed may be there to read.
  if (fds[0].revents != 0 || !closed.empty()) hear();
  if (!closed.empty() && !closed_) rank_0_is_lost(closed, false);
  if (broken_.load() && !closed_) {
    joined_.line->shut();
    closed_ = true;
    finish({PLAIT_ERR_PEER, name_ + " gave up"});
  }
  if (!closed_) watch_server(now);
}

// Hands what is to be sent to the socket.
std::string Client::flush() {
  std::string out;
  {
    const std::lock_guard lock(mutex_);
    out.swap(out_);
  }
  joined_.line->put(out);
  return joined_.line->send();
}

void Client::hear() {
  try {
    const std::string closed = joined_.line->receive();
    if (closed.empty()) heard_ = Clock::now();
    while (const auto frame = joined_.line->next()) handle(*frame);
    if (!closed.empty()) rank_0_is_lost(closed, false);
  } catch (const Error& e) {
    if (e.code() != PLAIT_ERR_DATA) throw;
    rank_0_is_lost("it sent what makes no sense", false);
  }
}

void Client::handle(const Frame& frame) {
  switch (frame.kind) {
    case Kind::kBeat:
      step_of_rank_0_ = Reader(frame.payload).i64();
      return;
    case Kind::kReply:
      return answer(frame);
    case Kind::kPeer:
      return introduce(frame);
    case Kind::kAsk:
      return joined_.line->put(keys_of(identity_, Reader(frame.payload).u64()));
    case Kind::kWhich:
      return say_which(Reader(frame.payload));
    case Kind::kEnd:
      return finish(decode_end(frame));
    case Kind::kStart: {
      const std::lock_guard lock(mutex_);
      started_ = true;
      changed_.notify_all();
      return;
    }
    default:
      fail_data("[control] a message that was not expected here");
  }
}

void Client::answer(const Frame& frame) {
  Reader r(frame.payload);
  const uint32_t request = r.u32();
  const uint32_t code = r.u32();
  const std::lock_guard lock(mutex_);
  const auto found = asked_.find(request);
  if (found == asked_.end()) return;  // came too late
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
  if (now < next_beat_) return;
  next_beat_ = now + interval_;
  if (now - heard_ > silence_) {
    rank_0_is_lost(silent_for(std::chrono::duration<double>(silence_).count()), true);
    heard_ = now;
  }
  const std::string bytes = beat();
  const std::lock_guard lock(mutex_);
  out_ += bytes;
}

// What is said with every heartbeat.
std::string Client::beat() {
  std::string bytes = Writer(Kind::kBeat).i64(step_.load(std::memory_order_relaxed)).done();
  // Number and name belong together when the number is the same before and after.
  const uint64_t calls = calls_.load(std::memory_order_acquire);
  const char* call = call_.load(std::memory_order_acquire);
  if (call && calls_.load(std::memory_order_acquire) == calls)
    bytes += Writer(Kind::kCall).u64(calls).text(call).done();
  const std::lock_guard lock(watch_mutex_);
  for (const auto& [group, sequence] : watched_) bytes += encode({group, sequence->marks()});
  return bytes;
}

// Two ranks were seen to differ, and this is one of them.
void Client::say_which(Reader r) {
  const std::string group(r.text(kMostKey));
  const uint64_t number = r.u64();
  const std::lock_guard lock(watch_mutex_);
  const auto at = watched_.find(group);
  const std::string text = at == watched_.end() ? "another one" : at->second->text(number);
  joined_.line->put(Writer(Kind::kSignature).text(shortened(text, kMostName)).done());
}

void Client::rank_0_is_lost(const std::string& how, bool tell) {
  closed_ = !tell;
  unheard_ = tell;
  if (ending_.get().code != PLAIT_OK) return;
  bool started = false;
  {
    const std::lock_guard lock(mutex_);
    started = started_;
  }
  End end{PLAIT_ERR_PEER, (started ? rank_0_.peer.name : "rank 0") + " is lost: " + how};
  end.text += started ? last_seen(rank_0_.peer.host, rank_0_.process_id, step_of_rank_0_)
                      : " while the ranks met";
  // Should it come to life again, it learns what the others made of it.
  if (tell) joined_.line->put(Writer(Kind::kReport).text(shortened(end.text, kMostReport)).done());
  finish(std::move(end));
}

void Client::finish(End end) {
  if (end.code == PLAIT_OK) end.code = PLAIT_ERR_PEER;
  if (ending_.get().code != PLAIT_OK) return;
  log_.debug("[control] the job is over: " + end.text);
  ending_.set(std::move(end));
}

// What is still to be said, and goodbye. Rank 0 closes when it has read it; to close before would cut off its words.
void Client::leave() {
  {
    const std::lock_guard lock(mutex_);
    out_ += Writer(Kind::kGoodbye).done();
  }
  bool shut = false;
  char rest[4096];
  for (Time until = Clock::now() + kLastWords;;) {
    if (!shut && !flush().empty()) return;
    if (!shut && joined_.line->all_sent()) {
      joined_.line->shut();
      shut = true;
      if (unheard_) return;
      until = Clock::now() + kLastAnswer;
    }
    const Time now = Clock::now();
    if (now >= until) return;
    pollfd one{joined_.line->fd(), joined_.line->events(), 0};
    poll(&one, 1, poll_ms(until, now));
    if (receive_some(joined_.line->fd(), rest, sizeof rest).closed) return;
  }
}

}  // namespace plait::runtime::control
