#include "engine/runtime/control/job_state.hpp"

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"

namespace plait::runtime::control {
namespace {

constexpr size_t kMaxBytes = 256 << 20;
constexpr size_t kMaxWaits = 4096;  // pending requests of one rank
constexpr size_t kMaxGroups =
    16;  // per rank: an axis and a channel have at most as many groups as ranks
constexpr uint32_t kMaxNamed = 32;  // ranks in one message

// Of a message that holds nothing else.
std::string text_alone(PayloadReader& r) {
  std::string text(r.text(kMaxText));
  r.done();
  return text;
}

}  // namespace

std::string last_seen(const std::string& host, uint64_t process_id, int64_t step) {
  const std::string ran = "; it ran as process " + std::to_string(process_id) + " on " + host;
  return ran + (step < 0 ? "" : " and was last heard of in step " + std::to_string(step));
}

std::string key_error(std::string_view key) {
  if (key.empty() || key.size() > kMaxKey)
    return strf("has %zu characters, expected 1 to %zu", key.size(), kMaxKey);
  const auto fine = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.';
  };
  return std::all_of(key.begin(), key.end(), fine) ? "" : "may only have letters, digits and dots";
}

JobState::JobState(uint32_t size, double connect_timeout, std::string where, Time now,
                   double leave_grace, Send send)
    : connect_timeout_(connect_timeout),
      leave_grace_(leave_grace),
      where_(std::move(where)),
      send_(std::move(send)),
      join_deadline_(now + to_duration(connect_timeout)),
      ranks_(size),
      order_check_(kMaxGroups * size_t{size}) {}

std::string JobState::name(uint32_t rank) const {
  const auto& arrival = ranks_[rank].arrival;
  return arrival && !arrival->peer.name.empty() ? arrival->peer.name
                                                : "rank " + std::to_string(rank);
}

std::optional<EndReason> JobState::admit(uint32_t rank, uint32_t size) {
  if (phase_ == JobPhase::kOver) return end_;
  if (size != ranks_.size() || rank >= size) {
    const EndReason other{PLAIT_ERR_CONFIG,
                          strf("rank %u counts %u ranks in the job, rank 0 counts %zu; "
                               "start all ranks with the same number",
                               rank, size, ranks_.size())};
    // It is an authenticated rank, so the job cannot start.
    if (phase_ == JobPhase::kRendezvous) end(other.code, other.text);
    return other;
  }
  Rank& one = ranks_[rank];
  if (one.ever_connected)
    return EndReason{PLAIT_ERR_CONFIG,
                     name(rank) + " is already connected" +
                         (one.arrival ? " (process " + std::to_string(one.arrival->process_id) +
                                            " on " + one.arrival->peer.host + ")"
                                      : "") +
                         "; start each rank of a job once"};
  one.connected = one.ever_connected = true;
  ++n_connected_;
  return std::nullopt;
}

void JobState::handle(uint32_t rank, const Frame& frame, Time now) {
  PayloadReader r(frame.payload);
  if (frame.kind == MessageKind::kArrive) return arrive(rank, frame, now);
  if (frame.kind == MessageKind::kGoodbye) {
    r.done();
    return goodbye(rank, now);
  }
  // Also of a rank that failed before it could introduce itself.
  if (frame.kind == MessageKind::kAbort)
    return end(PLAIT_ERR_PEER, name(rank) + " aborted: " + text_alone(r));
  if (!ranks_[rank].arrival)
    fail_data("[control] a message from a rank that has not sent its arrival");
  switch (frame.kind) {
    case MessageKind::kHeartbeat:
      ranks_[rank].step = r.i64();
      return r.done();
    case MessageKind::kCall:
      return begin_call(rank, r);
    case MessageKind::kSet:
      return set(rank, r);
    case MessageKind::kGet:
      return get(rank, r);
    case MessageKind::kCancel:
      return cancel(rank, r);
    case MessageKind::kForget:
      return forget(r);
    case MessageKind::kGroupProgress:
      return compare_calls(rank, frame);
    case MessageKind::kCallDescription:
      return add_call_description(rank, r);
    case MessageKind::kKeys:
      return phase_ == JobPhase::kRendezvous ? add_keys(rank, frame) : void();
    case MessageKind::kReport:
      return end(PLAIT_ERR_PEER, text_alone(r));
    default:
      fail_data("[control] an unexpected message");
  }
}

