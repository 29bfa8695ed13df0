#include "engine/base/clock.hpp"

#include <chrono>
#include <ctime>

namespace plait {

uint64_t monotonic_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string utc_stamp(double unix_seconds) {
  const auto whole = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  gmtime_r(&whole, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &parts)};
}

}  // namespace plait
