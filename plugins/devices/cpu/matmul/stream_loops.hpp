// Dot products of a few rows of weights with a few rows, written once for every instruction set.
// The including file first defines PLAIT_TARGET, and passes the loops a class W for each type of
// the weights, with that type T, load and load_part, which make f32 of them; and a class V with
//   the type F, the width kLanes, the most sums in registers kSums, load,
//   load_part, zero, fma (a*b+c), add, sum (of the lanes).
#pragma once

#ifndef PLAIT_TARGET
#error "define PLAIT_TARGET before this header"
#endif

#include <cstdint>
#include <utility>

#include "plugins/devices/cpu/matmul/prefetch_loops.hpp"
#include "plugins/devices/cpu/matmul/stream.hpp"

#define PLAIT_INLINE PLAIT_TARGET __attribute__((always_inline)) inline

namespace plait::cpu {

// `kOutputs` outputs of `kRows` rows, each as the sum of `kChains` sums. Every index of a sum is a
// constant, so that the sums stay in registers whatever the compiler unrolls.
template <class V, class W, int kRows, int kOutputs, int kChains>
class Dots {
 public:
  PLAIT_INLINE static void run(const DotCall& call, int64_t output) {
    Dots d(call, output);
    d.zero(Sums());
    constexpr int64_t kStep = kChains * V::kLanes;
    int64_t i = 0;
    for (; i + kStep <= d.k; i += kStep) {
      d.ask(i, kStep);
      d.add_step(i, Chains());
    }
    for (; i + V::kLanes <= d.k; i += V::kLanes) d.add_all(Whole{i}, Number<0>(), Outputs());
    if (i < d.k) d.add_all(Part{i, d.k - i}, Number<0>(), Outputs());
    d.store(call.sums + output, Numbers<kRows * kOutputs>());
  }

 private:
  using F = typename V::F;
  template <int n>
  using Number = std::integral_constant<int, n>;
  template <int n>
  using Numbers = std::make_integer_sequence<int, n>;
  using Outputs = Numbers<kOutputs>;
  using Chains = Numbers<kChains>;
  using Sums = Numbers<kRows * kOutputs * kChains>;
  template <int... n>
  using List = std::integer_sequence<int, n...>;
  static constexpr int at(int row, int output, int chain) {
    return (row * kOutputs + output) * kChains + chain;
  }

  // A vector of each row, and what is left of it at the end.
  struct Whole {
    int64_t i;
    template <class Type>
    PLAIT_INLINE F load(const typename Type::T* row) const {
      return Type::load(row + i);
    }
  };
  struct Part {
    int64_t i, n;
    template <class Type>
    PLAIT_INLINE F load(const typename Type::T* row) const {
      return Type::load_part(row + i, n);
    }
  };

  template <int... n>
  PLAIT_INLINE void zero(List<n...>) {
    ((sums[n] = V::zero()), ...);
  }
  PLAIT_INLINE void ask(int64_t i, int64_t step) const {
    constexpr int64_t kSize = sizeof(typename W::T);
    for (int64_t at = i * kSize; at < (i + step) * kSize; at += kLineBytes)
      prefetch_rows(weights, k * kSize, at, Outputs());
  }
  template <class Range, int chain, int... j>
  PLAIT_INLINE void add_all(Range range, Number<chain> which, List<j...> outputs) {
    const F w[kOutputs] = {range.template load<W>(weights + j * k)...};
    add_rows(range, w, which, outputs, Numbers<kRows>());
  }
  template <class Range, int chain, int... j, int... r>
  PLAIT_INLINE void add_rows(Range range, const F (&w)[kOutputs], Number<chain> which,
                             List<j...> outputs, List<r...>) {
    (add_row<r>(range.template load<V>(rows + r * k), w, which, outputs), ...);
  }
  template <int r, int chain, int... j>
  PLAIT_INLINE void add_row(F x, const F (&w)[kOutputs], Number<chain>, List<j...>) {
    ((sums[at(r, j, chain)] = V::fma(x, w[j], sums[at(r, j, chain)])), ...);
  }
  template <int... chain>
  PLAIT_INLINE void add_step(int64_t i, List<chain...>) {
    (add_all(Whole{i + chain * V::kLanes}, Number<chain>(), Outputs()), ...);
  }
  template <int first, int... chain>
  PLAIT_INLINE float sum_of(List<0, chain...>) const {
    F sum = sums[first];
    ((sum = V::add(sum, sums[first + chain])), ...);
    return V::sum(sum);
  }
  template <int... n>
  PLAIT_INLINE void store(float* to, List<n...>) const {
    ((to[n / kOutputs * kStreamGroup + n % kOutputs] = sum_of<n * kChains>(Chains())), ...);
  }

  PLAIT_INLINE Dots(const DotCall& call, int64_t output)
      : weights(static_cast<const typename W::T*>(call.weights) + output * call.k),
        rows(call.rows),
        k(call.k) {}

  const typename W::T* weights;
  const float* rows;
  int64_t k;
  F sums[kRows * kOutputs * kChains];
};

// As many outputs at a time as there are registers for; with few sums each has chains of its own,
// which hide the latency.
template <class V, class W, int kRows>
PLAIT_TARGET void dots(const DotCall& call) {
  constexpr int kFit = V::kSums / kRows;
  constexpr int kOutputs = kFit >= 4 ? 4 : kFit >= 3 ? 3 : kFit >= 2 ? 2 : 1;
  static_assert(kStreamGroup % kOutputs == 0);
  constexpr int kChains = kRows == 1 ? 2 : 1;
  int64_t j = 0;
  for (; j + kOutputs <= call.outputs; j += kOutputs)
    Dots<V, W, kRows, kOutputs, kChains>::run(call, j);
  for (; j < call.outputs; ++j) Dots<V, W, kRows, 1, kChains>::run(call, j);
}

template <class V, class W, int... n>
DotFunction dots_of(int64_t rows, std::integer_sequence<int, n...>) {
  static constexpr DotFunction kAll[] = {dots<V, W, n + 1>...};
  return kAll[rows - 1];
}
// Bf16 and F16: the classes W of these types; V is that of f32.
template <class V, class Bf16, class F16>
DotFunction dots_of(int64_t rows, Half weights) {
  constexpr auto kNumbers = std::make_integer_sequence<int, kMostStreamRows>();
  if (weights == Half::bf16) return dots_of<V, Bf16>(rows, kNumbers);
  if (weights == Half::f16) return dots_of<V, F16>(rows, kNumbers);
  return dots_of<V, V>(rows, kNumbers);
}

}  // namespace plait::cpu
