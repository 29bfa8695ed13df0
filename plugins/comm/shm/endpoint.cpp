#include "plugins/comm/shm/endpoint.hpp"

#include <cstdio>
#include <cstring>
#include <new>
#include <optional>
#include <stdexcept>
#include <thread>

#include "plugins/comm/shm/handover.hpp"

namespace plait::comm_shm {
namespace {

// Where a member says why it cannot join, for those that have no file in which they could read it.
constexpr const char* kFailed = "shm.failed";
constexpr size_t kMostFailedBytes = 1000;  // Store::get_within() takes 1024

// Throws what a member has said there, or an error of the store.
void check_published(const Store& store) {
  if (!store.has_get_within()) return;
  if (const auto text = store.get_within(kFailed, 0, "")) fail(PLAIT_ERR_PEER, *text);
}

}  // namespace

GroupEndpoint::GroupEndpoint(const Host& host, const plait_comm_setup& setup)
    : members_("shm", setup),
      timeout_(setup.timeout),
      connect_timeout_(setup.connect_timeout),
      spinner_(more_than_cores(setup.size)) {
  for (uint32_t r = 0; r < members_.size; ++r)
    if (members_.hosts[r] != members_.hosts[members_.rank])
      fail(PLAIT_ERR_CONFIG, members_.head() + ": " + members_.names[r] + " runs on host '" +
                                 members_.hosts[r] + "', expected '" +
                                 members_.hosts[members_.rank] + "' like " +
                                 members_.names[members_.rank] +
                                 ": ranks on several hosts share no memory; choose another "
                                 "topology.backend, such as gloo");
  if (members_.size == 1) return;
  rendezvous(Store(host, setup.store));
  monitor_.start(*file_, members_.rank, members_.size);
}

GroupEndpoint::~GroupEndpoint() {
  if (!file_) return;
  file_->rank_state(members_.rank).presence = kLeft;
  wake_others();
}

bool GroupEndpoint::all_present() const {
  for (uint32_t r = 0; r < members_.size; ++r)
    if (is_absent(r)) return false;
  return true;
}

void GroupEndpoint::fail_missing() const {
  const std::string missing =
      file_ ? members_.list([this](uint32_t r) { return is_absent(r); }) : "";
  char limit[32];
  std::snprintf(limit, sizeof limit, "%g s", connect_timeout_);
  fail(PLAIT_ERR_PEER, members_.head() + " did not connect within " + limit +
                           "; missing: " + (missing.empty() ? members_.names[0] : missing) +
                           "; check that it is running");
}

// Rank 0 gives its file to the other ranks.
void GroupEndpoint::share_file(const Store& store, std::optional<FileServer>& server,
                               Clock::time_point deadline) {
  try {
    file_ = std::make_unique<File>(members_);
    server.emplace(file_->fd(), std::string(file_->key()));
  } catch (const std::exception& e) {
    store.set("shm", std::string("!") + e.what());
    throw;
  }
  join();
  store.set("shm", server->invitation());
  // A rank that has found the file on another way asks for nothing.
  while (server->served() + 1 < members_.size && !all_present()) {
    const uint32_t before = server->served();
    server->serve(std::chrono::milliseconds(10));
    check();
    // While ranks come, there is no time for questions over the network.
    if (server->served() == before) check_published(store);
    if (Clock::now() >= deadline) fail_missing();
  }
  server.reset();  // a rank that asks again would wait in its queue: refused, it looks in /proc
}

void GroupEndpoint::open_file(const Store& store, Clock::time_point deadline) {
  const std::string& first = members_.names[0];
  const std::string text =
      store.get("shm", members_.head() + " did not connect; missing: " + first +
                           "; check that it is running");
  if (text.starts_with("!"))
    fail(PLAIT_ERR_PEER, members_.head() + ": " + first + " failed: " + text.substr(1));
  try {
    ReceivedFile received = accept_file(text, [&] {
      check();
      if (Clock::now() >= deadline) fail_missing();
    });
    file_ = std::make_unique<File>(members_, std::move(received.fd), received.key);
  } catch (const std::runtime_error& e) {
    check_published(store);  // where rank 0 has failed, that is the reason
    fail(PLAIT_ERR_PEER, members_.head() + ": " + members_.names[members_.rank] +
                             " does not get the shared memory of " + first + ": " + e.what());
  }
  join();
}

void GroupEndpoint::join() {
  RankState& state = file_->rank_state(members_.rank);
  uint32_t expected = kExpected;
  ProcessMonitor::record_process(state);
  if (!state.presence.compare_exchange_strong(expected, kJoined))
    fail(PLAIT_ERR_PEER, members_.head() + ": " + members_.names[members_.rank] +
                             " has joined already; give each rank its own number");
  wake(0);
}

// What the other members are told of an error of this one.
std::string GroupEndpoint::reason_for_others(const std::exception& error) const {
  const std::string text = error.what(),
                    own = members_.head() + ": " + members_.names[members_.rank];
  // Errors of the store have their text with the host.
  if (text.empty()) return own + " could not use the store of the job; see its error";
  const auto* const known = dynamic_cast<const Error*>(&error);
  const bool tells_who = known && known->code() == PLAIT_ERR_PEER;
  return tells_who ? text : own + " failed: " + text;
}

void GroupEndpoint::rendezvous(const Store& store) {
  std::optional<FileServer> server;  // whom it refuses looks for the reason, so that comes first
  try {
    connect(store, server);
  } catch (const std::exception& e) {
    const std::string reason = reason_for_others(e);
    if (file_) fail_all(reason);
    store.try_set(kFailed, std::string_view(reason).substr(0, kMostFailedBytes));
    throw;
  }
}

// Rank 0 waits for all ranks; the others wait until rank 0 says that all have joined.
void GroupEndpoint::connect(const Store& store, std::optional<FileServer>& server) {
  const auto deadline = after(connect_timeout_);
  const bool first = members_.rank == 0;
  first ? share_file(store, server, deadline) : open_file(store, deadline);
  const auto all_joined = [&] {
    const bool all = first ? all_present() : file_->control().all_joined == 1;
    if (!all) check();  // a group that fails right after connecting did connect
    return all;
  };
  wait(all_joined, [&] {
    if (first) check_published(store);
    if (Clock::now() >= deadline) fail_missing();
  });
  if (!first) return;
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
