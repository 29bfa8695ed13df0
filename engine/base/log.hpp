// The log: one sink with its level, and listeners with theirs. Each engine owns one; there is no
// global log.
#pragma once

#include <plait/base.h>

#include <atomic>
#include <concepts>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace plait {

// PLAIT_LOG_* of "debug", "info", "warning" or "error"; of any other text PLAIT_LOG_INFO.
uint32_t log_level_of(std::string_view name);

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
  // No lock: two loads.
  bool wants(uint32_t level) const {
    return level >= this->level() || level >= lowest_heard_.load(std::memory_order_relaxed);
  }

  // Adds a listener for every line of `level` and above, whatever the sink's level (used for a
  // run's log file). Returns an id for unlisten(). Listeners are called like the sink, one at a
  // time. Both functions may be called from inside a sink, which may open and close an object that
  // listens.
  int listen(uint32_t level, Sink listener);
  void unlisten(int id);

  // Never throws: if the sink throws, it is disabled for that line. A line logged from inside a
  // sink (by calling the engine) is dropped.
  void write(uint32_t level, std::string_view text) noexcept;
  // text() makes the line: it is called only where wants() says so.
  template <class Text>
  requires std::invocable<const Text&>
  void write(uint32_t level, const Text& text) noexcept {
    if (!wants(level)) return;
    try {
      write(level, std::string_view(text()));
    } catch (...) {
      // Out of memory: the line is lost.
    }
  }
  template <class Text>
  requires std::invocable<const Text&>
  void debug(const Text& text) noexcept { write(PLAIT_LOG_DEBUG, text); }
  template <class Text>
  requires std::invocable<const Text&>
  void info(const Text& text) noexcept { write(PLAIT_LOG_INFO, text); }
  void debug(std::string_view text) noexcept { write(PLAIT_LOG_DEBUG, text); }
  void info(std::string_view text) noexcept { write(PLAIT_LOG_INFO, text); }
  void warn(std::string_view text) noexcept { write(PLAIT_LOG_WARN, text); }
  void error(std::string_view text) noexcept { write(PLAIT_LOG_ERROR, text); }

 private:
  static constexpr int kGone = -1;
  static constexpr uint32_t kNobody = UINT32_MAX;
  struct Listener {
    int id;  // kGone: removed during the iteration
    uint32_t level;
    Sink sink;
  };

  void note_lowest();
  void sweep();

  std::recursive_mutex mutex_;
  std::atomic<std::thread::id> writer_{};  // the thread inside write()
  Sink sink_;
  std::list<Listener> listeners_;  // a list: listeners may be added during the iteration
  int next_listener_ = 0;
  std::atomic<uint32_t> lowest_heard_{kNobody};  // level of a listener
  std::atomic<uint32_t> level_{PLAIT_LOG_INFO};
};

// A line, and when it was written.
struct LogLine {
  double unix_seconds = 0;
  uint32_t level = PLAIT_LOG_INFO;
  std::string text;
};

// Keeps the lines of `level` and above that a log is told, up to take(). log: may be null.
class LogRecord {
 public:
  LogRecord(Log* log, uint32_t level);
  ~LogRecord() { stop(); }
  LogRecord(const LogRecord&) = delete;
  LogRecord& operator=(const LogRecord&) = delete;
  std::vector<LogLine> take() {
    stop();  // other threads may write
    return std::move(lines_);
  }

 private:
  void stop();

  Log* log_;
  std::vector<LogLine> lines_;
  int listener_ = -1;
};

}  // namespace plait
