// The log: one sink, one level. Each engine owns one; there is no global log.
#pragma once

#include <plait/base.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

namespace plait {

// Thread-safe. The sink is called by one thread at a time, with one line without a trailing
// newline.
class Log {
 public:
  using Sink = std::function<void(uint32_t level, std::string_view text)>;

  Log() = default;  // no sink: lines are dropped
  explicit Log(Sink sink, uint32_t level = PLAIT_LOG_INFO)
      : sink_(std::move(sink)), level_(level) {}
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void set_sink(Sink sink);
  void set_level(uint32_t level) { level_.store(level, std::memory_order_relaxed); }
  uint32_t level() const { return level_.load(std::memory_order_relaxed); }
  bool wants(uint32_t level) const {
    return level >= this->level() ||
           (level >= PLAIT_LOG_INFO && n_listeners_.load(std::memory_order_relaxed) > 0);
  }

  // Adds a listener for every line of PLAIT_LOG_INFO and above, whatever the sink's level (used for
  // a run's log file). Returns an id for unlisten(). Listeners are called like the sink, one at a
  // time. Both functions may be called from inside a sink, which may open and close an object that
  // listens.
  int listen(Sink listener);
  void unlisten(int id);

  // Never throws: if the sink throws, it is disabled for that line. A line logged from inside a
  // sink (by calling the engine) is dropped.
  void write(uint32_t level, std::string_view text) noexcept;
  void debug(std::string_view text) noexcept { write(PLAIT_LOG_DEBUG, text); }
  void info(std::string_view text) noexcept { write(PLAIT_LOG_INFO, text); }
  void warn(std::string_view text) noexcept { write(PLAIT_LOG_WARN, text); }
  void error(std::string_view text) noexcept { write(PLAIT_LOG_ERROR, text); }

 private:
  static constexpr int kGone = -1;
  struct Listener {
    int id;  // kGone: removed during the iteration
    Sink sink;
  };

  void sweep();

  std::recursive_mutex mutex_;
  std::atomic<std::thread::id> writer_{};  // the thread inside write()
  Sink sink_;
  std::list<Listener> listeners_;  // a list: listeners may be added during the iteration
  int next_listener_ = 0;
  std::atomic<int> n_listeners_{0};
  std::atomic<uint32_t> level_{PLAIT_LOG_INFO};
};

}  // namespace plait
