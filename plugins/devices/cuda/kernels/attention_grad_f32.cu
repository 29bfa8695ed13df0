// dot_product_attention_grad of f32 without tensor cores: dk and dv by blocks of keys, dq by blocks
// of queries, as attention_grad_keys.cu and attention_grad_queries.cu have them for 16-bit floats.
#include "plugins/devices/cuda/kernels/device.cuh"

#include "plugins/devices/cuda/kernels/attention_f32_tile.cuh"

namespace plait::cuda {
namespace {

constexpr int kColumns = kF32Columns, J = kColumns / 16;
template <int D>
constexpr int kRowsOf = f32_grad_rows(D);

// What one pair of a query and a key is asked: sample, head, query, key.
struct Pair {
  int sample, head, query, key;
};

// A score becomes a weight. lse: in units of log2.
__device__ __forceinline__ float weight_of(const AttentionArgs& a, float score, float lse,
                                           const Pair& at, bool masked) {
  if (a.softcap > 0) score = capped(score, a.scale / a.softcap);
  const float weight = fast_exp2(fmaf(score, exp2_factor(a), -lse));
  return !masked || sees(keys_of_query(a, at.sample, at.query), at.key) ? weight : 0;
}
// The gradient of the score, without its factor.
__device__ __forceinline__ float grade(const AttentionArgs& a, float weight, float dp, float kept,
                                       float lse, float delta) {
  const float x = weight * (dp * kept - delta);
  return a.softcap > 0 ? x * cap_slope(weight, lse, 1 / exp2_factor(a)) : x;
}
__device__ __forceinline__ float kept_of(const AttentionArgs& a, const Pair& at) {
  if (a.dropout == 0) return 1;
  return keeps(a, at.sample, at.head, at.query, at.key) ? a.kept : 0;
}
// lse, in units of log2, or delta of a query; behind the last one 0, as its q and do are.
__device__ __forceinline__ float number_of(const AttentionArgs& a, const float* of,
                                           const Pair& at) {
  if (at.query >= a.queries) return 0;
  return of[(static_cast<int64_t>(at.sample) * a.heads + at.head) * a.queries + at.query];
}

// Tiles of the block and of what it walks over, and one of weights.
template <int D>
struct Shared {
  float *rows, *other_rows, *columns, *other_columns, *weights;
  __device__ explicit Shared(float* at)
      : rows(at),
        other_rows(rows + kRowsOf<D> * kF32Stride<D>),
        columns(other_rows + kRowsOf<D> * kF32Stride<D>),
        other_columns(columns + kColumns * kF32Stride<D>),
        weights(other_columns + kColumns * kF32Stride<D>) {}
};

template <int D>
__device__ __forceinline__ void grade_keys(const AttentionArgs& a) {
  constexpr int kRows = kRowsOf<D>, I = kRows / 16;
  PLAIT_DYNAMIC_SHARED(float, memory);
  const Shared<D> shared(memory);
  const int blocks = (a.keys + kRows - 1) / kRows, row = static_cast<int>(blockIdx.x) / blocks,
            first = static_cast<int>(blockIdx.x) % blocks * kRows, sample = row / a.groups,
            group = row % a.groups;
  const int tx = static_cast<int>(threadIdx.x) % 16, ty = static_cast<int>(threadIdx.x) / 16;
  const int64_t key_row = (static_cast<int64_t>(sample) * a.keys + first) * a.groups + group,
                k_distance = static_cast<int64_t>(a.groups) * a.qk,
                v_distance = static_cast<int64_t>(a.groups) * a.value,
                q_distance = static_cast<int64_t>(a.heads) * a.qk,
                do_distance = static_cast<int64_t>(a.heads) * a.value;
  copy_f32<D, kRows>(shared.rows, static_cast<const float*>(a.k) + key_row * a.qk, k_distance,
                     a.keys - first, a.qk);
  copy_f32<D, kRows>(shared.other_rows, static_cast<const float*>(a.v) + key_row * a.value,
                     v_distance, a.keys - first, a.value);
  float dk[I][D / 64][4] = {}, dv[I][D / 64][4] = {};
  for (QueryTiles<kRows, kColumns> tiles(a, sample, group, first); !tiles.done(); tiles.next(a)) {
    const int64_t from =
        (static_cast<int64_t>(sample) * a.queries + tiles.query) * a.heads + tiles.head;
    __syncthreads();  // nobody reads the queries before any more
    copy_f32<D, kColumns>(shared.columns, static_cast<const float*>(a.q) + from * a.qk, q_distance,
                          a.queries - tiles.query, a.qk);
    copy_f32<D, kColumns>(shared.other_columns, static_cast<const float*>(a.d_o) + from * a.value,
                          do_distance, a.queries - tiles.query, a.value);
    __syncthreads();
    float s[I][J], dp[I][J];
    multiply_rows_f32<D>(s, shared.rows, shared.columns);
    multiply_rows_f32<D>(dp, shared.other_rows, shared.other_columns);
#pragma unroll
    for (int j = 0; j < J; ++j) {
      Pair at{sample, tiles.head, tiles.query + tx + 16 * j, 0};
      const float lse = number_of(a, a.lse, at) * kLog2E, delta = number_of(a, a.delta, at);
#pragma unroll
      for (int i = 0; i < I; ++i) {
        at.key = first + ty + 16 * i;
        const float weight = weight_of(a, s[i][j], lse, at, tiles.masked), kept = kept_of(a, at);
        dp[i][j] = grade(a, weight, dp[i][j], kept, lse, delta);
        s[i][j] = weight * kept;
      }
    }
    put_f32<kColumns>(s, shared.weights);
    __syncwarp();  // no other warp reads these rows of weights
    multiply_columns_f32<D, kColumns, I>(dv, shared.weights, shared.other_columns);
    __syncwarp();
    put_f32<kColumns>(dp, shared.weights);
    __syncwarp();
    multiply_columns_f32<D, kColumns, I>(dk, shared.weights, shared.columns);
  }
  float scales[I], ones[I];
#pragma unroll
  for (int i = 0; i < I; ++i) scales[i] = a.scale, ones[i] = 1;
  write_rows_f32<D, I>(dk, scales, static_cast<float*>(a.dk) + key_row * a.qk, k_distance,
                       a.keys - first, a.qk);
  write_rows_f32<D, I>(dv, ones, static_cast<float*>(a.dv) + key_row * a.value, v_distance,
                       a.keys - first, a.value);
}

template <int D>
__device__ __forceinline__ void grade_queries(const AttentionArgs& a) {
  constexpr int kRows = kRowsOf<D>, I = kRows / 16;
  PLAIT_DYNAMIC_SHARED(float, memory);
  const Shared<D> shared(memory);
  const auto [first, sample, head, group] = query_block<kRows>(a);
  const int tx = static_cast<int>(threadIdx.x) % 16, ty = static_cast<int>(threadIdx.x) / 16;
  const int64_t query = (static_cast<int64_t>(sample) * a.queries + first) * a.heads + head,
                keys = static_cast<int64_t>(sample) * a.keys * a.groups + group;
  copy_f32<D, kRows>(shared.rows, static_cast<const float*>(a.q) + query * a.qk,
                     static_cast<int64_t>(a.heads) * a.qk, a.queries - first, a.qk);
  copy_f32<D, kRows>(shared.other_rows, static_cast<const float*>(a.d_o) + query * a.value,
                     static_cast<int64_t>(a.heads) * a.value, a.queries - first, a.value);
  float dq[I][D / 64][4] = {}, lse[I], delta[I], scales[I];
#pragma unroll
  for (int i = 0; i < I; ++i) {
    const Pair at{sample, head, first + ty + 16 * i, 0};
    lse[i] = number_of(a, a.lse, at) * kLog2E, delta[i] = number_of(a, a.delta, at);
    scales[i] = a.scale;
  }
  const AttentionSpan seen = span_of(a, sample, first, kRows);
  for (int key = first_tile<kColumns>(seen); key < seen.end; key += kColumns) {
    const int64_t from = keys + static_cast<int64_t>(key) * a.groups;
    const bool masked = !sees_all(seen, key, kColumns);
    __syncthreads();  // nobody reads the keys before any more
    copy_f32<D, kColumns>(shared.columns, static_cast<const float*>(a.k) + from * a.qk,
                          static_cast<int64_t>(a.groups) * a.qk, a.keys - key, a.qk);
    copy_f32<D, kColumns>(shared.other_columns, static_cast<const float*>(a.v) + from * a.value,
                          static_cast<int64_t>(a.groups) * a.value, a.keys - key, a.value);
    __syncthreads();
    float s[I][J], dp[I][J];
    multiply_rows_f32<D>(s, shared.rows, shared.columns);
    multiply_rows_f32<D>(dp, shared.other_rows, shared.other_columns);
#pragma unroll
    for (int i = 0; i < I; ++i)
#pragma unroll
      for (int j = 0; j < J; ++j) {
        const Pair at{sample, head, first + ty + 16 * i, key + tx + 16 * j};
        const float weight = weight_of(a, s[i][j], lse[i], at, masked);
        s[i][j] = grade(a, weight, dp[i][j], kept_of(a, at), lse[i], delta[i]);
      }
    put_f32<kColumns>(s, shared.weights);
    __syncwarp();  // no other warp reads these rows of weights
    multiply_columns_f32<D, kColumns, I>(dq, shared.weights, shared.columns);
  }
  write_rows_f32<D, I>(dq, scales, static_cast<float*>(a.dq) + query * a.qk,
                       static_cast<int64_t>(a.heads) * a.qk, a.queries - first, a.qk);
}

}  // namespace

PLAIT_GLOBAL(attention_grad_keys_f32_64, AttentionArgs, kF32Threads) { grade_keys<64>(a); }
PLAIT_GLOBAL(attention_grad_keys_f32_128, AttentionArgs, kF32Threads) { grade_keys<128>(a); }
PLAIT_GLOBAL(attention_grad_queries_f32_64, AttentionArgs, kF32Threads) { grade_queries<64>(a); }
PLAIT_GLOBAL(attention_grad_queries_f32_128, AttentionArgs, kF32Threads) { grade_queries<128>(a); }

}  // namespace plait::cuda
