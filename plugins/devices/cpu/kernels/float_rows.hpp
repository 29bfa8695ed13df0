// Rows of f32, bf16 or f16 as f32: read where they lie, or widened into a buffer; and written back.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kit/dtype.hpp"
#include "kit/shape.hpp"
#include "plugins/devices/cpu/half/convert.hpp"

namespace plait::cpu {

class FloatRows {
 public:
  FloatRows() = default;
  FloatRows(uint32_t dtype, int64_t width) : width_(width), bytes_(kit::dtype_bytes(dtype)) {
    if (bytes_ == 2) {
      widen_ = widen_function(dtype);
      narrow_ = narrow_function(dtype);
    }
  }
  static bool takes(const plait_shape& s) {
    return s.dtype == PLAIT_F32 || s.dtype == PLAIT_BF16 || s.dtype == PLAIT_F16;
  }
  bool wide() const { return !widen_; }
  int64_t width() const { return width_; }
  // Where row r begins.
  const void* at(const void* base, int64_t r) const {
    return static_cast<const char*>(base) + r * width_ * static_cast<int64_t>(bytes_);
  }
  void* at(void* base, int64_t r) const {
    return static_cast<char*>(base) + r * width_ * static_cast<int64_t>(bytes_);
  }
  // n rows from r on; in the buffer if they are widened.
  const float* read(const void* base, int64_t r, int64_t n, float* buffer) const {
    if (wide()) return static_cast<const float*>(at(base, r));
    widen_(static_cast<const uint16_t*>(at(base, r)), buffer, n * width_);
    return buffer;
  }
  // The same, always in the buffer.
  void copy(const void* base, int64_t r, int64_t n, float* buffer) const {
    if (n == 0 || width_ == 0) return;
    if (wide())
      std::memcpy(buffer, at(base, r), static_cast<size_t>(n * width_) * sizeof(float));
    else
      widen_(static_cast<const uint16_t*>(at(base, r)), buffer, n * width_);
  }
  // Where to make n rows from r on: in place, or in the buffer, from which write() puts them there.
  float* target(void* base, int64_t r, float* buffer) const {
    return wide() ? static_cast<float*>(at(base, r)) : buffer;
  }
  void write(const float* from, void* base, int64_t r, int64_t n) const {
    if (from == at(base, r) || n == 0 || width_ == 0) return;
    if (wide())
      std::memcpy(at(base, r), from, static_cast<size_t>(n * width_) * sizeof(float));
    else
      narrow_(from, static_cast<uint16_t*>(at(base, r)), n * width_);
  }
  void zero(void* base, int64_t r, int64_t n) const {
    if (n > 0 && width_ > 0) std::memset(at(base, r), 0, static_cast<size_t>(n * width_) * bytes_);
  }

 private:
  int64_t width_ = 0;
  uint64_t bytes_ = 4;
  WidenFunction widen_ = nullptr;
  NarrowFunction narrow_ = nullptr;
};

// Floats of workspace, in whole cache lines.
inline int64_t line_floats(int64_t n) { return (n + 15) / 16 * 16; }

}  // namespace plait::cpu
