#include "plugins/comm/threads/hub.hpp"

#include <algorithm>

#include "plugins/comm/threads/pieces.hpp"

namespace plait::comm_threads {

using comm_support::Members;

namespace {

Clock::time_point after(double seconds) {
  // A year is for ever, and does not overflow the clock.
  const auto wait = std::chrono::duration<double>(std::clamp(seconds, 0.0, 3.2e7));
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(wait);
}

std::string in_seconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%g s", seconds);
  return text;
}

// What must agree: for messages the two ends' types and extents, else everything.
bool agree(const plait_comm_desc& a, const plait_comm_desc& b) {
  if (a.dtype != b.dtype || a.n != b.n) return false;
  return comm_support::point_to_point(a.kind) ||
         (a.kind == b.kind && a.reduction == b.reduction && a.peer == b.peer);
}

}  // namespace

void CallQueue::push(Call& call) {
  call.next = nullptr;
  (tail_ ? tail_->next : head_) = &call;
  tail_ = &call;
}
Call* CallQueue::pop() {
  Call* call = head_;
  if (call && !(head_ = call->next)) tail_ = nullptr;
  return call;
}

Hub::Hub(const Members& first)
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

void Hub::join(const Members& member) {
  const Lock lock(mutex_);
  if (failed_) throw_failure();
  if (member.size != size_ || presence_[member.rank] != Presence::kExpected)
    fail(PLAIT_ERR_PEER, head_ + ": " + member.names[member.rank] + " joins as rank " +
                             std::to_string(member.rank) + " of " + std::to_string(member.size) +
                             ", expected a rank not yet here of " + std::to_string(size_) +
                             "; give each rank its own place");
  presence_[member.rank] = Presence::kHere;
  wake_all();
}

void Hub::wait_for_all(const Members& member, double seconds) {
  Lock lock(mutex_);
  const auto all_here = [&] {
    return failed_ || std::none_of(presence_.begin(), presence_.end(),
                                   [](Presence p) { return p == Presence::kExpected; });
  };
  if (!wake_[member.rank].wait_until(lock, after(seconds), all_here))
    fail_locked(head_ + " did not come about within " + in_seconds(seconds) +
                "; missing: " + list(Presence::kExpected) + "; look whether it runs");
  if (failed_) throw_failure();
}

void Hub::leave(uint32_t rank) noexcept {
  const Lock lock(mutex_);
  if (presence_[rank] == Presence::kLeft) return;
  presence_[rank] = Presence::kLeft;
  // Others that wait for this rank would wait in vain.
  bool missed = false;
  for (uint32_t r = 0; r < size_; ++r) {
    missed = missed || !waiting_[r].empty();
    for (const auto* side : {&sends_, &receives_})
      missed = missed || !(*side)[r * size_ + rank].empty() || !(*side)[rank * size_ + r].empty();
  }
  if (missed) fail_locked(head_ + ": " + names_[rank] + " has left while calls wait for it");
  wake_all();
}

void Hub::work(uint32_t rank) noexcept {
  Lock lock(mutex_);
  while (presence_[rank] != Presence::kLeft) {
    if (Call* call = ready_[rank].pop())
      run_piece(lock, *call);
    else
      wake_[rank].wait(lock);
  }
}

void Hub::reserve() {
  const Lock lock(mutex_);
  free_.reserve(ops_.size() + 1);
  ops_.emplace_back().members.reserve(std::max(size_, 2u));
  free_.push_back(&ops_.back());
}

void Hub::start(Call& call, double timeout) {
  const Lock lock(mutex_);
  if (failed_) throw_failure();
  if (call.state != Call::State::kIdle)
    fail(PLAIT_ERR_STATE,
         head_ + ": " + call.text + " is started again before finish(); finish it first");
  refuse_absent(call);
  call.state = Call::State::kStarted;
  call.deadline = after(timeout);
  comm_support::point_to_point(call.desc.kind) ? enqueue_message(call) : enqueue_collective(call);
}

// A call that can never be matched any more fails at once.
void Hub::refuse_absent(const Call& call) {
  const bool message = comm_support::point_to_point(call.desc.kind);
  for (uint32_t r = 0; r < size_; ++r)
    if (presence_[r] == Presence::kLeft && (!message || r == call.desc.peer)) {
      fail_locked(head_ + ": " + call.text + " cannot start: " + names_[r] + " has left");
      throw_failure();
    }
}

void Hub::enqueue_message(Call& call) {
  const bool send = call.desc.kind == PLAIT_COMM_SEND;
  const uint32_t from = send ? call.rank : call.desc.peer, to = send ? call.desc.peer : call.rank;
  const size_t pair = size_t{from} * size_ + to;
  Call* other = (send ? receives_ : sends_)[pair].pop();
  if (!other) return (send ? sends_ : receives_)[pair].push(call);
  if (!agree(call.desc, other->desc)) {
    fail_locked(head_ + ": " + names_[call.rank] + " started " + call.text + ", but " +
                names_[other->rank] + " " + other->text + "; both ends must name the same");
    throw_failure();
  }
  Op& op = *free_.back();
  free_.pop_back();
  op.members.assign({send ? &call : other, send ? other : &call});
  begin(op);
}

