#include "plugins/comm/threads/group_state.hpp"

#include <algorithm>

#include "plugins/comm/threads/chunks.hpp"

namespace plait::comm_threads {

using comm_support::Members;

namespace {

Clock::time_point after(double seconds) {
  // A year is practically forever and does not overflow the clock.
  const auto wait = std::chrono::duration<double>(std::clamp(seconds, 0.0, 3.2e7));
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(wait);
}

std::string in_seconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%g s", seconds);
  return text;
}

// Messages must agree in type and extent at both ends, collectives in everything.
bool agree(const plait_comm_desc& a, const plait_comm_desc& b) {
  if (a.dtype != b.dtype || a.n != b.n) return false;
  return comm_support::point_to_point(a.kind) ||
         (a.kind == b.kind && a.reduction == b.reduction && a.peer == b.peer);
}

}  // namespace

void CallQueue::push(PendingCall& call) {
  call.next = nullptr;
  (tail_ ? tail_->next : head_) = &call;
  tail_ = &call;
}
PendingCall* CallQueue::pop() {
  PendingCall* call = head_;
  if (call && !(head_ = call->next)) tail_ = nullptr;
  return call;
}

GroupState::GroupState(const Members& first)
    : head_(first.head()),
      size_(first.size),
      wake_(size_),
      names_(first.names),
      presence_(size_, Presence::kExpected),
      started_(size_),
      waiting_(size_),
      sends_(size_t{size_} * size_),
      receives_(size_t{size_} * size_),
      ready_(size_) {}

void GroupState::join(const Members& member) {
  const Lock lock(mutex_);
  if (failed_) throw_failure();
  if (member.size != size_ || presence_[member.rank] != Presence::kExpected)
    fail(PLAIT_ERR_PEER, head_ + ": " + member.names[member.rank] + " joins as rank " +
                             std::to_string(member.rank) + " of " + std::to_string(member.size) +
                             ", expected a free rank of " + std::to_string(size_) +
                             "; give each rank its own number");
  presence_[member.rank] = Presence::kJoined;
  wake_all();
}

void GroupState::wait_for_all(const Members& member, double seconds) {
  Lock lock(mutex_);
  const auto all_here = [&] {
    return failed_ || std::none_of(presence_.begin(), presence_.end(),
                                   [](Presence p) { return p == Presence::kExpected; });
  };
  if (!wake_[member.rank].wait_until(lock, after(seconds), all_here))
    fail_locked(head_ + " did not connect within " + in_seconds(seconds) +
                "; missing: " + list(Presence::kExpected) + "; check that it is running");
  if (failed_) throw_failure();
}

void GroupState::leave(uint32_t rank) noexcept {
  const Lock lock(mutex_);
  if (presence_[rank] == Presence::kLeft) return;
  presence_[rank] = Presence::kLeft;
  // Ranks that wait for this one would otherwise wait until the time-out.
  bool missed = false;
  for (uint32_t r = 0; r < size_; ++r) {
    missed = missed || !waiting_[r].empty();
    for (const auto* side : {&sends_, &receives_})
      missed = missed || !(*side)[r * size_ + rank].empty() || !(*side)[rank * size_ + r].empty();
  }
  if (missed)
    fail_locked(head_ + ": " + names_[rank] + " has left the group while calls wait for it");
  wake_all();
}

void GroupState::run_worker(uint32_t rank) noexcept {
  Lock lock(mutex_);
  while (presence_[rank] != Presence::kLeft) {
    if (PendingCall* call = ready_[rank].pop())
      execute_chunk(lock, *call);
    else
      wake_[rank].wait(lock);
  }
}

void GroupState::reserve() {
  const Lock lock(mutex_);
  free_.reserve(matched_.size() + 1);
  matched_.emplace_back().members.reserve(std::max(size_, 2u));
  free_.push_back(&matched_.back());
}

void GroupState::start(PendingCall& call, double timeout) {
  const Lock lock(mutex_);
  if (failed_) throw_failure();
  if (call.state != PendingCall::State::kIdle)
    fail(PLAIT_ERR_STATE,
         head_ + ": " + call.text + " is started again before finish(); finish it first");
  check_present(call);
  call.state = PendingCall::State::kStarted;
  call.deadline = after(timeout);
  comm_support::point_to_point(call.desc.kind) ? enqueue_message(call) : enqueue_collective(call);
}

// A call that can no longer be matched fails at once.
void GroupState::check_present(const PendingCall& call) {
  const bool message = comm_support::point_to_point(call.desc.kind);
  for (uint32_t r = 0; r < size_; ++r)
    if (presence_[r] == Presence::kLeft && (!message || r == call.desc.peer)) {
      fail_locked(head_ + ": " + call.text + " cannot start: " + names_[r] + " has left the group");
      throw_failure();
    }
}

void GroupState::enqueue_message(PendingCall& call) {
  const bool send = call.desc.kind == PLAIT_COMM_SEND;
  const uint32_t from = send ? call.rank : call.desc.peer, to = send ? call.desc.peer : call.rank;
  const size_t pair = size_t{from} * size_ + to;
  PendingCall* other = (send ? receives_ : sends_)[pair].pop();
  if (!other) return (send ? sends_ : receives_)[pair].push(call);
  if (!agree(call.desc, other->desc)) {
    fail_locked(head_ + ": " + names_[call.rank] + " started " + call.text + ", but " +
                names_[other->rank] + " " + other->text + "; both ends must name the same");
    throw_failure();
  }
  MatchedCalls& matched = *free_.back();
  free_.pop_back();
  matched.members.assign({send ? &call : other, send ? other : &call});
  begin(matched);
}

