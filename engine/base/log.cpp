#include "engine/base/log.hpp"

namespace plait {

void Log::set_sink(Sink sink) {
  const std::lock_guard lock(mutex_);
  sink_ = std::move(sink);
}

int Log::listen(Sink listener) {
  const std::lock_guard lock(mutex_);
  listeners_.emplace_back(next_listener_, std::move(listener));
  n_listeners_ = static_cast<int>(listeners_.size());
  return next_listener_++;
}

void Log::unlisten(int id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(listeners_, [id](const auto& l) { return l.first == id; });
  n_listeners_ = static_cast<int>(listeners_.size());
}

void Log::write(uint32_t level, std::string_view text) noexcept {
  const std::thread::id me = std::this_thread::get_id();
  if (!wants(level) || writer_.load(std::memory_order_relaxed) == me) return;
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  try {
    const std::lock_guard lock(mutex_);
    writer_.store(me, std::memory_order_relaxed);
    struct Done {
      std::atomic<std::thread::id>& writer;
      ~Done() { writer.store({}, std::memory_order_relaxed); }
    } const done{writer_};
    if (sink_ && level >= this->level()) sink_(level, text);
    if (level >= PLAIT_LOG_INFO)
      for (const auto& [id, listener] : listeners_) listener(level, text);
  } catch (...) {
    // There is nobody left to tell.
  }
}

}  // namespace plait