void Hub::enqueue_collective(Call& call) {
  call.place = started_[call.rank]++;
  waiting_[call.rank].push(call);
  if (std::none_of(waiting_.begin(), waiting_.end(),
                   [](const CallQueue& queue) { return queue.empty(); }))
    match_collective();
}

void Hub::match_collective() {
  Op& op = *free_.back();
  free_.pop_back();
  op.members.clear();
  for (CallQueue& queue : waiting_) op.members.push_back(queue.pop());
  const Call& first = *op.members[0];
  for (const Call* call : op.members)
    if (!agree(first.desc, call->desc)) {
      fail_locked(head_ + ": " + names_[0] + " started " + first.text + ", but " +
                  names_[call->rank] + " " + call->text + " as its " +
                  std::to_string(call->place + 1) +
                  ". call; all ranks must start the same calls in the same order");
      throw_failure();
    }
  begin(op);
}

void Hub::begin(Op& op) {
  const bool message = comm_support::point_to_point(op.members[0]->desc.kind);
  for (Call* call : op.members) {
    call->state = Call::State::kMatched;
    call->op = &op;
  }
  op.running = 0;
  if (!has_work(op.members[0]->desc)) return complete(op);
  op.left = message ? 1 : size_;
  for (Call* call : op.members) {
    if (message && call->desc.kind == PLAIT_COMM_SEND) continue;  // the receiver copies
    ready_[call->rank].push(*call);
    wake_[call->rank].notify_all();
  }
}

void Hub::complete(Op& op) {
  for (Call* call : op.members) {
    call->state = Call::State::kDone;
    call->op = nullptr;
    wake_[call->rank].notify_all();
  }
  free_.push_back(&op);
}

void Hub::run_piece(Lock& lock, Call& call) noexcept {
  Op& op = *call.op;
  ++op.running;
  lock.unlock();
  do_piece(op, call, failed_);
  lock.lock();
  --op.running;
  if (failed_)
    wake_all();  // whoever waits for its memory to be let go
  else if (--op.left == 0)
    complete(op);
}

void Hub::finish(Call& call) {
  Lock lock(mutex_);
  if (call.state == Call::State::kIdle)
    fail(PLAIT_ERR_STATE,
         head_ + ": " + call.text + " is finished without start(); start it first");
  while (call.state != Call::State::kDone) {
    if (failed_) {
      if (!call.op || call.op->running == 0) break;
      wake_[call.rank].wait(lock);
    } else if (Call* piece = ready_[call.rank].pop()) {
      run_piece(lock, *piece);  // rather than wait for this rank's thread to wake up
    } else if (call.state == Call::State::kMatched) {
      wake_[call.rank].wait(lock);
    } else if (wake_[call.rank].wait_until(lock, call.deadline) == std::cv_status::timeout &&
               call.state == Call::State::kStarted && !failed_) {
      fail_locked(overdue(call));
    }
  }
  const bool done = call.state == Call::State::kDone;
  call.state = Call::State::kIdle;
  call.op = nullptr;
  if (!done) throw_failure();
}

void Hub::forget(Call& call) noexcept {
  Lock lock(mutex_);
  if (call.state == Call::State::kIdle || call.state == Call::State::kDone) return;
  fail_locked(head_ + ": " + names_[call.rank] + " gave up " + call.text + " before its end");
  while (call.op && call.op->running > 0) wake_[call.rank].wait(lock);
}

void Hub::abort(std::string_view text) noexcept {
  const Lock lock(mutex_);
  try {
    fail_locked(std::string(text));
  } catch (const std::bad_alloc&) {
    fail_locked({});
  }
}

// From here on no piece begins, and no call is in any queue.
void Hub::fail_locked(std::string text) noexcept {
  if (failed_) return;
  failure_ = std::move(text);
  failed_ = true;
  for (auto* queues : {&waiting_, &sends_, &receives_, &ready_})
    for (CallQueue& queue : *queues) queue.clear();
  wake_all();
}

void Hub::throw_failure() const { fail(PLAIT_ERR_PEER, failure_); }

bool Hub::absent(const Call& call, uint32_t rank) const {
  if (comm_support::point_to_point(call.desc.kind)) return rank == call.desc.peer;
  return started_[rank] <= call.place;
}

std::string Hub::overdue(const Call& call) const {
  std::string missing;
  for (uint32_t r = 0; r < size_; ++r)
    if (absent(call, r)) missing += (missing.empty() ? "" : ", ") + names_[r];
  return head_ + ": " + call.text + " of " + names_[call.rank] + " timed out; missing: " + missing;
}

std::string Hub::list(Presence presence) const {
  std::string text;
  for (uint32_t r = 0; r < size_; ++r)
    if (presence_[r] == presence) text += (text.empty() ? "" : ", ") + names_[r];
  return text;
}

void Hub::wake_all() {
  for (auto& wake : wake_) wake.notify_all();
}

}  // namespace plait::comm_threads
