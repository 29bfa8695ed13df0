#include "engine/base/log.hpp"

namespace plait {

void Log::set_sink(Sink sink) {
  const std::lock_guard lock(mutex_);
  sink_ = std::move(sink);
}

void Log::write(uint32_t level, std::string_view text) noexcept {
  if (!wants(level)) return;
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  try {
    const std::lock_guard lock(mutex_);
    if (sink_) sink_(level, text);
  } catch (...) {
    // There is nobody left to tell.
  }
}

}  // namespace plait
