// Reduces rows of elements in a fixed order: row 0 first, then row 1, … Elements are independent,
// so the same rows give the same bits however they are split into chunks.
#pragma once

#include <plait/comm.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kit/half.hpp"

namespace plait::comm_support {
namespace detail {

constexpr size_t kBlock = 1024;  // elements whose accumulators fit in the first-level cache
constexpr size_t kTail = 64;     // the remainder is reduced in blocks of this size

struct Bf16 {
  using Sum = float;
  using Element = uint16_t;
  static float load(uint16_t v) { return kit::from_bf16(v); }
  static uint16_t store(float v) { return kit::to_bf16(v); }
};
struct F16 {
  using Sum = float;
  using Element = uint16_t;
  static float load(uint16_t v) { return kit::from_f16(v); }
  static uint16_t store(float v) { return kit::to_f16(v); }
};
template <class T>
struct Plain {
  using Sum = T;
  using Element = T;
  static T load(T v) { return v; }
  static T store(T v) { return v; }
};

// Integers wrap around; NaN propagates.
struct Add {
  template <class T>
  static T combine(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      return a + b;
    }
  }
};
// Integers are never NaN.
template <class T>
bool is_nan(T v) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(v);
  return false;
}
struct Max {
  template <class T>
  static T combine(T a, T b) {
    return is_nan(a) || a >= b ? a : b;
  }
};
struct Min {
  template <class T>
  static T combine(T a, T b) {
    return is_nan(a) || a <= b ? a : b;
  }
};

// Elements [first, first + N). A constant N and accumulators that nothing else can alias let the
// compiler use vectors.
template <class Type, class Op, size_t N>
[[gnu::always_inline]] inline void reduce_body(const void* const* rows, size_t n_rows, size_t first,
                                               void* out) {
  using Element = typename Type::Element;
  const auto row = [&](size_t r) { return static_cast<const Element*>(rows[r]) + first; };
  typename Type::Sum sum[N];
  const Element* a = row(0);
  if (n_rows == 1) {
    for (size_t i = 0; i < N; ++i) sum[i] = Type::load(a[i]);
  } else {
    const Element* b = row(1);
    for (size_t i = 0; i < N; ++i) sum[i] = Op::combine(Type::load(a[i]), Type::load(b[i]));
  }
  for (size_t r = 2; r < n_rows; ++r) {
    const Element* c = row(r);
    for (size_t i = 0; i < N; ++i) sum[i] = Op::combine(sum[i], Type::load(c[i]));
  }
  auto* to = static_cast<Element*>(out) + first;
  for (size_t i = 0; i < N; ++i) to[i] = Type::store(sum[i]);
}

// Not inlined: between other loops the compiler vectorises fewer of them.
template <class Type, class Op, size_t N>
[[gnu::noinline]] void reduce_block(const void* const* rows, size_t n_rows, size_t first,
                                    void* out) {
  reduce_body<Type, Op, N>(rows, n_rows, first, out);
}
#if defined(__x86_64__)
template <class Type, class Op, size_t N>
[[gnu::noinline, gnu::target("avx2")]] void reduce_block_avx2(const void* const* rows,
                                                              size_t n_rows, size_t first,
                                                              void* out) {
  reduce_body<Type, Op, N>(rows, n_rows, first, out);
}
#endif

template <class Type, class Op>
void reduce_typed(const void* const* rows, size_t n_rows, void* out, size_t n) {
  size_t at = 0;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2"))
    for (; at + kBlock <= n; at += kBlock)
      reduce_block_avx2<Type, Op, kBlock>(rows, n_rows, at, out);
#endif
  for (; at + kBlock <= n; at += kBlock) reduce_block<Type, Op, kBlock>(rows, n_rows, at, out);
  for (; at + kTail <= n; at += kTail) reduce_block<Type, Op, kTail>(rows, n_rows, at, out);
  for (; at < n; ++at) reduce_block<Type, Op, 1>(rows, n_rows, at, out);
}

template <class Type>
void reduce_by(uint32_t reduction, const void* const* rows, size_t n_rows, void* out, size_t n) {
  if (reduction == PLAIT_COMM_MAX) return reduce_typed<Type, Max>(rows, n_rows, out, n);
  if (reduction == PLAIT_COMM_MIN) return reduce_typed<Type, Min>(rows, n_rows, out, n);
  reduce_typed<Type, Add>(rows, n_rows, out, n);
}

}  // namespace detail

// out[i] = rows[0][i] (+) rows[1][i] (+) …; i in [0, n). `out` may be one of the rows. A single
// row is copied; its 16-bit elements pass through f32, which changes only the bits of a signalling
// NaN.
inline void reduce_rows(uint32_t dtype, uint32_t reduction, const void* const* rows, size_t n_rows,
                        void* out, size_t n) {
  using namespace detail;
  switch (dtype) {
    case PLAIT_F32:
      return reduce_by<Plain<float>>(reduction, rows, n_rows, out, n);
    case PLAIT_F64:
      return reduce_by<Plain<double>>(reduction, rows, n_rows, out, n);
    case PLAIT_BF16:
      return reduce_by<Bf16>(reduction, rows, n_rows, out, n);
    case PLAIT_F16:
      return reduce_by<F16>(reduction, rows, n_rows, out, n);
    case PLAIT_I32:
      return reduce_by<Plain<int32_t>>(reduction, rows, n_rows, out, n);
    case PLAIT_I64:
      return reduce_by<Plain<int64_t>>(reduction, rows, n_rows, out, n);
    case PLAIT_U8:
      return reduce_by<Plain<uint8_t>>(reduction, rows, n_rows, out, n);
    default:
      return;  // refused when the call was prepared
  }
}

// Shard r of R of n elements, in whole cache lines: every rank splits at the same elements.
struct ElementRange {
  uint64_t first, count;
};
inline ElementRange shard_range(uint64_t n, uint32_t r, uint32_t size) {
  const uint64_t shard = ((n + size - 1) / size + 63) / 64 * 64;
  const uint64_t first = std::min(n, shard * r);
  return {first, std::min(shard, n - first)};
}

}  // namespace plait::comm_support
