#include "engine/runtime/control/job_termination.hpp"

#include <new>
#include <string>
#include <utility>

namespace plait::runtime::control {

bool JobTermination::set(EndReason end) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (end_.code != PLAIT_OK) return false;
    end_ = std::move(end);
  }
  wake_();
  std::unique_lock lock(mutex_);
  run(lock);
  return true;
}

void JobTermination::fail() noexcept {
  try {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& e) {
      set({PLAIT_ERR_PEER, std::string("the control channel of this rank broke: ") + e.what()});
    } catch (...) {
      set({PLAIT_ERR_PEER, "the control channel of this rank broke"});
    }
  } catch (...) {
    set({PLAIT_ERR_MEMORY, "out of memory"});  // short enough to need no allocation
  }
}

void JobTermination::on_end(EndCallback call) {
  std::unique_lock lock(mutex_);
  const std::thread::id nobody, me = std::this_thread::get_id();
  idle_.wait(lock, [&] { return runs_on_ == nobody || runs_on_ == me; });
  call_ = std::move(call);
  if (end_.code != PLAIT_OK) run(lock);
}

// end_ is not written after this point.
void JobTermination::run(std::unique_lock<std::mutex>& lock) {
  if (!call_) return;
  const EndCallback call = std::exchange(call_, {});
  const std::thread::id outer = std::exchange(runs_on_, std::this_thread::get_id());
  lock.unlock();
  try {
    call(end_.text);
  } catch (...) {
    // An exception cannot be reported anywhere.
  }
  lock.lock();
  runs_on_ = outer;
  idle_.notify_all();
}

EndReason JobTermination::get() const {
  const std::lock_guard lock(mutex_);
  return end_;
}

}  // namespace plait::runtime::control
