// top_k and its gradient. A thread for each number counts the numbers of its row that come before:
// that is its place. So a row of E numbers takes E^2 comparisons, side by side, and no memory.
// Rows of experts are short.
#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/top_k_args.hpp"

namespace plait::cuda {
namespace {

// comes_before() of kit/ops/top_k.hpp.
template <class A>
__device__ __forceinline__ bool comes_before(A a, int64_t i, A b, int64_t j) {
  const bool a_nan = a != a, b_nan = b != b;
  if (a_nan != b_nan) return a_nan;
  if (a_nan || a == b) return i < j;
  return a > b;
}

template <class T>
__device__ void place_number(const TopKArgs& a) {
  const int64_t e = thread_index();
  if (e >= a.count) return;
  const int64_t row = e / a.extent, i = e - row * a.extent;
  const T* const x = static_cast<const T*>(a.x) + row * a.extent;
  const Accumulate<T> own = load(x + i);
  int64_t place = 0;
  for (int64_t j = 0; j < a.extent && place < a.k; ++j)
    place += comes_before(load(x + j), j, own, i);
  if (place >= a.k) return;
  static_cast<T*>(a.values)[row * a.k + place] = x[i];
  a.index[row * a.k + place] = static_cast<int32_t>(i);
}

}  // namespace

PLAIT_GLOBAL(top_k_f32, TopKArgs, kTopKBlock) { place_number<float>(a); }
PLAIT_GLOBAL(top_k_f64, TopKArgs, kTopKBlock) { place_number<double>(a); }
PLAIT_GLOBAL(top_k_bf16, TopKArgs, kTopKBlock) { place_number<bf16>(a); }
PLAIT_GLOBAL(top_k_f16, TopKArgs, kTopKBlock) { place_number<f16>(a); }

// A thread for each number of dx, whose sum has the order of the places.
PLAIT_GLOBAL(top_k_grad, TopKGradArgs, kTopKBlock) {
  const int64_t e = thread_index();
  if (e >= a.count) return;
  const int64_t row = e / a.extent, i = e - row * a.extent;
  double sum = 0;
  for (int64_t j = row * a.k; j < (row + 1) * a.k; ++j)
    if (get_index(a.index, j) == i) sum += get(a.dy, j);
  set(a.dx, e, sum);
}

}  // namespace plait::cuda
