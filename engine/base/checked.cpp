#include "engine/base/checked.hpp"

namespace plait {

void fail_overflow(const std::string& what, const std::string& sum, uint32_t code) {
  fail(code, "[size] " + what + ": " + sum + " is out of range; use a smaller value");
}

uint64_t checked_round_up(uint64_t value, uint64_t unit, const std::string& what, uint32_t code) {
  const uint64_t over = value % unit;
  return over == 0 ? value : checked_add(value, unit - over, what, code);
}

}  // namespace plait
