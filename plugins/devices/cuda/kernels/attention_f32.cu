// dot_product_attention of f32 without tensor cores, as attention_flash.cu has it for 16-bit
// floats: a block of threads has 64 queries of one head and walks over the tiles of 32 keys.
#include "plugins/devices/cuda/kernels/device.cuh"

#include "plugins/devices/cuda/kernels/attention_f32_tile.cuh"

namespace plait::cuda {
namespace {

constexpr int kQueries = kF32Queries, kKeys = kF32Columns, I = kQueries / 16, J = kKeys / 16;

// Scores become weights, not divided by their sum; o, of the queries of this thread, is scaled to
// their new greatest score.
template <int D>
__device__ __forceinline__ void weigh(const AttentionArgs& a, float (&s)[I][J], int sample,
                                      int query, int key, bool masked, float (&most)[I],
                                      float (&sum)[I], float (&o)[I][D / 64][4]) {
  const float factor = exp2_factor(a);
#pragma unroll
  for (int i = 0; i < I; ++i) {
    AttentionKeys seen{0, kNoKey};
    if (masked) seen = keys_of_query(a, sample, query + 16 * i);
    float now = most[i];
#pragma unroll
    for (int j = 0; j < J; ++j) {
      if (a.softcap > 0) s[i][j] = capped(s[i][j], a.scale / a.softcap);
      if (!sees(seen, key + 16 * j)) s[i][j] = minus_infinity();
      now = fmaxf(now, s[i][j]);
    }
#pragma unroll
    for (int step = 8; step > 0; step /= 2)
      now = fmaxf(now, __shfl_xor_sync(kWholeWarp, now, step));
    // Nothing seen so far: exp2(-inf - 0) is 0, where -inf + inf would not be.
    const float shift = now == minus_infinity() ? 0 : now * factor,
                shrink = fast_exp2(fmaf(most[i], factor, -shift));
    most[i] = now;
    sum[i] *= shrink;
#pragma unroll
    for (int j = 0; j < J; ++j) {
      s[i][j] = fast_exp2(fmaf(s[i][j], factor, -shift));
      sum[i] += s[i][j];
    }
#pragma unroll
    for (int n = 0; n < D / 64; ++n)
#pragma unroll
      for (int m = 0; m < 4; ++m) o[i][n][m] *= shrink;
  }
}

template <int D>
__device__ __forceinline__ void finish(const AttentionArgs& a, const float (&o)[I][D / 64][4],
                                       const float (&most)[I], const float (&sums)[I], int sample,
                                       int head, int first) {
  const int ty = static_cast<int>(threadIdx.x) / 16;
  const float unit = a.softcap > 0 ? a.softcap : a.scale;
  float factor[I];
#pragma unroll
  for (int i = 0; i < I; ++i) {
    const int t = first + ty + 16 * i;
    const AttentionKeys seen = keys_of_query(a, sample, t);
    const bool any = seen.begin < seen.end;
    float sum = sums[i];
#pragma unroll
    for (int step = 8; step > 0; step /= 2) sum += __shfl_xor_sync(kWholeWarp, sum, step);
    factor[i] = any ? 1 / sum : 0;
    if (threadIdx.x % 16 != 0 || t >= a.queries) continue;
    // Scores that are all -inf have no softmax.
    a.out_lse[(static_cast<int64_t>(sample) * a.heads + head) * a.queries + t] =
        any && sum == 0 ? __uint_as_float(0x7fc00000u) : most[i] * unit + logf(sum);
  }
  const int64_t row = (static_cast<int64_t>(sample) * a.queries + first) * a.heads + head;
  write_rows_f32<D, I>(o, factor, static_cast<float*>(a.out) + row * a.value,
                       static_cast<int64_t>(a.heads) * a.value, a.queries - first, a.value);
}

template <int D>
__device__ __forceinline__ void attend(const AttentionArgs& a) {
  PLAIT_DYNAMIC_SHARED(float, q_tile);
  float* const k_tile = q_tile + kQueries * kF32Stride<D>;
  float* const v_tile = k_tile + kKeys * kF32Stride<D>;
  float* const weights = v_tile + kKeys * kF32Stride<D>;
  const auto [first, sample, head, group] = query_block<kQueries>(a);
  const int tx = static_cast<int>(threadIdx.x) % 16, ty = static_cast<int>(threadIdx.x) / 16;
  const int64_t query = (static_cast<int64_t>(sample) * a.queries + first) * a.heads + head,
                keys = static_cast<int64_t>(sample) * a.keys * a.groups + group;
  copy_f32<D, kQueries>(q_tile, static_cast<const float*>(a.q) + query * a.qk,
                        static_cast<int64_t>(a.heads) * a.qk, a.queries - first, a.qk);
  float o[I][D / 64][4] = {}, most[I], sum[I] = {};
#pragma unroll
  for (int i = 0; i < I; ++i) most[i] = minus_infinity();
  const AttentionSpan seen = span_of(a, sample, first, kQueries);
  for (int key = first_tile<kKeys>(seen); key < seen.end; key += kKeys) {
    const int64_t from = keys + static_cast<int64_t>(key) * a.groups;
    __syncthreads();  // nobody reads the keys before any more
    copy_f32<D, kKeys>(k_tile, static_cast<const float*>(a.k) + from * a.qk,
                       static_cast<int64_t>(a.groups) * a.qk, a.keys - key, a.qk);
    copy_f32<D, kKeys>(v_tile, static_cast<const float*>(a.v) + from * a.value,
                       static_cast<int64_t>(a.groups) * a.value, a.keys - key, a.value);
    __syncthreads();
    float s[I][J];
    multiply_rows_f32<D>(s, q_tile, k_tile);
    weigh<D>(a, s, sample, first + ty, key + tx, !sees_all(seen, key, kKeys), most, sum, o);
    if (a.dropout > 0)
      for (int i = 0; i < I; ++i)
        for (int j = 0; j < J; ++j)
          s[i][j] *= keeps(a, sample, head, first + ty + 16 * i, key + tx + 16 * j) ? a.kept : 0.0f;
    put_f32<kKeys>(s, weights);
    __syncwarp();  // no other warp reads these rows of weights
    multiply_columns_f32<D, kKeys, I>(o, weights, v_tile);
  }
  finish<D>(a, o, most, sum, sample, head, first);
}

}  // namespace

PLAIT_GLOBAL(attention_f32_64, AttentionArgs, kF32Threads) { attend<64>(a); }
PLAIT_GLOBAL(attention_f32_128, AttentionArgs, kF32Threads) { attend<128>(a); }

}  // namespace plait::cuda
