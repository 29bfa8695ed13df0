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
  if (!wants(level)) return;
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  try {
    const std::lock_guard lock(mutex_);
    if (sink_ && level >= this->level()) sink_(level, text);
    if (level >= PLAIT_LOG_INFO)
      for (const auto& [id, listener] : listeners_) listener(level, text);
  } catch (...) {
    // There is nobody left to tell.
  }
}

}  // namespace plait
