// softmax, log_softmax and their gradients: a row is read once where its group keeps it, else
// twice. An element is written by the thread that has read it, so that the result may lie on an
// operand.
#include "plugins/devices/cuda/kernels/log_sum.cuh"
#include "plugins/devices/cuda/kernels/row_groups.cuh"
#include "plugins/devices/cuda/kernels/softmax_rows_args.hpp"

namespace plait::cuda {
namespace {

// What becomes of an element, and of exp(element - greatest), when the sum of the row is known:
// both ops are v * scale - shift, exactly so where scale is 1 or shift 0.
struct Finish {
  float scale, shift;
  __device__ __forceinline__ Finish(bool log, float sum)
      : scale(log ? 1.0f : 1.0f / sum), shift(log ? logf(sum) : 0.0f) {}
  __device__ __forceinline__ float operator()(float v) const { return fmaf(v, scale, -shift); }
};

template <class T, int kThreads, int kPack>
__device__ __forceinline__ void softmax_kept(const SoftmaxRowsArgs& a) {
  using Rows = Group<kThreads>;
  using Row = Kept<kThreads, kPack>;
  if (Rows::row() >= a.rows) return;
  const int64_t mine = Rows::row() * a.cols + Row::begin();
  T* out = static_cast<T*>(a.out) + mine;
  Pack<T, kPack> x[Row::kPacks];
  float v[Row::kPacks][kPack], most = -INFINITY, sum = 0;
  Row::read(static_cast<const T*>(a.x) + mine, a.cols, x);
  Row::each(a.cols, [&](int p) {
    unpack<T, kPack>(x[p], v[p]);
#pragma unroll
    for (int j = 0; j < kPack; ++j) most = fmaxf(most, v[p][j]);
  });
  most = Rows::greatest(most);
  Row::each(a.cols, [&](int p) {
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      const float less = v[p][j] - most, power = expf(less);
      sum += power;
      v[p][j] = a.log ? less : power;
    }
  });
  const Finish finish(a.log, Rows::sum(sum));
  Row::each(a.cols, [&](int p) {
#pragma unroll
    for (int j = 0; j < kPack; ++j) v[p][j] = finish(v[p][j]);
    store_pack<T, kPack>(out + p * Row::kStep, v[p]);
  });
}

// dx = y * (dy - sum(dy * y)), of log_softmax dx = dy - exp(y) * sum(dy)
__device__ __forceinline__ float term(bool log, float y, float dy) { return log ? dy : dy * y; }
__device__ __forceinline__ float gradient(bool log, float y, float dy, float sum) {
  return log ? fmaf(-expf(y), sum, dy) : y * (dy - sum);
}

template <class T, int kThreads, int kPack>
__device__ __forceinline__ void softmax_grad_kept(const SoftmaxRowsArgs& a) {
  using Rows = Group<kThreads>;
  using Row = Kept<kThreads, kPack>;
  if (Rows::row() >= a.rows) return;
  const int64_t mine = Rows::row() * a.cols + Row::begin();
  T* out = static_cast<T*>(a.out) + mine;
  Pack<T, kPack> y[Row::kPacks], dy[Row::kPacks];
  float sum = 0;
  Row::read(static_cast<const T*>(a.x) + mine, a.cols, y);
  Row::read(static_cast<const T*>(a.dy) + mine, a.cols, dy);
  Row::each(a.cols, [&](int p) {
#pragma unroll
    for (int j = 0; j < kPack; ++j) sum += term(a.log, load(&y[p].v[j]), load(&dy[p].v[j]));
  });
  sum = Rows::sum(sum);
  Row::each(a.cols, [&](int p) {
    float dx[kPack];
#pragma unroll
    for (int j = 0; j < kPack; ++j)
      dx[j] = gradient(a.log, load(&y[p].v[j]), load(&dy[p].v[j]), sum);
    store_pack<T, kPack>(out + p * Row::kStep, dx);
  });
}

template <class T>
__device__ __forceinline__ void softmax_long(const SoftmaxRowsArgs& a) {
  constexpr int kPack = 16 / sizeof(T);
  using Rows = Group<kRowBlock>;
  const T* const x[] = {static_cast<const T*>(a.x) + Rows::row() * a.cols};
  T* out = static_cast<T*>(a.out) + Rows::row() * a.cols;
  LogSum log_sum;
  each_pack<T, kRowBlock>(
      x, a.cols, [&](int, const float(&v)[1][kPack]) { log_sum.add(v[0]); },
      [&](int, const float(&v)[1]) { log_sum.add(v); });
  log_sum = over_group<Rows>(log_sum);
  const float most = log_sum.most;
  const Finish finish(a.log, log_sum.sum);
  const auto finished = [&](float v) { return finish(a.log ? v - most : expf(v - most)); };
  each_pack<T, kRowBlock>(
      x, a.cols,
      [&](int i, float(&v)[1][kPack]) {
#pragma unroll
        for (int j = 0; j < kPack; ++j) v[0][j] = finished(v[0][j]);
        store_pack<T, kPack>(out + i, v[0]);
      },
      [&](int i, const float(&v)[1]) { store(out + i, finished(v[0])); });
}

template <class T>
__device__ __forceinline__ void softmax_grad_long(const SoftmaxRowsArgs& a) {
  constexpr int kPack = 16 / sizeof(T);
  using Rows = Group<kRowBlock>;
  const int64_t begin = Rows::row() * a.cols;
  const T* const y_dy[] = {static_cast<const T*>(a.x) + begin, static_cast<const T*>(a.dy) + begin};
  T* out = static_cast<T*>(a.out) + begin;
  float sum = 0;
  each_pack<T, kRowBlock>(
      y_dy, a.cols,
      [&](int, const float(&v)[2][kPack]) {
#pragma unroll
        for (int j = 0; j < kPack; ++j) sum += term(a.log, v[0][j], v[1][j]);
      },
      [&](int, const float(&v)[2]) { sum += term(a.log, v[0], v[1]); });
  sum = Rows::sum(sum);
  each_pack<T, kRowBlock>(
      y_dy, a.cols,
      [&](int i, float(&v)[2][kPack]) {
#pragma unroll
        for (int j = 0; j < kPack; ++j) v[0][j] = gradient(a.log, v[0][j], v[1][j], sum);
        store_pack<T, kPack>(out + i, v[0]);
      },
      [&](int i, const float(&v)[2]) { store(out + i, gradient(a.log, v[0], v[1], sum)); });
}

}  // namespace