// All ranks make the same calls in the same order: two ranks that differ would wait for each other
// until a time-out.
void JobState::begin_call(uint32_t rank, PayloadReader r) {
  Rank& own = ranks_[rank];
  own.calls = r.u64();
  own.call = r.text(kMaxName);
  r.done();
  for (uint32_t other = 0; other < ranks_.size(); ++other) {
    const Rank& they = ranks_[other];
    if (they.calls != own.calls || they.call == own.call) continue;
    const uint32_t first = std::min(rank, other), second = std::max(rank, other);
    return end(PLAIT_ERR_PEER, "the ranks make different calls: in call " +
                                   std::to_string(own.calls) + " " + name(first) + " called '" +
                                   ranks_[first].call + "', " + name(second) + " called '" +
                                   ranks_[second].call +
                                   "'; all ranks must make the same calls in the same order");
  }
}

// Members of a group that start different calls would wait for each other until a time-out, or
// receive data of the wrong call.
void JobState::compare_calls(uint32_t rank, const Frame& frame) {
  const GroupProgress progress = decode_progress(frame);
  if (phase_ != JobPhase::kRunning || desync_) return;
  desync_ = order_check_.add(rank, progress);
  if (!desync_) return;
  for (const size_t i : {0, 1}) {
    if (!is_connected(desync_->ranks[i])) call_texts_[i] = "a different call";
    send_(desync_->ranks[i],
          FrameWriter(MessageKind::kAskCall).text(desync_->group).u64(desync_->number).done());
  }
}

void JobState::add_call_description(uint32_t rank, PayloadReader r) {
  const std::string_view text = r.text(kMaxName);
  r.done();
  if (!desync_) fail_data("[control] an answer without a request");
  for (const size_t i : {0, 1})
    if (desync_->ranks[i] == rank) call_texts_[i] = text;
  if (call_texts_[0].empty() || call_texts_[1].empty()) return;
  const auto [first, second] = desync_->ranks;
  end(PLAIT_ERR_PEER, "the ranks of group '" + desync_->group +
                          "' started different collectives: as call " +
                          std::to_string(desync_->number) + " " + name(first) + " started " +
                          call_texts_[0] + ", " + name(second) + " " + call_texts_[1] +
                          "; all members of a group must start the same calls in the same order");
}

void JobState::arrive(uint32_t rank, const Frame& frame, Time now) {
  Rank& one = ranks_[rank];
  if (one.arrival) fail_data("[control] a second arrival of the same rank");
  one.arrival = decode_arrival(frame);
  ++n_arrived_;
  if (phase_ != JobPhase::kRendezvous) return;
  join_deadline_ =
      std::min(join_deadline_,
               now + to_duration(static_cast<double>(one.arrival->connect_timeout_ms) / 1000));
  if (n_arrived_ == ranks_.size()) start();
}

void JobState::start() {
  if (const std::string fault = duplicate_host_names(); !fault.empty())
    return end(PLAIT_ERR_CONFIG, fault);
  if (request_keys()) return;  // the job ends when the differing ranks have sent their keys
  phase_ = JobPhase::kRunning;
  std::string all;
  for (uint32_t i = 0; i < ranks_.size(); ++i)
    all += encode(Introduction{i, ranks_[i].arrival->peer, ranks_[i].arrival->process_id});
  all += FrameWriter(MessageKind::kStart).done();
  for (uint32_t to = 0; to < ranks_.size(); ++to) send_(to, all);
}

// Whether ranks differ; then some of them are asked for their keys.
bool JobState::request_keys() {
  for (uint32_t i = 1; i < ranks_.size(); ++i) {
    const uint64_t sections =
        differing_sections(ranks_[i].arrival->identity, ranks_[0].arrival->identity);
    if (sections == 0 || ++n_differing_ > kMaxNamed) continue;
    ranks_[i].asked_sections = sections;
    ranks_[0].asked_sections |= sections;
  }
  for (uint32_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].asked_sections == 0) continue;
    ++n_pending_keys_;
    send_(i, FrameWriter(MessageKind::kAskKeys).u64(ranks_[i].asked_sections).done());
  }
  return n_differing_ > 0;
}

