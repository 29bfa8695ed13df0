// The log: one sink, one level. An engine owns one; nothing is global.
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

// Thread-safe. The sink is called by one thread at a time, with one line that has no newline at its end.
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

  // A second reader of every line of PLAIT_LOG_INFO and above, whatever the level for the sink (a run's log file). Returns an id for
  // unlisten(). Called like the sink, one at a time. Both may be called from a sink, which may open and close what listens.
  int listen(Sink listener);
  void unlisten(int id);

  // Never throws: a sink that does is switched off for that line. A line that a sink causes, by calling the engine, is dropped.
  void write(uint32_t level, std::string_view text) noexcept;
  void debug(std::string_view text) noexcept { write(PLAIT_LOG_DEBUG, text); }
  void info(std::string_view text) noexcept { write(PLAIT_LOG_INFO, text); }
  void warn(std::string_view text) noexcept { write(PLAIT_LOG_WARN, text); }
  void error(std::string_view text) noexcept { write(PLAIT_LOG_ERROR, text); }

 private:
  static constexpr int kGone = -1;
  struct Listener {
    int id;  // kGone: taken away while the list was walked through
    Sink sink;
  };

  void sweep();

  std::recursive_mutex mutex_;
  std::atomic<std::thread::id> writer_{};  // who is inside write()
  Sink sink_;
  std::list<Listener> listeners_;  // a list: one may be added while it is walked through
  int next_listener_ = 0;
  std::atomic<int> n_listeners_{0};
  std::atomic<uint32_t> level_{PLAIT_LOG_INFO};
};

}  // namespace plait
