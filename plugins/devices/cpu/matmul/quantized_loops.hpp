// Products of a few rows with quantized weights, written once for every instruction set. The
// including file first defines PLAIT_TARGET, and passes a class V with
//   f32: the type F, the width kLanes, the most sums in registers kSums, load, load_part, store,
//     zero, broadcast, fma (a*b+c), mul, sum (of the lanes);
//   widen, widen_part: kLanes numbers of 8 bits as f32; levels: of 4 bits, as levels of nf4;
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

// Weights of a row as f32. Columns begin at a multiple of kLanes, in the block of the scale.
template <class V>
struct Int8 {
  using F = typename V::F;
  static constexpr int64_t kBlock = kWeightBlock;
  struct Scale {
    F scale, zero;  // w = number * scale + zero
  };
  PLAIT_INLINE static Scale scale(const QuantizedRow& row, int64_t b) {
    const F s = V::broadcast(row.scales[b]);
    return {s, V::mul(s, V::broadcast(-128))};
  }
  PLAIT_INLINE static F weights(const QuantizedRow& row, const Scale& s, int64_t i) {
    return V::fma(V::widen(row.numbers + i), s.scale, s.zero);
  }
  PLAIT_INLINE static F weights_part(const QuantizedRow& row, const Scale& s, int64_t i,
                                     int64_t n) {
    return V::fma(V::widen_part(row.numbers + i, n), s.scale, s.zero);
  }
};
template <class V>
struct Nf4 {
  using F = typename V::F;
  static constexpr int64_t kBlock = kit::kNf4Block;
  struct Scale {
    F scale;
  };
  PLAIT_INLINE static Scale scale(const QuantizedRow& row, int64_t b) {
    const float* pair = row.scales + 2 * (b / (kit::kNf4Group / kBlock));
    const auto code = static_cast<float>(row.numbers[row.codes + b]);
    return {V::fma(V::broadcast(pair[1]), V::broadcast(code), V::broadcast(pair[0]))};
  }
  PLAIT_INLINE static F weights(const QuantizedRow& row, const Scale& s, int64_t i) {
    return V::mul(V::levels(row.numbers + i / 2), s.scale);
  }
  PLAIT_INLINE static F weights_part(const QuantizedRow& row, const Scale& s, int64_t i,
                                     int64_t n) {
    uint8_t part[V::kLanes / 2] = {};
    std::copy(row.numbers + i / 2, row.numbers + (i + n + 1) / 2, part);
    return V::mul(V::levels(part), s.scale);
  }
};

// Rows of f32 and weights (outputs, k). Every index of a sum is a constant, so that the sums stay
// in registers.
template <class V, class Format, int kRows, int kOutputs>
class WideDots {
 public:
  PLAIT_INLINE static void run(const QuantizedCall& call, int64_t output) {
    WideDots d(call, output, Outputs());
    d.zero(Numbers<kRows * kOutputs>());
    const int64_t whole = call.k / Format::kBlock;
    int64_t b = 0;
    for (; b + 2 <= whole; b += 2) {  // a line
      prefetch_rows(d.weights[0].numbers, call.bytes, b / 2 * kLineBytes, Outputs());
      d.add_block(b, Outputs());
      d.add_block(b + 1, Outputs());
    }
    for (; b < whole; ++b) d.add_block(b, Outputs());
    if (b * Format::kBlock < call.k) d.add_part(b, Outputs());
    d.write(call.sums + output, Numbers<kRows * kOutputs>());
  }

 private:
  using F = typename V::F;
  using Outputs = Numbers<kOutputs>;
  using Scale = typename Format::Scale;

