#include "plugins/comm/shm/endpoint.hpp"

#include <cstdio>
#include <cstring>
#include <new>
#include <thread>

namespace plait::comm_shm {

GroupEndpoint::GroupEndpoint(const Host& host, const plait_comm_setup& setup)
    : members_("shm", setup), timeout_(setup.timeout), spinner_(more_than_cores(setup.size)) {
  for (uint32_t r = 0; r < members_.size; ++r)
    if (members_.hosts[r] != members_.hosts[members_.rank])
      fail(PLAIT_ERR_CONFIG, members_.head() + ": " + members_.names[r] + " runs on host '" +
                                 members_.hosts[r] + "', expected '" +
                                 members_.hosts[members_.rank] + "' like " +
                                 members_.names[members_.rank] +
                                 ": ranks on several hosts share no memory; choose another "
                                 "topology.backend, such as gloo");
  if (members_.size == 1) return;
  try {
    rendezvous(Store(host, setup.store), setup.connect_timeout);
  } catch (const std::exception& e) {
    if (file_) fail_all(e.what());
    throw;
  }
  monitor_.start(*file_, members_.rank, members_.size);
}

GroupEndpoint::~GroupEndpoint() {
  if (!file_) return;
  file_->rank_state(members_.rank).presence = kLeft;
  wake_others();
}

void GroupEndpoint::publish_file(const Store& store) {
  try {
    file_ = std::make_unique<File>(members_);
  } catch (const Error& e) {
    store.set("shm", std::string("!") + e.what());
    throw;
  }
  store.set("shm", file_->name());
}

void GroupEndpoint::open_file(const Store& store) {
  const std::string& first = members_.names[0];
  const std::string text =
      store.get("shm", members_.head() + " did not connect; missing: " + first +
                           "; check that it is running");
  if (text.starts_with("!"))
    fail(PLAIT_ERR_PEER, members_.head() + ": " + first + " failed: " + text.substr(1));
  file_ = std::make_unique<File>(members_, text);
}

// Rank 0 waits for all ranks; the others wait until rank 0 says that all have joined.
void GroupEndpoint::rendezvous(const Store& store, double seconds) {
  const auto deadline = after(seconds);
  const uint32_t own = members_.rank;
  own == 0 ? publish_file(store) : open_file(store);
  RankState& state = file_->rank_state(own);
  uint32_t expected = kExpected;
  ProcessMonitor::record_process(state);
  if (!state.presence.compare_exchange_strong(expected, kJoined))
    fail(PLAIT_ERR_PEER, members_.head() + ": " + members_.names[own] +
                             " has joined already; give each rank its own number");
  wake(0);
  const auto absent = [&](uint32_t r) { return file_->rank_state(r).presence == kExpected; };
  const auto all_joined = [&] {
    bool all = own == 0 || file_->control().all_joined == 1;
    for (uint32_t r = 0; all && own == 0 && r < members_.size; ++r) all = !absent(r);
    if (!all) check();  // a group that fails right after connecting did connect
    return all;
  };
  wait(all_joined, [&] {
    if (Clock::now() < deadline) return;
    const std::string missing = members_.list(absent);
    char limit[32];
    std::snprintf(limit, sizeof limit, "%g s", seconds);
    fail(PLAIT_ERR_PEER, members_.head() + " did not connect within " + limit +
                             "; missing: " + (missing.empty() ? members_.names[0] : missing) +
                             "; check that it is running");
  });
  file_->unlink();
  if (own != 0) return;
  file_->control().all_joined = 1;
  wake_others();
}

void GroupEndpoint::wake_others() const noexcept {
  for (uint32_t r = 0; r < members_.size; ++r)
    if (r != members_.rank) wake(r);
}

std::vector<bool> GroupEndpoint::gone(const std::vector<bool>& which) {
  std::vector<bool> gone(members_.size);
  for (uint32_t r = 0; r < members_.size; ++r)
    gone[r] = which[r] && (has_left(r) || monitor_.ended(r));
  return gone;
}

void GroupEndpoint::record_failure(std::string text) noexcept {
  const std::lock_guard lock(mutex_);
  if (failed_) return;
  failure_ = std::move(text);
  failed_ = true;
}

void GroupEndpoint::broadcast_failure(std::string_view text) noexcept {
  if (!file_) return;
  Control& control = file_->control();
  uint32_t none = kNone;
  if (control.failure.compare_exchange_strong(none, kBeingWritten)) {
    const size_t bytes = std::min<size_t>(text.size(), kFailureBytes);
    std::memcpy(control.failure_text, text.data(), bytes);
    control.failure_bytes = static_cast<uint32_t>(bytes);
    control.failure = kWritten;
  }
  for (uint32_t r = 0; r < members_.size; ++r) wake(r);
}

// The failure that another rank has published; that rank may have died while writing it.
std::string GroupEndpoint::received_failure() {
  const Control& control = file_->control();
  const auto deadline = after(0.05);
  while (control.failure != kWritten && Clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  if (control.failure != kWritten) return members_.head() + ": another rank has ended the group";
  return std::string(control.failure_text, std::min<size_t>(control.failure_bytes, kFailureBytes));
}

void GroupEndpoint::fail_all(std::string text) noexcept {
  if (failed_) return;
  broadcast_failure(text);
  record_failure(std::move(text));
}

void GroupEndpoint::abort(std::string_view text) noexcept {
  if (failed_) return;
  try {
    record_failure(std::string(text));
    broadcast_failure(members_.head() + ": " + members_.names[members_.rank] +
                      " ended the group: " + std::string(text));
  } catch (const std::bad_alloc&) {
    record_failure({});
    broadcast_failure("[shm] out of memory");
  }
}

void GroupEndpoint::throw_failure() {
  if (!failed_) record_failure(received_failure());
  const std::lock_guard lock(mutex_);
  fail(PLAIT_ERR_PEER, failure_);
}

void GroupEndpoint::fail_here(const std::string& text) {
  fail_all(members_.head() + ": " + text);
  throw_failure();
}

}  // namespace plait::comm_shm
