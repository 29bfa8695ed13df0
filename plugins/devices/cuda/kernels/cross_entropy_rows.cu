// cross_entropy and its gradient: logits are read once, and each gradient is written by the thread
// that has read the logit, so that it may lie on the logits. Labels: plugins/support/plain.
#include "plugins/devices/cuda/kernels/cross_entropy_rows_args.hpp"
#include "plugins/devices/cuda/kernels/log_sum.cuh"
#include "plugins/devices/cuda/kernels/row_groups.cuh"

namespace plait::cuda {
namespace {

// The column of a label among the valid ones; -1 if it lies elsewhere.
__device__ __forceinline__ int column_of(const CrossEntropyRowsArgs& a, int64_t label) {
  return label >= a.first && label - a.first < a.valid ? static_cast<int>(label - a.first) : -1;
}
// The share of a label's target that every class has.
__device__ __forceinline__ float spread(const CrossEntropyRowsArgs& a) {
  return a.smoothing / static_cast<float>(a.total);
}

// loss = lse - (1-s) x[label] - s/C sum(x)
__device__ __forceinline__ float loss_of(const CrossEntropyRowsArgs& a, int64_t label,
                                         float at_label, float lse, float all) {
  if (label < 0) return 0;
  if (label >= a.total) return NAN;
  float loss = a.part ? 0.0f : lse;
  if (column_of(a, label) >= 0) loss -= (1 - a.smoothing) * at_label;
  if (a.smoothing > 0) loss -= spread(a) * all;
  return loss;
}

template <class T, int kThreads>
__device__ __forceinline__ void cross_entropy(const CrossEntropyRowsArgs& a) {
  constexpr int kPack = 16 / sizeof(T);
  using Rows = Group<kThreads>;
  const int64_t row = Rows::row();
  if (row >= a.rows) return;
  const T* const x[] = {static_cast<const T*>(a.logits) + row * a.cols};
  const int64_t label = get_index(a.labels, row);
  const int at = column_of(a, label);
  const float at_label = at < 0 ? 0.0f : load(x[0] + at);
  LogSum log_sum;
  float all = 0;
  each_pack<T, kThreads>(
      x, a.valid,
      [&](int, const float(&v)[1][kPack]) {
        log_sum.add(v[0]);
        if (a.smoothing > 0)
#pragma unroll
          for (int j = 0; j < kPack; ++j) all += v[0][j];
      },
      [&](int, const float(&v)[1]) {
        log_sum.add(v);
        all += v[0];
      });
  log_sum = over_group<Rows>(log_sum);
  if (a.smoothing > 0) all = Rows::sum(all);
  if (Rows::thread() != 0) return;
  // Where all logits are -infinity, other parts may have classes that are possible.
  const bool nothing = log_sum.most == -INFINITY && log_sum.sum == 0;
  const float lse = !nothing                 ? log_sum.most + logf(log_sum.sum)
                    : a.part || a.valid == 0 ? -INFINITY
                                             : NAN;
  a.loss[row] = loss_of(a, label, at_label, lse, all);
  a.lse[row] = lse;
}

// dlogits = dloss * (exp(x - lse) - (1-s) onehot - s/C), 0 in the padding
struct Gradient {
  int valid, at;
  float lse, dloss, elsewhere, here;  // the targets
  __device__ __forceinline__ float operator()(int i, float x) const {
    const float d = dloss * (expf(x - lse) - (i == at ? here : elsewhere));
    return i < valid ? d : 0.0f;
  }
};

template <class T, int kThreads>
__device__ __forceinline__ void cross_entropy_grad(const CrossEntropyRowsArgs& a) {
  constexpr int kPack = 16 / sizeof(T);
  using Rows = Group<kThreads>;
  const int64_t row = Rows::row();
  if (row >= a.rows) return;
  const T* const x[] = {static_cast<const T*>(a.logits) + row * a.cols};
  T* out = static_cast<T*>(a.dlogits) + row * a.cols;
  const int64_t label = get_index(a.labels, row);
  const float lse = a.lse[row], dloss = a.dloss[row];
  if (label < 0 || label >= a.total) {
    const float fill = label < 0 ? 0.0f : NAN;
    each_pack<T, kThreads>(
        x, a.cols,
        [&](int i, float(&v)[1][kPack]) {
#pragma unroll
          for (int j = 0; j < kPack; ++j) v[0][j] = i + j < a.valid ? fill : 0.0f;
          store_pack<T, kPack>(out + i, v[0]);
        },
        [&](int i, const float(&)[1]) { store(out + i, i < a.valid ? fill : 0.0f); });
    return;
  }
  const Gradient gradient{a.valid, column_of(a, label), lse,
                          dloss,   spread(a),           (1 - a.smoothing) + spread(a)};
  each_pack<T, kThreads>(
      x, a.cols,
      [&](int i, float(&v)[1][kPack]) {
#pragma unroll
        for (int j = 0; j < kPack; ++j) v[0][j] = gradient(i + j, v[0][j]);
        store_pack<T, kPack>(out + i, v[0]);
      },
      [&](int i, const float(&v)[1]) { store(out + i, gradient(i, v[0])); });
}

}  // namespace

#define PLAIT_CROSS_ENTROPY_ROWS(type, T)                                               \
  PLAIT_GLOBAL(cross_entropy_rows_warp_##type, CrossEntropyRowsArgs, kRowBlock) {       \
    cross_entropy<T, 32>(a);                                                            \
  }                                                                                     \
  PLAIT_GLOBAL(cross_entropy_rows_block_##type, CrossEntropyRowsArgs, kRowBlock) {      \
    cross_entropy<T, kRowBlock>(a);                                                     \
  }                                                                                     \
  PLAIT_GLOBAL(cross_entropy_grad_rows_warp_##type, CrossEntropyRowsArgs, kRowBlock) {  \
    cross_entropy_grad<T, 32>(a);                                                       \
  }                                                                                     \
  PLAIT_GLOBAL(cross_entropy_grad_rows_block_##type, CrossEntropyRowsArgs, kRowBlock) { \
    cross_entropy_grad<T, kRowBlock>(a);                                                \
  }
PLAIT_CROSS_ENTROPY_ROWS(f32, float)
PLAIT_CROSS_ENTROPY_ROWS(bf16, bf16)
PLAIT_CROSS_ENTROPY_ROWS(f16, f16)
#undef PLAIT_CROSS_ENTROPY_ROWS

}  // namespace plait::cuda
