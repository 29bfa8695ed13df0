// Reads and writes elements of any type as double, the arithmetic of the plain kernels. Integers
// beyond 2^53 lose digits this way; kernels that only move elements copy bytes instead.
#pragma once

#include <plait/tensor.h>

#include <cstdint>

namespace plait::support {

// to[i] = from[first + i * stride], i in [0, n), converted to double.
void read_elements(uint32_t dtype, const void* from, int64_t first, int64_t stride, int64_t n,
                   double* to);

// to[first + i * stride] = from[i], converted: floats to nearest even (via f32 if the type has 16
// or 8 bits; those of 8 saturate), integers toward zero and saturated with NaN as 0, bool as
// value != 0.
void write_elements(uint32_t dtype, void* to, int64_t first, int64_t stride, int64_t n,
                    const double* from);

inline double read_element(uint32_t dtype, const void* from, int64_t i) {
  double v;
  read_elements(dtype, from, i, 1, 1, &v);
  return v;
}
inline void write_element(uint32_t dtype, void* to, int64_t i, double v) {
  write_elements(dtype, to, i, 1, 1, &v);
}

// Element i of a tensor of indices (i32, i64, u8).
inline int64_t read_index(uint32_t dtype, const void* from, int64_t i) {
  if (dtype == PLAIT_I64) return static_cast<const int64_t*>(from)[i];
  if (dtype == PLAIT_I32) return static_cast<const int32_t*>(from)[i];
  return static_cast<const uint8_t*>(from)[i];
}

}  // namespace plait::support
