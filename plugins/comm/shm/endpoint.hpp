// One rank's endpoint of a group: it connects, waits for the other ranks, and fails as a whole.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <plait/plugin.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/comm/members.hpp"
#include "plugins/comm/shm/file.hpp"
#include "plugins/comm/shm/futex_event.hpp"
#include "plugins/comm/shm/process_monitor.hpp"

namespace plait::comm_shm {

class FileServer;

class GroupEndpoint {
 public:
  // Returns when all members have joined. Throws PLAIT_ERR_PEER naming the missing ones, or with
  // the reason of a member that could not join. A group of one shares nothing.
  GroupEndpoint(const Host& host, const plait_comm_setup& setup);
  ~GroupEndpoint();
  GroupEndpoint(const GroupEndpoint&) = delete;
  GroupEndpoint& operator=(const GroupEndpoint&) = delete;

  const comm_support::Members& members() const { return members_; }
  bool is_single() const { return !file_; }
  File& file() const { return *file_; }
  double timeout() const { return timeout_; }

  // Ends the group here and on the other ranks. The first text is kept. [thread: any]
  void fail_all(std::string text) noexcept;
  // Like fail_all(), but the text that the other ranks get names this rank.
  void abort(std::string_view text) noexcept;
  // Throws the group's failure, if it has failed; another rank may have published it.
  void check() {
    if (failed_ || (file_ && file_->control().failure != kNone)) throw_failure();
  }
  [[noreturn]] void throw_failure();
  // Fails the group with "<head>: <text>" and throws that.
  [[noreturn]] void fail_here(const std::string& text);

  void wake(uint32_t rank) const noexcept { notify(file_->rank_state(rank).event); }
  void wake_others() const noexcept;
  bool has_left(uint32_t rank) const { return file_->rank_state(rank).presence == kLeft; }
  // Which of the members in `which` have left or died.
  std::vector<bool> gone(const std::vector<bool>& which);

  // Waits until ready(), which may do work; calls poll_peers() every few milliseconds. Both may
  // throw and should call check().
  template <class Ready, class Poll>
  void wait(Ready&& ready, Poll&& poll_peers);

 private:
  void rendezvous(const Store& store);
  void connect(const Store& store, std::optional<FileServer>& server);
  void share_file(const Store& store, std::optional<FileServer>& server,
                  Clock::time_point deadline);
  void open_file(const Store& store, Clock::time_point deadline);
  bool is_absent(uint32_t rank) const { return file_->rank_state(rank).presence == kExpected; }
  bool all_present() const;
  void join();
  [[noreturn]] void fail_missing() const;
  std::string reason_for_others(const std::exception& error) const;
  void record_failure(std::string text) noexcept;
  void broadcast_failure(std::string_view text) noexcept;
  std::string received_failure();

  const comm_support::Members members_;
  const double timeout_, connect_timeout_;
  const Spinner spinner_;
  std::unique_ptr<File> file_;
  ProcessMonitor monitor_;

  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::string failure_;  // guarded by mutex_
};

template <class Ready, class Poll>
void GroupEndpoint::wait(Ready&& ready, Poll&& poll_peers) {
  constexpr std::chrono::milliseconds kSlice(20);
  if (spinner_.spin(ready)) return;
  while (!wait_event(file_->rank_state(members_.rank).event, kSlice, ready)) {
    if (ready()) return;
    poll_peers();
  }
}

}  // namespace plait::comm_shm
