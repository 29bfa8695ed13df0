#include "engine/base/log.hpp"

#include <algorithm>
#include <iterator>

#include "engine/base/clock.hpp"

namespace plait {

uint32_t log_level_of(std::string_view name) {
  constexpr std::string_view kNames[] = {"debug", "info", "warning", "error"};
  const auto found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) return PLAIT_LOG_INFO;
  return static_cast<uint32_t>(found - std::begin(kNames));  // PLAIT_LOG_DEBUG is 0
}

void Log::set_sink(Sink sink) {
  const std::lock_guard lock(mutex_);
  sink_ = std::move(sink);
}

int Log::listen(uint32_t level, Sink listener) {
  const std::lock_guard lock(mutex_);
  listeners_.push_back({next_listener_, level, std::move(listener)});
  note_lowest();
  return next_listener_++;
}

void Log::unlisten(int id) {
  const std::lock_guard lock(mutex_);
  for (Listener& l : listeners_)
    if (l.id == id) l.id = kGone;
  note_lowest();
  if (writer_.load(std::memory_order_relaxed) != std::this_thread::get_id()) sweep();
}

void Log::note_lowest() {
  uint32_t lowest = kNobody;
  for (const Listener& l : listeners_)
    if (l.id != kGone) lowest = std::min(lowest, l.level);
  lowest_heard_.store(lowest, std::memory_order_relaxed);
}

void Log::sweep() {
  listeners_.remove_if([](const Listener& l) { return l.id == kGone; });
}

void Log::write(uint32_t level, std::string_view text) noexcept {
  const std::thread::id me = std::this_thread::get_id();
  if (!wants(level) || writer_.load(std::memory_order_relaxed) == me) return;
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  const std::lock_guard lock(mutex_);
  writer_.store(me, std::memory_order_relaxed);
  try {
    if (sink_ && level >= this->level()) sink_(level, text);
    for (const Listener& l : listeners_)
      if (l.id != kGone && level >= l.level) l.sink(level, text);
  } catch (...) {
    // A failing sink cannot be reported anywhere.
  }
  writer_.store({}, std::memory_order_relaxed);
  sweep();  // listeners that were removed by a sink
}

LogRecord::LogRecord(Log* log, uint32_t level) : log_(log) {
  if (!log_) return;
  listener_ = log_->listen(level, [this](uint32_t of, std::string_view text) {
    lines_.push_back({unix_seconds(), of, std::string(text)});
  });
}

void LogRecord::stop() {
  if (Log* const log = std::exchange(log_, nullptr)) log->unlisten(listener_);
}

}  // namespace plait
