// Dot products of a few rows with weights of 8 bits, written once for every instruction set. The
// including file first defines PLAIT_TARGET, and passes a class V with
//   f32: the type F, the width kLanes, the most sums in registers kSums, load, load_part, store,
//     zero, broadcast, fma (a*b+c), mul, sum (of the lanes);
//   widen, widen_part: kLanes numbers as f32;
//   the type Words of a block of numbers, numbers, numbers_part; products: of these with 16 bits
//     each, a few added up, as f32 in lanes;
//   of a block of f32: greatest, its greatest absolute value; narrow, 16 bits of it.
#pragma once

#ifndef PLAIT_TARGET
#error "define PLAIT_TARGET before this header"
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "plugins/devices/cpu/matmul/prefetch_loops.hpp"
#include "plugins/devices/cpu/matmul/quantized.hpp"

#define PLAIT_INLINE PLAIT_TARGET __attribute__((always_inline)) inline

namespace plait::cpu {
namespace quantized {

template <int n>
using Number = std::integral_constant<int, n>;
template <int... n>
using List = std::integer_sequence<int, n...>;
template <int n>
using Numbers = std::make_integer_sequence<int, n>;

// Rows of f32; weights become f32, too. Every index of a sum is a constant, so that the sums stay
// in registers.
template <class V, int kRows, int kOutputs>
class WideDots {
 public:
  PLAIT_INLINE static void run(const QuantizedCall& call, int64_t output) {
    WideDots d(call, output);
    d.zero(Numbers<kRows * kOutputs>());
    const int64_t whole = d.k / kWeightBlock;
    int64_t b = 0;
    static_assert(2 * kWeightBlock == kLineBytes);
    for (; b + 2 <= whole; b += 2) {
      prefetch_rows(d.numbers, d.k, b * kWeightBlock, Outputs());
      d.add_block(b, Outputs());
      d.add_block(b + 1, Outputs());
    }
    for (; b < whole; ++b) d.add_block(b, Outputs());
    if (b < d.blocks) d.add_part(b, Outputs());
    d.write(call.sums + output, Numbers<kRows * kOutputs>());
  }

 private:
  using F = typename V::F;
  using Outputs = Numbers<kOutputs>;
  struct Scale {
    F scale, zero;  // w = number * scale + zero
  };

  PLAIT_INLINE WideDots(const QuantizedCall& call, int64_t output)
      : numbers(call.numbers + output * call.k),
        scales(call.scales + output * call.blocks),
        rows(call.rows),
        k(call.k),
        blocks(call.blocks) {}
  template <int... n>
  PLAIT_INLINE void zero(List<n...>) {
    ((sums[n] = V::zero()), ...);
  }
  PLAIT_INLINE Scale scale(int j, int64_t b) const {
    const F s = V::broadcast(scales[j * blocks + b]);
    return {s, V::mul(s, V::broadcast(-128))};
  }
  template <int... j>
  PLAIT_INLINE void add_block(int64_t b, List<j...> outputs) {
    const Scale s[kOutputs] = {scale(j, b)...};
    const int64_t first = b * kWeightBlock;
    for (int64_t i = first; i < first + kWeightBlock; i += V::kLanes) {
      const F w[kOutputs] = {V::fma(V::widen(numbers + j * k + i), s[j].scale, s[j].zero)...};
      add_rows(Whole{i}, w, outputs, Numbers<kRows>());
    }
  }
  template <int... j>
  PLAIT_INLINE void add_part(int64_t b, List<j...> outputs) {
    const Scale s[kOutputs] = {scale(j, b)...};
    for (int64_t i = b * kWeightBlock; i < k; i += V::kLanes) {
      const int64_t n = std::min(V::kLanes, k - i);
      const F w[kOutputs] = {
          V::fma(V::widen_part(numbers + j * k + i, n), s[j].scale, s[j].zero)...};
      add_rows(Part{i, n}, w, outputs, Numbers<kRows>());
    }
  }
  struct Whole {
    int64_t i;
    PLAIT_INLINE F load(const float* row) const { return V::load(row + i); }
  };
  struct Part {
    int64_t i, n;
    PLAIT_INLINE F load(const float* row) const { return V::load_part(row + i, n); }
  };
  template <class Range, int... j, int... r>
  PLAIT_INLINE void add_rows(Range range, const F (&w)[kOutputs], List<j...> outputs, List<r...>) {
    (add_row<r>(range.load(rows + r * k), w, outputs), ...);
  }
  template <int r, int... j>
  PLAIT_INLINE void add_row(F x, const F (&w)[kOutputs], List<j...>) {
    ((sums[r * kOutputs + j] = V::fma(x, w[j], sums[r * kOutputs + j])), ...);
  }
  template <int... n>
  PLAIT_INLINE void write(float* to, List<n...>) const {
    ((to[n / kOutputs * kStreamGroup + n % kOutputs] = V::sum(sums[n])), ...);
  }

