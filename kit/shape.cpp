#include "kit/shape.hpp"

#include <algorithm>

namespace plait::kit {

int64_t elements(const plait_shape& s) {
  int64_t n = 1;
  for (uint32_t i = 0; i < s.ndim && i < PLAIT_MAX_NDIM; ++i)
    if (__builtin_mul_overflow(n, s.dims[i], &n))
      throw Invalid("[shape] too many elements: " + text(s));
  return n;
}

uint64_t bytes(const plait_shape& s) {
  uint64_t n = 0;
  if (__builtin_mul_overflow(static_cast<uint64_t>(elements(s)), dtype_bytes(s.dtype), &n))
    throw Invalid("[shape] too many bytes: " + text(s));
  return n;
}

bool same_dims(const plait_shape& a, const plait_shape& b) {
  return a.ndim == b.ndim && std::equal(a.dims, a.dims + a.ndim, b.dims);
}

bool same(const plait_shape& a, const plait_shape& b) {
  return a.dtype == b.dtype && same_dims(a, b);
}

std::string text(const plait_shape& s) {
  std::string t = std::string(dtype_name(s.dtype)) + " (";
  for (uint32_t i = 0; i < s.ndim && i < PLAIT_MAX_NDIM; ++i)
    t += (i ? ", " : "") + std::to_string(s.dims[i]);
  return t + ")";
}

}  // namespace plait::kit
