#include "engine/program/elements.hpp"

#include <algorithm>
#include <cstring>

#include "engine/base/error.hpp"
#include "engine/program/shape.hpp"

namespace plait::program {
namespace {

[[noreturn]] void refuse(uint32_t dtype) {
  fail_internal("[program] an element of f32 or f64 is expected, found " +
                std::string(dtype_name(dtype)));
}

// An exponent of ones alone is that of infinities and NaNs.
template <class Bits>
bool no_full_exponent(const void* data, int64_t n, Bits exponent) {
  const auto* bytes = static_cast<const char*>(data);
  for (int64_t i = 0; i < n; ++i) {
    Bits bits;
    std::memcpy(&bits, bytes + static_cast<size_t>(i) * sizeof bits, sizeof bits);
    if ((bits & exponent) == exponent) return false;
  }
  return true;
}

}  // namespace

double load_element(uint32_t dtype, const void* data, int64_t i) {
  if (dtype == PLAIT_F32) return static_cast<const float*>(data)[i];
  if (dtype == PLAIT_F64) return static_cast<const double*>(data)[i];
  refuse(dtype);
}

void store_element(uint32_t dtype, void* data, int64_t i, double v) {
  if (dtype == PLAIT_F32)
    static_cast<float*>(data)[i] = static_cast<float>(v);
  else if (dtype == PLAIT_F64)
    static_cast<double*>(data)[i] = v;
  else
    refuse(dtype);
}

bool all_finite(uint32_t dtype, const void* data, int64_t n) {
  switch (dtype) {
    case PLAIT_F32:
      return no_full_exponent<uint32_t>(data, n, 0x7f800000u);
    case PLAIT_F64:
      return no_full_exponent<uint64_t>(data, n, 0x7ff0000000000000u);
    case PLAIT_BF16:
      return no_full_exponent<uint16_t>(data, n, 0x7f80u);
    case PLAIT_F16:
      return no_full_exponent<uint16_t>(data, n, 0x7c00u);
    default:
      return true;
  }
}

}  // namespace plait::program