void JobState::add_keys(uint32_t rank, const Frame& frame) {
  Rank& one = ranks_[rank];
  bytes_ += frame.payload.size();
  if (one.asked_sections == 0 || one.has_all_keys || bytes_ > kMaxBytes)
    fail_data("[control] keys without a request");
  one.has_all_keys = control::add_keys(frame, one.keys);
  if (one.has_all_keys && --n_pending_keys_ == 0) end(PLAIT_ERR_CONFIG, differences());
}

// Ranks on one machine are recognised by the host name.
std::string JobState::duplicate_host_names() const {
  std::map<std::string, uint32_t> first;
  for (uint32_t i = 0; i < ranks_.size(); ++i) {
    const Arrival& one = *ranks_[i].arrival;
    const uint32_t other = first.emplace(one.peer.host, i).first->second;
    const std::string& machine = ranks_[other].arrival->machine;
    if (!machine.empty() && !one.machine.empty() && machine != one.machine)
      return name(other) + " and " + name(i) + " run on two machines that are both called " +
             one.peer.host + "; give each machine a different host name";
  }
  return "";
}

std::string JobState::differences() const {
  std::string all =
      "the ranks of the job differ; give all of them the same configuration, and install the same "
      "engine and plugins:";
  for (uint32_t i = 1; i < ranks_.size(); ++i)
    if (const Rank& one = ranks_[i]; one.has_all_keys && ranks_[0].has_all_keys)
      all += control::differences(name(i), one.arrival->peer.host, one.asked_sections, one.keys,
                                  ranks_[0].keys);
  if (n_pending_keys_ > 0)
    all += strf("\n  %u ranks did not send their configuration in time", n_pending_keys_);
  if (n_differing_ > kMaxNamed) all += strf("\n  %u more ranks differ", n_differing_ - kMaxNamed);
  return all;
}

void JobState::reply(uint32_t rank, uint32_t request, uint32_t code, std::string_view text) {
  send_(rank, FrameWriter(MessageKind::kReply).u32(request).u32(code).raw(text).done());
}

void JobState::set(uint32_t rank, PayloadReader r) {
  const uint32_t request = r.u32();
  const std::string key(r.text(kMaxKey));
  const std::string_view value = r.text(kMaxValue);
  r.done();
  if (!key_error(key).empty()) fail_data("[control] an invalid key");
  if (phase_ != JobPhase::kRunning) return reply(rank, request, PLAIT_ERR_PEER, end_.text);
  if (values_.contains(key))
    return reply(rank, request, PLAIT_ERR_STATE, "the key is already in use");
  if (key.size() + value.size() > kMaxBytes - bytes_)
    return reply(rank, request, PLAIT_ERR_MEMORY,
                 "rank 0 keeps " + human_bytes(kMaxBytes) + " of values at most");
  values_.emplace(key, value);
  bytes_ += key.size() + value.size();
  reply(rank, request, PLAIT_OK, "");
  const auto waiting = waits_.extract(key);
  if (waiting.empty()) return;
  for (const Wait& one : waiting.mapped()) {
    ranks_[one.rank].waits.erase(one.request);
    reply(one.rank, one.request, PLAIT_OK, value);
  }
}

void JobState::get(uint32_t rank, PayloadReader r) {
  const uint32_t request = r.u32();
  const std::string key(r.text(kMaxKey));
  r.done();
  if (phase_ != JobPhase::kRunning) return reply(rank, request, PLAIT_ERR_PEER, end_.text);
  if (const auto found = values_.find(key); found != values_.end())
    return reply(rank, request, PLAIT_OK, found->second);
  if (ranks_[rank].waits.size() >= kMaxWaits)
    return reply(rank, request, PLAIT_ERR_STATE, "too many requests are pending");
  if (!ranks_[rank].waits.emplace(request, key).second) fail_data("[control] a duplicate request");
  waits_[key].push_back({rank, request});
}