  template <int... j>
  PLAIT_INLINE WideDots(const QuantizedCall& c, int64_t output, List<j...>)
      : call(c), weights{c.row(output + j)...}, rows(c.rows), k(c.k) {}
  template <int... n>
  PLAIT_INLINE void zero(List<n...>) {
    ((sums[n] = V::zero()), ...);
  }
  template <int... j>
  PLAIT_INLINE void add_block(int64_t b, List<j...> outputs) {
    const int64_t first = b * Format::kBlock;
    const Scale s[kOutputs] = {Format::scale(weights[j], b)...};
    for (int64_t i = first; i < first + Format::kBlock; i += V::kLanes) {
      const F w[kOutputs] = {Format::weights(weights[j], s[j], i)...};
      add_rows(Whole{i}, w, outputs, Numbers<kRows>());
    }
  }
  template <int... j>
  PLAIT_INLINE void add_part(int64_t b, List<j...> outputs) {
    const Scale s[kOutputs] = {Format::scale(weights[j], b)...};
    for (int64_t i = b * Format::kBlock; i < k; i += V::kLanes) {
      const int64_t n = std::min(V::kLanes, k - i);
      const F w[kOutputs] = {Format::weights_part(weights[j], s[j], i, n)...};
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

  const QuantizedCall& call;
  const QuantizedRow weights[kOutputs];
  const float* rows;
  int64_t k;
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
        prefetch_rows(d.numbers, call.bytes, b * kWeightBlock, Outputs());
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
      : call(c), numbers(c.numbers + output * c.bytes), scales(c.scales + output * c.floats) {}
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

// kOutputs at a time.
template <class V, class Format, int kRows>
PLAIT_TARGET void wide_dots(const QuantizedCall& call) {
  constexpr int kFit = V::kSums / kRows;
  constexpr int kOutputs = kFit >= 4 ? 4 : kFit >= 3 ? 3 : kFit >= 2 ? 2 : 1;
  static_assert(kStreamGroup % kOutputs == 0);
  int64_t j = 0;
  for (; j + kOutputs <= call.outputs; j += kOutputs)
    WideDots<V, Format, kRows, kOutputs>::run(call, j);
  for (; j < call.outputs; ++j) WideDots<V, Format, kRows, 1>::run(call, j);
}
template <class V, int kRows>
PLAIT_TARGET void dots(const QuantizedCall& call) {
  if constexpr (kRows <= kMostNarrowRows) {
    constexpr int kOutputs = 4;
    int64_t j = 0;
    for (; j + kOutputs <= call.outputs; j += kOutputs)
      NarrowDots<V, kRows, kOutputs>::run(call, j);
    for (; j < call.outputs; ++j) NarrowDots<V, kRows, 1>::run(call, j);
  } else {
    wide_dots<V, Int8<V>, kRows>(call);
  }
}

// Weights (k, outputs): each row of them, times a number of each of `rows`, is added to the sums.
// A few rows of weights at a time, so that sums are read and written once for these.
template <class V, class Format, int kRows>
class Sums {
 public:
  PLAIT_INLINE static void run(const QuantizedSumsCall& call) {
    for (int64_t k = 0; k < call.k; k += kDepth) {
      const int64_t end = std::min(k + kDepth, call.k);
      int64_t j = call.first;
      for (; j + kVecs * V::kLanes <= call.last; j += kVecs * V::kLanes)
        add<kVecs>(call, k, end, j, Numbers<kRows * kVecs>());
      for (; j + V::kLanes <= call.last; j += V::kLanes) add<1>(call, k, end, j, Numbers<kRows>());
      if (j < call.last) add_part(call, k, end, j);
    }
  }

 private:
  using F = typename V::F;
  static constexpr int64_t kDepth = 16;
  static constexpr int kFit = V::kSums / kRows, kVecs = kFit >= 4 ? 4 : kFit >= 2 ? 2 : 1;

  template <int vecs, int... n>
  PLAIT_INLINE static void add(const QuantizedSumsCall& c, int64_t first, int64_t end, int64_t j,
                               List<n...>) {
    F sums[] = {V::load(c.sums + n / vecs * c.stride + j + n % vecs * V::kLanes)...};
    for (int64_t k = first; k < end; ++k)
      add_row<vecs>(c, k, j, sums, Numbers<vecs>(), List<n...>());
    (V::store(c.sums + n / vecs * c.stride + j + n % vecs * V::kLanes, sums[n]), ...);
  }
  template <int vecs, int... v, int... n>
  PLAIT_INLINE static void add_row(const QuantizedSumsCall& c, int64_t k, int64_t j,
                                   F (&sums)[kRows * vecs], List<v...>, List<n...>) {
    const QuantizedRow row = c.row(k);
    const F w[] = {Format::weights(row, Format::scale(row, (j + v * V::kLanes) / Format::kBlock),
                                   j + v * V::kLanes)...};
    ((sums[n] = V::fma(V::broadcast(c.rows[n / vecs * c.k + k]), w[n % vecs], sums[n])), ...);
  }
  // Fewer than kLanes columns, the last ones.
  PLAIT_INLINE static void add_part(const QuantizedSumsCall& c, int64_t first, int64_t end,
                                    int64_t j) {
    const int64_t lanes = c.last - j;
    for (int64_t k = first; k < end; ++k) {
      const QuantizedRow row = c.row(k);
      alignas(64) float w[V::kLanes];
      V::store(w, Format::weights_part(row, Format::scale(row, j / Format::kBlock), j, lanes));
      for (int64_t r = 0; r < kRows; ++r)
        for (int64_t i = 0; i < lanes; ++i)
          c.sums[r * c.stride + j + i] += c.rows[r * c.k + k] * w[i];
    }
  }
};
template <class V, class Format, int kRows>
PLAIT_TARGET void sums(const QuantizedSumsCall& call) {
  Sums<V, Format, kRows>::run(call);
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

template <class V, class Format>
PLAIT_TARGET void widen(const QuantizedRow& row, int64_t first, int64_t n, float* to) {
  const int64_t end = first + n;
  for (int64_t i = first; i < end; i += V::kLanes) {
    const auto scale = Format::scale(row, i / Format::kBlock);
    if (i + V::kLanes <= end) {
      V::store(to + (i - first), Format::weights(row, scale, i));
      continue;
    }
    alignas(64) float part[V::kLanes];
    V::store(part, Format::weights_part(row, scale, i, end - i));
    std::copy(part, part + (end - i), to + (i - first));
  }
}

template <class V, int... n>
QuantizedFunctions functions(List<n...>) {
  return {{dots<V, n + 1>...},
          {wide_dots<V, Nf4<V>, n + 1>...},
          {sums<V, Int8<V>, n + 1>...},
          {sums<V, Nf4<V>, n + 1>...},
          narrow<V>,
          widen<V, Int8<V>>,
          widen<V, Nf4<V>>};
}
template <class V>
QuantizedFunctions functions() {
  return functions<V>(Numbers<kMostStreamRows>());
}

}  // namespace quantized
}  // namespace plait::cpu
