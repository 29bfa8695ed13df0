#include "engine/base/clock.hpp"

#include <chrono>
#include <cmath>
#include <ctime>

#include "engine/base/text.hpp"

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

std::string utc_text(double unix_seconds) {
  const auto thousandths = static_cast<int64_t>(std::floor(unix_seconds * 1e3));
  const auto whole = static_cast<std::time_t>(thousandths / 1000);
  std::tm parts{};
  gmtime_r(&whole, &parts);
  char text[32];
  const std::string second(text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts));
  return second + strf(".%03dZ", static_cast<int>(thousandths % 1000));
}

std::string duration_text(double seconds) {
  return seconds < 0.1 ? strf("%.2g ms", seconds * 1e3) : strf("%.2f s", seconds);
}

}  // namespace plait
