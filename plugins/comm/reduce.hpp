// Reducing rows of elements in one fixed order: row 0 first, then row 1, ... Each element on its own, so the same rows give the
// same bits however they are cut into pieces.
#pragma once

#include <plait/comm.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "plugins/support/dtype.hpp"

namespace plait::comm_support {
namespace detail {

constexpr size_t kBlock = 1024;  // elements whose accumulators lie in the nearest cache

struct Bf16 {
  using Sum = float;
  using Element = uint16_t;
  static float load(uint16_t v) { return support::from_bf16(v); }
  static uint16_t store(float v) { return support::to_bf16(v); }
};
struct F16 {
  using Sum = float;
  using Element = uint16_t;
  static float load(uint16_t v) { return support::from_f16(v); }
  static uint16_t store(float v) { return support::to_f16(v); }
};
template <class T>
struct Plain {
  using Sum = T;
  using Element = T;
  static T load(T v) { return v; }
  static T store(T v) { return v; }
};

// Integers wrap around; not a number, once met, stays.
struct Add {
  template <class T>
  static T join(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      return a + b;
    }
  }
};
struct Max {
  template <class T>
  static T join(T a, T b) {
    return a != a || a >= b ? a : b;
  }
};
struct Min {
  template <class T>
  static T join(T a, T b) {
    return a != a || a <= b ? a : b;
  }
};

// A constant n lets the compiler use vectors.
template <class Type, class Op>
inline void join_block(typename Type::Sum* sum, const typename Type::Element* row, size_t n) {
  for (size_t i = 0; i < n; ++i) sum[i] = Op::join(sum[i], Type::load(row[i]));
}

template <class Type, class Op>
void reduce_typed(const void* const* rows, size_t n_rows, void* out, size_t n) {
  using Element = typename Type::Element;
  typename Type::Sum sum[kBlock];
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t count = std::min(kBlock, n - first);
    const auto* head = static_cast<const Element*>(rows[0]) + first;
    for (size_t i = 0; i < count; ++i) sum[i] = Type::load(head[i]);
    for (size_t r = 1; r < n_rows; ++r) {
      const auto* row = static_cast<const Element*>(rows[r]) + first;
      if (count == kBlock)
        join_block<Type, Op>(sum, row, kBlock);
      else
        join_block<Type, Op>(sum, row, count);
    }
    auto* to = static_cast<Element*>(out) + first;
    for (size_t i = 0; i < count; ++i) to[i] = Type::store(sum[i]);
  }
}

template <class Type>
void reduce_by(uint32_t reduction, const void* const* rows, size_t n_rows, void* out, size_t n) {
  if (reduction == PLAIT_COMM_MAX) return reduce_typed<Type, Max>(rows, n_rows, out, n);
  if (reduction == PLAIT_COMM_MIN) return reduce_typed<Type, Min>(rows, n_rows, out, n);
  reduce_typed<Type, Add>(rows, n_rows, out, n);
}

}  // namespace detail

// out[i] = rows[0][i] (+) rows[1][i] (+) ...; i in [0, n). `out` may be one of the rows. One row is copied, its 16-bit elements by
// way of f32, which changes no bits but those of a signalling NaN.
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

// Part r of R of n elements, in whole cache lines: every rank cuts in the same places.
struct Part {
  uint64_t first, count;
};
inline Part part_of(uint64_t n, uint32_t r, uint32_t size) {
  const uint64_t share = ((n + size - 1) / size + 63) / 64 * 64;
  const uint64_t first = std::min(n, share * r);
  return {first, std::min(share, n - first)};
}

}  // namespace plait::comm_support
