// One rank's end of a group: it comes about, waits for others, and fails as a whole.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <plait/plugin.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/comm/members.hpp"
#include "plugins/comm/shm/bell.hpp"
#include "plugins/comm/shm/file.hpp"
#include "plugins/comm/shm/watch.hpp"

namespace plait::comm_shm {

class End {
 public:
  // Returns when all members are here. Throws PLAIT_ERR_PEER naming the missing. A group of one shares nothing.
  End(const Host& host, const plait_comm_setup& setup);
  ~End();
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  const comm_support::Members& members() const { return members_; }
  bool alone() const { return !file_; }
  File& file() const { return *file_; }
  double timeout() const { return timeout_; }

  // Ends the group here and on the other ranks. The first text stays. [thread: any]
  void fail_all(std::string text) noexcept;
  // Likewise, but others are told who gave this text.
  void abort(std::string_view text) noexcept;
  // Throws the failure of the group, if it has failed; learns it from the others.
  void check() {
    if (failed_ || (file_ && file_->control().failure != kNone)) throw_failure();
  }
  [[noreturn]] void throw_failure();
  // Fails the group with "<head>: <text>" and throws that.
  [[noreturn]] void fail_here(const std::string& text);

  void wake(uint32_t rank) const noexcept { ring(file_->line(rank).bell); }
  void wake_others() const noexcept;
  bool has_left(uint32_t rank) const { return file_->line(rank).presence == kLeft; }
  // Which of the members in `which` have left or died.
  std::vector<bool> gone(const std::vector<bool>& which);

  // Until ready(), which may do work. look_around() every few milliseconds in between. Both may throw, and should check().
  template <class Ready, class Look>
  void wait(Ready&& ready, Look&& look_around);

 private:
  void come_together(const Store& store, double seconds);
  void lay_down(const Store& store);
  void find(const Store& store);
  void keep(std::string text) noexcept;
  void tell(std::string_view text) noexcept;
  std::string told();

  const comm_support::Members members_;
  const double timeout_;
  const Spinner spinner_;
  std::unique_ptr<File> file_;
  Watch watch_;

  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::string failure_;  // under the lock
};

template <class Ready, class Look>
void End::wait(Ready&& ready, Look&& look_around) {
  constexpr std::chrono::milliseconds kSlice(20);
  if (spinner_.spin(ready)) return;
  while (!sleep(file_->line(members_.rank).bell, kSlice, ready)) {
    if (ready()) return;
    look_around();
  }
}

}  // namespace plait::comm_shm
