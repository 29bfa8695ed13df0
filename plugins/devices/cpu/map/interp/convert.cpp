#include "plugins/devices/cpu/map/interp/convert.hpp"

#include <plait/tensor.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kit/half.hpp"

namespace plait::cpu::interp {
namespace {

float narrow(float f) { return f; }

// Rounds to odd, so that a second rounding to 16 bits gives the same result as a single one.
float narrow(double d) {
  const float f = static_cast<float>(d);
  if (static_cast<double>(f) == d || std::isnan(f)) return f;
  uint32_t u = std::bit_cast<uint32_t>(f);
  if (std::abs(static_cast<double>(f)) > std::abs(d)) --u;
  return std::bit_cast<float>(u | 1);
}

// Truncates toward zero and saturates; NaN becomes 0. The limits are powers of two (or 255), hence
// exact in T.
template <class I, class T>
I to_integer(T v) {
  if (std::isnan(v)) return 0;
  if (v <= static_cast<T>(std::numeric_limits<I>::min())) return std::numeric_limits<I>::min();
  if (v >= static_cast<T>(std::numeric_limits<I>::max())) {
    // i32 from f32: the largest f32 below 2^31, the same limit as in the generated code.
    if constexpr (std::is_same_v<I, int32_t> && std::is_same_v<T, float>) return 2147483520;
    return std::numeric_limits<I>::max();
  }
  return static_cast<I>(v);
}

template <class From, class T, class F>
void each_in(const void* src, T* dst, size_t n, F f) {
  if constexpr (std::is_same_v<From, T>) return void(std::memmove(dst, src, n * sizeof(T)));
  const From* s = static_cast<const From*>(src);
  for (size_t i = 0; i < n; ++i) dst[i] = static_cast<T>(f(s[i]));
}

template <class To, class T, class F>
void each_out(const T* src, void* dst, size_t n, F f) {
  if constexpr (std::is_same_v<To, T>) return void(std::memmove(dst, src, n * sizeof(T)));
  To* d = static_cast<To*>(dst);
  for (size_t i = 0; i < n; ++i) d[i] = static_cast<To>(f(src[i]));
}

}  // namespace

template <class T>
void load_elements(uint32_t dtype, const void* src, T* dst, size_t n) {
  const auto same = [](auto v) { return v; };
  switch (dtype) {
    case PLAIT_F32:
      return each_in<float>(src, dst, n, same);
    case PLAIT_F64:
      return each_in<double>(src, dst, n, same);
    case PLAIT_BF16:
      return each_in<uint16_t>(src, dst, n, kit::from_bf16);
    case PLAIT_F16:
      return each_in<uint16_t>(src, dst, n, kit::from_f16);
    case PLAIT_I32:
      return each_in<int32_t>(src, dst, n, same);
    case PLAIT_I64:
      return each_in<int64_t>(src, dst, n, same);
    case PLAIT_U8:
      return each_in<uint8_t>(src, dst, n, same);
    case PLAIT_BOOL:
      return each_in<uint8_t>(src, dst, n, [](uint8_t v) { return v != 0; });
  }
}

template <class T>
void store_elements(uint32_t dtype, const T* src, void* dst, size_t n) {
  switch (dtype) {
    case PLAIT_F32:
      return each_out<float>(src, dst, n, [](T v) { return static_cast<float>(v); });
    case PLAIT_F64:
      return each_out<double>(src, dst, n, [](T v) { return v; });
    case PLAIT_BF16:
      return each_out<uint16_t>(src, dst, n, [](T v) { return kit::to_bf16(narrow(v)); });
    case PLAIT_F16:
      return each_out<uint16_t>(src, dst, n, [](T v) { return kit::to_f16(narrow(v)); });
    case PLAIT_I32:
      return each_out<int32_t>(src, dst, n, to_integer<int32_t, T>);
    case PLAIT_I64:
      return each_out<int64_t>(src, dst, n, to_integer<int64_t, T>);
    case PLAIT_U8:
      return each_out<uint8_t>(src, dst, n, to_integer<uint8_t, T>);
    case PLAIT_BOOL:
      return each_out<uint8_t>(src, dst, n, [](T v) { return v != 0; });
  }
}

template void load_elements<float>(uint32_t, const void*, float*, size_t);
template void load_elements<double>(uint32_t, const void*, double*, size_t);
template void store_elements<float>(uint32_t, const float*, void*, size_t);
template void store_elements<double>(uint32_t, const double*, void*, size_t);

}  // namespace plait::cpu::interp
