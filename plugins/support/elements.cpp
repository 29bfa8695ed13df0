#include "plugins/support/elements.hpp"

#include <cmath>
#include <limits>

#include "kit/float8.hpp"
#include "kit/half.hpp"

namespace plait::support {
namespace {

template <class T, class Convert>
void read_as(const void* from, int64_t first, int64_t stride, int64_t n, double* to,
             Convert convert) {
  const T* p = static_cast<const T*>(from) + first;
  for (int64_t i = 0; i < n; ++i) to[i] = convert(p[i * stride]);
}

template <class T, class Convert>
void write_as(void* to, int64_t first, int64_t stride, int64_t n, const double* from,
              Convert convert) {
  T* p = static_cast<T*>(to) + first;
  for (int64_t i = 0; i < n; ++i) p[i * stride] = convert(from[i]);
}

template <class T>
T saturate(double v) {
  using Limits = std::numeric_limits<T>;
  // One past the largest value: a power of two, hence exact in double, unlike the largest i64.
  constexpr double kEnd = static_cast<double>(uint64_t{1} << (Limits::digits - 1)) * 2;
  if (std::isnan(v)) return 0;
  if (v >= kEnd) return Limits::max();
  if (v <= static_cast<double>(Limits::min())) return Limits::min();
  return static_cast<T>(v);
}

}  // namespace

void read_elements(uint32_t dtype, const void* from, int64_t first, int64_t stride, int64_t n,
                   double* to) {
  const auto plain = [](auto v) { return static_cast<double>(v); };
  switch (dtype) {
    case PLAIT_F32:
      return read_as<float>(from, first, stride, n, to, plain);
    case PLAIT_F64:
      return read_as<double>(from, first, stride, n, to, plain);
    case PLAIT_BF16:
      return read_as<uint16_t>(from, first, stride, n, to,
                               [](uint16_t v) { return double{kit::from_bf16(v)}; });
    case PLAIT_F16:
      return read_as<uint16_t>(from, first, stride, n, to,
                               [](uint16_t v) { return double{kit::from_f16(v)}; });
    case PLAIT_F8E4M3:
      return read_as<uint8_t>(from, first, stride, n, to,
                              [](uint8_t v) { return double{kit::from_f8<kit::E4m3>(v)}; });
    case PLAIT_F8E5M2:
      return read_as<uint8_t>(from, first, stride, n, to,
                              [](uint8_t v) { return double{kit::from_f8<kit::E5m2>(v)}; });
    case PLAIT_I32:
      return read_as<int32_t>(from, first, stride, n, to, plain);
    case PLAIT_I64:
      return read_as<int64_t>(from, first, stride, n, to, plain);
    default:
      return read_as<uint8_t>(from, first, stride, n, to, plain);
  }
}

void write_elements(uint32_t dtype, void* to, int64_t first, int64_t stride, int64_t n,
                    const double* from) {
  switch (dtype) {
    case PLAIT_F32:
      return write_as<float>(to, first, stride, n, from,
                             [](double v) { return static_cast<float>(v); });
    case PLAIT_F64:
      return write_as<double>(to, first, stride, n, from, [](double v) { return v; });
    case PLAIT_BF16:
      return write_as<uint16_t>(to, first, stride, n, from,
                                [](double v) { return kit::to_bf16(static_cast<float>(v)); });
    case PLAIT_F16:
      return write_as<uint16_t>(to, first, stride, n, from,
                                [](double v) { return kit::to_f16(static_cast<float>(v)); });
    case PLAIT_F8E4M3:
      return write_as<uint8_t>(to, first, stride, n, from, [](double v) {
        return kit::to_f8<kit::E4m3>(static_cast<float>(v));
      });
    case PLAIT_F8E5M2:
      return write_as<uint8_t>(to, first, stride, n, from, [](double v) {
        return kit::to_f8<kit::E5m2>(static_cast<float>(v));
      });
    case PLAIT_I32:
      return write_as<int32_t>(to, first, stride, n, from, saturate<int32_t>);
    case PLAIT_I64:
      return write_as<int64_t>(to, first, stride, n, from, saturate<int64_t>);
    case PLAIT_U8:
      return write_as<uint8_t>(to, first, stride, n, from, saturate<uint8_t>);
    default:
      return write_as<uint8_t>(to, first, stride, n, from,
                               [](double v) { return static_cast<uint8_t>(v != 0); });
  }
}

}  // namespace plait::support