  const uint8_t* numbers;
  const float *scales, *rows;
  int64_t k, blocks;
  F sums[kRows * kOutputs];
};

// Rows of 16 bits: products of whole numbers, exact but for their rounding to f32. Their scales are
// multiplied kLanes blocks at a time; that numbers stand for numbers - 128 is added at the end of
// these.
template <class V, int kRows, int kOutputs>
class NarrowDots {
 public:
  PLAIT_INLINE static void run(const QuantizedCall& call, int64_t output) {
    NarrowDots d(call, output);
    d.zero(Numbers<kRows * kOutputs>());
    const int64_t whole = call.k / kWeightBlock;
    for (int64_t first = 0; first < call.blocks; first += V::kLanes) {
      const int64_t n = std::min(V::kLanes, call.blocks - first);
      d.multiply_scales(first, n, Numbers<kRows * kOutputs>());
      const int64_t end = std::min(first + n, whole);
      int64_t b = first;
      for (; b + 2 <= end; b += 2) {
        prefetch_rows(d.numbers, call.k, b * kWeightBlock, Outputs());
        d.add_block(b, b - first, Outputs());
        d.add_block(b + 1, b + 1 - first, Outputs());
      }
      for (; b < end; ++b) d.add_block(b, b - first, Outputs());
      if (b < first + n) d.add_part(b, b - first, Outputs());
    }
    d.write(call.sums + output, Numbers<kRows * kOutputs>());
  }

 private:
  using F = typename V::F;
  using Outputs = Numbers<kOutputs>;

  PLAIT_INLINE NarrowDots(const QuantizedCall& c, int64_t output)
      : call(c), numbers(c.numbers + output * c.k), scales(c.scales + output * c.blocks) {}
  template <int... n>
  PLAIT_INLINE void zero(List<n...>) {
    ((sums[n] = V::zero()), ...);
  }
  template <int... i>
  PLAIT_INLINE void multiply_scales(int64_t first, int64_t n, List<i...>) {
    (multiply_scales<i / kOutputs, i % kOutputs>(first, n), ...);
  }
  template <int r, int j>
  PLAIT_INLINE void multiply_scales(int64_t first, int64_t n) {
    const F w = V::load_part(scales + j * call.blocks + first, n);
    const int64_t at = r * call.blocks + first;
    constexpr int kSum = r * kOutputs + j;
    V::store(products[kSum], V::mul(w, V::load_part(call.narrow_scales + at, n)));
    sums[kSum] = V::fma(w, V::load_part(call.narrow_sums + at, n), sums[kSum]);
  }
  template <int... j>
  PLAIT_INLINE void add_block(int64_t b, int64_t place, List<j...>) {
    (add<j>(V::numbers(numbers + j * call.k + b * kWeightBlock), b, place, Numbers<kRows>()), ...);
  }
  template <int... j>
  PLAIT_INLINE void add_part(int64_t b, int64_t place, List<j...>) {
    const int64_t first = b * kWeightBlock, n = call.k - first;
    (add<j>(V::numbers_part(numbers + j * call.k + first, n), b, place, Numbers<kRows>()), ...);
  }
  template <int j, int... r>
  PLAIT_INLINE void add(typename V::Words w, int64_t b, int64_t place, List<r...>) {
    ((sums[r * kOutputs + j] =
          V::fma(V::products(w, call.narrow + (r * call.blocks + b) * kWeightBlock),
                 V::broadcast(products[r * kOutputs + j][place]), sums[r * kOutputs + j])),
     ...);
  }
  template <int... n>
  PLAIT_INLINE void write(float* to, List<n...>) const {
    ((to[n / kOutputs * kStreamGroup + n % kOutputs] = V::sum(sums[n])), ...);
  }

