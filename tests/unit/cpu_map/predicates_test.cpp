// Comparisons of generated code, turned round.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>

#include "plugins/devices/cpu/map/jit/lir.hpp"

namespace plait::cpu::jit {
namespace {

constexpr std::array kAll{kEq, kUnord, kNeq, kOrd, kLt, kLe, kNlt, kNle, kNge, kNgt, kGe, kGt};

bool holds(Pred p, float a, float b) {
  switch (p) {
    case kEq:
      return a == b;
    case kUnord:
      return std::isunordered(a, b);
    case kNeq:
      return a != b;
    case kOrd:
      return !std::isunordered(a, b);
    case kLt:
      return a < b;
    case kLe:
      return a <= b;
    case kNlt:
      return !(a < b);
    case kNle:
      return !(a <= b);
    case kNge:
      return !(a >= b);
    case kNgt:
      return !(a > b);
    case kGe:
      return a >= b;
    case kGt:
      return a > b;
  }
  return false;
}

}  // namespace

TEST_CASE("a comparison that is negated, or whose sides are swapped") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const Pred p : kAll)
    for (const float a : {1.0f, 2.0f, kNan})
      for (const float b : {1.0f, 2.0f, kNan}) {
        CAPTURE(static_cast<int>(p));
        CAPTURE(a);
        CAPTURE(b);
        CHECK(holds(inverse(p), a, b) == !holds(p, a, b));
        CHECK(holds(swapped(p), b, a) == holds(p, a, b));
      }
}

}  // namespace plait::cpu::jit