// _single: rows that packs of 16 bytes do not divide.
#define PLAIT_SOFTMAX_ROWS(type, T)                                                          \
  PLAIT_GLOBAL(softmax_rows_warp_##type, SoftmaxRowsArgs, kRowBlock) {                       \
    softmax_kept<T, 32, 16 / sizeof(T)>(a);                                                  \
  }                                                                                          \
  PLAIT_GLOBAL(softmax_rows_warp_single_##type, SoftmaxRowsArgs, kRowBlock) {                \
    softmax_kept<T, 32, 1>(a);                                                               \
  }                                                                                          \
  PLAIT_GLOBAL(softmax_rows_block_##type, SoftmaxRowsArgs, kRowBlock) {                      \
    softmax_kept<T, kRowBlock, 16 / sizeof(T)>(a);                                           \
  }                                                                                          \
  PLAIT_GLOBAL(softmax_rows_block_single_##type, SoftmaxRowsArgs, kRowBlock) {               \
    softmax_kept<T, kRowBlock, 1>(a);                                                        \
  }                                                                                          \
  PLAIT_GLOBAL(softmax_rows_long_##type, SoftmaxRowsArgs, kRowBlock) { softmax_long<T>(a); } \
  PLAIT_GLOBAL(softmax_grad_rows_warp_##type, SoftmaxRowsArgs, kRowBlock) {                  \
    softmax_grad_kept<T, 32, 16 / sizeof(T)>(a);                                             \
  }                                                                                          \
  PLAIT_GLOBAL(softmax_grad_rows_warp_single_##type, SoftmaxRowsArgs, kRowBlock) {           \
    softmax_grad_kept<T, 32, 1>(a);                                                          \
  }                                                                                          \
  PLAIT_GLOBAL(softmax_grad_rows_block_##type, SoftmaxRowsArgs, kRowBlock) {                 \
    softmax_grad_kept<T, kRowBlock, 16 / sizeof(T)>(a);                                      \
  }                                                                                          \
  PLAIT_GLOBAL(softmax_grad_rows_block_single_##type, SoftmaxRowsArgs, kRowBlock) {          \
    softmax_grad_kept<T, kRowBlock, 1>(a);                                                   \
  }                                                                                          \
  PLAIT_GLOBAL(softmax_grad_rows_long_##type, SoftmaxRowsArgs, kRowBlock) {                  \
    softmax_grad_long<T>(a);                                                                 \
  }
PLAIT_SOFTMAX_ROWS(f32, float)
PLAIT_SOFTMAX_ROWS(bf16, bf16)
PLAIT_SOFTMAX_ROWS(f16, f16)
#undef PLAIT_SOFTMAX_ROWS

}  // namespace plait::cuda