  const QuantizedCall& call;
  const uint8_t* numbers;
  const float* scales;
  F sums[kRows * kOutputs];
  alignas(64) float products[kRows * kOutputs][V::kLanes];  // of scales, of a block each
};

template <class V, int kRows>
PLAIT_TARGET void dots(const QuantizedCall& call) {
  int64_t j = 0;
  if constexpr (kRows <= kMostNarrowRows) {
    constexpr int kOutputs = 4;
    for (; j + kOutputs <= call.outputs; j += kOutputs)
      NarrowDots<V, kRows, kOutputs>::run(call, j);
    for (; j < call.outputs; ++j) NarrowDots<V, kRows, 1>::run(call, j);
  } else {
    constexpr int kFit = V::kSums / kRows;
    constexpr int kOutputs = kFit >= 4 ? 4 : kFit >= 3 ? 3 : kFit >= 2 ? 2 : 1;
    static_assert(kStreamGroup % kOutputs == 0);
    for (; j + kOutputs <= call.outputs; j += kOutputs) WideDots<V, kRows, kOutputs>::run(call, j);
    for (; j < call.outputs; ++j) WideDots<V, kRows, 1>::run(call, j);
  }
}

template <class V>
PLAIT_TARGET void narrow(const float* row, int64_t k, int16_t* to, float* scales, float* sums) {
  constexpr float kSteps = 32767, kLeast = 1e-30f;  // blocks of smaller numbers are zeros
  const int64_t whole = k / kWeightBlock * kWeightBlock;
  for (int64_t first = 0, b = 0; first < k; first += kWeightBlock, ++b, to += kWeightBlock) {
    alignas(64) float part[kWeightBlock] = {};
    if (first >= whole) std::copy(row + first, row + k, part);
    const float* x = first < whole ? row + first : part;
    const float most = V::greatest(x);
    const bool none = most < kLeast;
    scales[b] = none ? 0 : most / kSteps;
    const typename V::F inverse = V::broadcast(none ? 0 : kSteps / most);
    const int32_t sum = V::narrow(x, inverse, to);
    sums[b] = -128 * scales[b] * static_cast<float>(sum);
  }
}

template <class V>
PLAIT_TARGET void widen(const uint8_t* numbers, const float* scales, int64_t k, float* to) {
  int64_t i = 0;
  for (; i + V::kLanes <= k; i += V::kLanes) {
    const typename V::F s = V::broadcast(scales[i / kWeightBlock]);
    V::store(to + i, V::fma(V::widen(numbers + i), s, V::mul(s, V::broadcast(-128))));
  }
  for (; i < k; ++i)
    to[i] = scales[i / kWeightBlock] * static_cast<float>(static_cast<int>(numbers[i]) - 128);
}

template <class V, int... n>
QuantizedFunctions functions(List<n...>) {
  return {{dots<V, n + 1>...}, narrow<V>, widen<V>};
}
template <class V>
QuantizedFunctions functions() {
  return functions<V>(Numbers<kMostStreamRows>());
}

}  // namespace quantized
}  // namespace plait::cpu