void GroupState::enqueue_collective(PendingCall& call) {
  call.index = started_[call.rank]++;
  waiting_[call.rank].push(call);
  if (std::none_of(waiting_.begin(), waiting_.end(),
                   [](const CallQueue& queue) { return queue.empty(); }))
    match_collective();
}

void GroupState::match_collective() {
  MatchedCalls& matched = *free_.back();
  free_.pop_back();
  matched.members.clear();
  for (CallQueue& queue : waiting_) matched.members.push_back(queue.pop());
  const PendingCall& first = *matched.members[0];
  for (const PendingCall* call : matched.members)
    if (!agree(first.desc, call->desc)) {
      fail_locked(head_ + ": " + names_[0] + " started " + first.text + ", but " +
                  names_[call->rank] + " " + call->text + " as its " +
                  std::to_string(call->index + 1) +
                  ". call; all ranks must start the same calls in the same order");
      throw_failure();
    }
  begin(matched);
}

void GroupState::begin(MatchedCalls& matched) {
  const bool message = comm_support::point_to_point(matched.members[0]->desc.kind);
  for (PendingCall* call : matched.members) {
    call->state = PendingCall::State::kMatched;
    call->matched = &matched;
  }
  matched.running = 0;
  if (!has_work(matched.members[0]->desc)) return complete(matched);
  matched.left = message ? 1 : size_;
  for (PendingCall* call : matched.members) {
    if (message && call->desc.kind == PLAIT_COMM_SEND) continue;  // the receiver copies
    ready_[call->rank].push(*call);
    wake_[call->rank].notify_all();
  }
}

void GroupState::complete(MatchedCalls& matched) {
  for (PendingCall* call : matched.members) {
    call->state = PendingCall::State::kDone;
    call->matched = nullptr;
    wake_[call->rank].notify_all();
  }
  free_.push_back(&matched);
}

void GroupState::execute_chunk(Lock& lock, PendingCall& call) noexcept {
  MatchedCalls& matched = *call.matched;
  ++matched.running;
  lock.unlock();
  run_chunk(matched, call, failed_);
  lock.lock();
  --matched.running;
  if (failed_)
    wake_all();  // for threads that wait until its memory is unused
  else if (--matched.left == 0)
    complete(matched);
}

void GroupState::finish(PendingCall& call) {
  Lock lock(mutex_);
  if (call.state == PendingCall::State::kIdle)
    fail(PLAIT_ERR_STATE,
         head_ + ": " + call.text + " is finished without start(); start it first");
  while (call.state != PendingCall::State::kDone) {
    if (failed_) {
      if (!call.matched || call.matched->running == 0) break;
      wake_[call.rank].wait(lock);
    } else if (PendingCall* chunk = ready_[call.rank].pop()) {
      execute_chunk(lock, *chunk);  // faster than waiting for this rank's thread to wake up
    } else if (call.state == PendingCall::State::kMatched) {
      wake_[call.rank].wait(lock);
    } else if (wake_[call.rank].wait_until(lock, call.deadline) == std::cv_status::timeout &&
               call.state == PendingCall::State::kStarted && !failed_) {
      fail_locked(overdue(call));
    }
  }
  const bool done = call.state == PendingCall::State::kDone;
  call.state = PendingCall::State::kIdle;
  call.matched = nullptr;
  if (!done) throw_failure();
}

void GroupState::cancel(PendingCall& call) noexcept {
  Lock lock(mutex_);
  if (call.state == PendingCall::State::kIdle || call.state == PendingCall::State::kDone) return;
  fail_locked(head_ + ": " + names_[call.rank] + " destroyed " + call.text + " before it finished");
  while (call.matched && call.matched->running > 0) wake_[call.rank].wait(lock);
}

void GroupState::abort(std::string_view text) noexcept {
  const Lock lock(mutex_);
  try {
    fail_locked(std::string(text));
  } catch (const std::bad_alloc&) {
    fail_locked({});
  }
}

// From here on no chunk starts, and no call is in any queue.
void GroupState::fail_locked(std::string text) noexcept {
  if (failed_) return;
  failure_ = std::move(text);
  failed_ = true;
  for (auto* queues : {&waiting_, &sends_, &receives_, &ready_})
    for (CallQueue& queue : *queues) queue.clear();
  wake_all();
}

void GroupState::throw_failure() const { fail(PLAIT_ERR_PEER, failure_); }

bool GroupState::absent(const PendingCall& call, uint32_t rank) const {
  if (comm_support::point_to_point(call.desc.kind)) return rank == call.desc.peer;
  return started_[rank] <= call.index;
}

std::string GroupState::overdue(const PendingCall& call) const {
  std::string missing;
  for (uint32_t r = 0; r < size_; ++r)
    if (absent(call, r)) missing += (missing.empty() ? "" : ", ") + names_[r];
  return head_ + ": " + call.text + " of " + names_[call.rank] + " timed out; missing: " + missing;
}

std::string GroupState::list(Presence presence) const {
  std::string text;
  for (uint32_t r = 0; r < size_; ++r)
    if (presence_[r] == presence) text += (text.empty() ? "" : ", ") + names_[r];
  return text;
}

void GroupState::wake_all() {
  for (auto& wake : wake_) wake.notify_all();
}

}  // namespace plait::comm_threads