// Every request has one reply: of a cancelled one either the value that was published before, or
// that there is none.
void JobState::cancel(uint32_t rank, PayloadReader r) {
  const uint32_t request = r.u32();
  r.done();
  if (!ranks_[rank].waits.contains(request)) return;  // its reply is already on the way
  withdraw(rank, request);
  reply(rank, request, PLAIT_ERR_CANCELLED, "");
}

void JobState::withdraw(uint32_t rank, uint32_t request) {
  const auto found = ranks_[rank].waits.find(request);
  const auto waiting = waits_.find(found->second);
  std::erase_if(waiting->second,
                [&](const Wait& one) { return one.rank == rank && one.request == request; });
  if (waiting->second.empty()) waits_.erase(waiting);
  ranks_[rank].waits.erase(found);
}

void JobState::forget(PayloadReader r) {
  const std::string key(r.text(kMaxKey));
  r.done();
  const auto found = values_.find(key);
  if (found == values_.end()) return;
  bytes_ -= key.size() + found->second.size();
  values_.erase(found);
}

void JobState::disconnect(uint32_t rank) {
  ranks_[rank].connected = false;
  --n_connected_;
  while (!ranks_[rank].waits.empty()) withdraw(rank, ranks_[rank].waits.begin()->first);
}

// Ranks that leave shortly after each other have finished. A rank that leaves alone would leave the
// others waiting for it.
void JobState::goodbye(uint32_t rank, Time now) {
  disconnect(rank);
  ranks_[rank].left = true;
  if (phase_ == JobPhase::kRendezvous)
    return end(PLAIT_ERR_PEER, name(rank) + " left before all ranks were connected");
  if (leave_deadline_) return;
  leave_deadline_ = now + to_duration(leave_grace_);
  first_left_ = rank;
}

void JobState::mark_lost(uint32_t rank, const std::string& how) {
  if (!ranks_[rank].connected) return;
  disconnect(rank);
  const auto& arrival = ranks_[rank].arrival;
  end(PLAIT_ERR_PEER,
      name(rank) + " is lost: " + how +
          (arrival ? last_seen(arrival->peer.host, arrival->process_id, ranks_[rank].step)
                   : " while the ranks connected"));
}

void JobState::shut_down() {
  end(PLAIT_ERR_PEER, name(0) + " left the job while others were still working");
}

Time JobState::due() const {
  if (phase_ == JobPhase::kRendezvous) return join_deadline_;
  return phase_ == JobPhase::kRunning && leave_deadline_ ? *leave_deadline_ : Time::max();
}

void JobState::tick(Time now) {
  if (now < due()) return;
  if (phase_ == JobPhase::kRendezvous)
    all_arrived() ? end(PLAIT_ERR_CONFIG, differences()) : end(PLAIT_ERR_PEER, missing());
  else if (n_connected_ > 0)
    end(PLAIT_ERR_PEER, name(first_left_) + " left the job while others were still working");
  else
    leave_deadline_ = Time::max();
}

std::string JobState::missing_names() const {
  std::string names;
  uint32_t n = 0;
  for (uint32_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].arrival) continue;
    if (++n <= kMaxNamed) names += (names.empty() ? "rank " : ", rank ") + std::to_string(i);
  }
  if (n > kMaxNamed) names += strf(" and %u more", n - kMaxNamed);
  return names + strf(" of %zu", ranks_.size());
}

std::string JobState::missing() const {
  return strf("the ranks did not connect within %g s; missing: ", connect_timeout_) +
         missing_names() + "; check that they run and can reach rank 0 at " + where_;
}

void JobState::end(uint32_t code, std::string text) {
  if (phase_ == JobPhase::kOver) return;  // keep the first reason
  phase_ = JobPhase::kOver;
  end_ = {code, std::string(shortened(text, kMaxText))};
  const std::string bytes = encode(end_);
  for (uint32_t i = 0; i < ranks_.size(); ++i) send_(i, bytes);
}

}  // namespace plait::runtime::control
