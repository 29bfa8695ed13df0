#include "engine/base/log.hpp"

namespace plait {

void Log::set_sink(Sink sink) {
  const std::lock_guard lock(mutex_);
  sink_ = std::move(sink);
}

int Log::listen(Sink listener) {
  const std::lock_guard lock(mutex_);
  listeners_.push_back({next_listener_, std::move(listener)});
  ++n_listeners_;
  return next_listener_++;
}

void Log::unlisten(int id) {
  const std::lock_guard lock(mutex_);
  for (Listener& l : listeners_) {
    if (l.id != id) continue;
    l.id = kGone;
    --n_listeners_;
  }
  if (writer_.load(std::memory_order_relaxed) != std::this_thread::get_id()) sweep();
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
    if (level >= PLAIT_LOG_INFO)
      for (const Listener& l : listeners_)
        if (l.id != kGone) l.sink(level, text);
  } catch (...) {
    // A failing sink cannot be reported anywhere.
  }
  writer_.store({}, std::memory_order_relaxed);
  sweep();  // listeners that were removed by a sink
}

}  // namespace plait
