// dot_product_attention of 16-bit floats on tensor cores, without a matrix of all scores: Dao 2023,
// FlashAttention-2 (arXiv:2307.08691), algorithm 1. A block of threads has 128 queries of one head,
// a warp 32 of them, and walks over the tiles of 64 keys that any of them sees.
#include "plugins/devices/cuda/kernels/device.cuh"

#include "plugins/devices/cuda/kernels/attention_tile.cuh"

namespace plait::cuda {
namespace {

constexpr int kQueries = kAttentionQueries, kKeys = kAttentionKeys;

// What a thread has of its warp's 32 queries: fragments c, and of its four rows the greatest score
// and the sum of the weights in its own columns.
template <int D>
struct Rows : QueryRows {
  float o[2][D / 8][4] = {};
  float most[2][2], sum[2][2] = {};
};
using Scores = float[2][kKeys / 8][4];

// Scores with the keys [key, ...) become weights, not divided by their sum; what the rows have so
// far is scaled to their new greatest score.
template <int D>
__device__ __forceinline__ void weigh(const AttentionArgs& a, Scores& s, Rows<D>& rows, int key,
                                      bool masked) {
  const int column = key + 2 * (static_cast<int>(threadIdx.x) % 4);
  const float factor = exp2_factor(a);
  if (a.softcap > 0) {
    const float to_cap = a.scale / a.softcap;
#pragma unroll
    for (int i = 0; i < 2 * kKeys / 2; ++i) {
      float& x = s[i / 32][i / 4 % 8][i % 4];
      x = capped(x, to_cap);
    }
  }
  float shrink[2][2];
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (masked) {
        const AttentionKeys seen = keys_of_query(a, rows.sample, rows.query(m, half));
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
          for (int i = 0; i < 2; ++i)
            if (!sees(seen, column + 8 * n + i)) s[m][n][2 * half + i] = minus_infinity();
      }
      float most = rows.most[m][half];
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
        most = fmaxf(most, fmaxf(s[m][n][2 * half], s[m][n][2 * half + 1]));
      most = fmaxf(most, __shfl_xor_sync(kWholeWarp, most, 1));
      most = fmaxf(most, __shfl_xor_sync(kWholeWarp, most, 2));
      // Nothing seen so far: exp2(-inf - 0) is 0, where -inf + inf would not be.
      const float shift = most == minus_infinity() ? 0 : most * factor;
      shrink[m][half] = fast_exp2(fmaf(rows.most[m][half], factor, -shift));
      rows.most[m][half] = most;
      float sum = 0;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& x = s[m][n][2 * half + i];
          x = fast_exp2(fmaf(x, factor, -shift));
          sum += x;
        }
      rows.sum[m][half] = fmaf(rows.sum[m][half], shrink[m][half], sum);
    }
  const bool changed =
      shrink[0][0] != 1 || shrink[0][1] != 1 || shrink[1][0] != 1 || shrink[1][1] != 1;
  if (!__any_sync(kWholeWarp, changed)) return;
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int n = 0; n < D / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) rows.o[m][n][i] *= shrink[m][i / 2];
}

// Dropout of the weights of a tile.
template <int D>
__device__ __forceinline__ void drop(const AttentionArgs& a, Scores& s, const Rows<D>& rows,
                                     int key) {
  const int column = key + 2 * (static_cast<int>(threadIdx.x) % 4);
#pragma unroll
  for (int m = 0; m < 2; ++m) {
    uint32_t kept = 0;  // a bit per weight; the loop stays one, since its body is long
#pragma unroll 1
    for (int i = 0; i < 32; ++i)
      kept |= static_cast<uint32_t>(keeps(a, rows.sample, rows.head, rows.query(m, i / 2 % 2),
                                          column + i / 4 * 8 + i % 2))
              << i;
#pragma unroll
    for (int i = 0; i < 32; ++i) s[m][i / 4][i % 4] *= kept >> i & 1 ? a.kept : 0.0f;
  }
}

// Divides by the sums and writes o and lse.
template <class T, int D>
__device__ __forceinline__ void finish(const AttentionArgs& a, const Rows<D>& rows, int warp_first,
                                       unsigned char* tile) {
  float factor[2][2];
  const float unit = a.softcap > 0 ? a.softcap : a.scale;
  const int64_t lse_row = (static_cast<int64_t>(rows.sample) * a.heads + rows.head) * a.queries;
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int t = rows.query(m, half);
      const AttentionKeys seen = keys_of_query(a, rows.sample, t);
      float sum = rows.sum[m][half];
      sum += __shfl_xor_sync(kWholeWarp, sum, 1);
      sum += __shfl_xor_sync(kWholeWarp, sum, 2);
      const bool any = seen.begin < seen.end;
      factor[m][half] = any ? 1 / sum : 0;
      if (threadIdx.x % 4 != 0 || t >= a.queries) continue;
      // Scores that are all -inf have no softmax.
      a.out_lse[lse_row + t] =
          any && sum == 0 ? __uint_as_float(0x7fc00000u) : rows.most[m][half] * unit + logf(sum);
    }
  const int64_t first =
      ((static_cast<int64_t>(rows.sample) * a.queries + warp_first) * a.heads + rows.head) *
      a.value;
  write_rows<T, D, 2>(rows.o, factor, tile, static_cast<T*>(a.out) + first,
                      static_cast<int64_t>(a.heads) * a.value, a.queries - warp_first, a.value);
}

// Blocks: see QueryBlock.
template <class T, int D>
__device__ __forceinline__ void attend(const AttentionArgs& a) {
  PLAIT_DYNAMIC_SHARED(unsigned char, shared);
  const SharedAddress q_tile = shared_address(shared), k_tile = q_tile + kQueries * 2 * D,
                      v_tile = k_tile + kKeys * 2 * D;
  const auto [first, sample, head, group] = query_block<kQueries>(a);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;

  const AttentionSpan seen = span_of(a, sample, first, kQueries);
  const int64_t query = static_cast<int64_t>(sample) * a.queries + first,
                keys = static_cast<int64_t>(sample) * a.keys;
  const T* const k = static_cast<const T*>(a.k) + (keys * a.groups + group) * a.qk;
  const T* const v = static_cast<const T*>(a.v) + (keys * a.groups + group) * a.value;
  const int k_distance = a.groups * a.qk, v_distance = a.groups * a.value;

  Rows<D> rows;
  rows.sample = sample, rows.head = head, rows.first = first + warp * 32 + lane / 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) rows.most[i / 2][i % 2] = minus_infinity();
  copy_tile<T, D, kQueries>(q_tile, static_cast<const T*>(a.q) + (query * a.heads + head) * a.qk,
                            a.heads * a.qk, a.queries - first, a.qk);
  int key = first_tile<kKeys>(seen);
  if (key < seen.end)
    copy_tile<T, D, kKeys>(k_tile, k + static_cast<int64_t>(key) * k_distance, k_distance,
                           a.keys - key, a.qk);
  copy_commit();
  for (; key < seen.end; key += kKeys) {
    copy_wait<0>();
    __syncthreads();  // k is there, and nobody reads v any more
    copy_tile<T, D, kKeys>(v_tile, v + static_cast<int64_t>(key) * v_distance, v_distance,
                           a.keys - key, a.value);
    copy_commit();
    Scores s = {};
    multiply_rows<T, D, 2, kKeys / 8>(
        s, by_rows<D>(q_tile + static_cast<unsigned>(warp * 64 * D), lane),
        by_columns<D>(k_tile, lane));
    copy_wait<0>();
    __syncthreads();  // v is there, and nobody reads k any more
    if (key + kKeys < seen.end)
      copy_tile<T, D, kKeys>(k_tile, k + static_cast<int64_t>(key + kKeys) * k_distance, k_distance,
                             a.keys - key - kKeys, a.qk);
    copy_commit();
    weigh<D>(a, s, rows, key, !sees_all(seen, key, kKeys));
    if (a.dropout > 0) drop<D>(a, s, rows, key);
    uint32_t weights[2][kKeys / 16][4];
    as_left<T>(s, weights);
    multiply_columns<T, D, 2, kKeys / 16>(rows.o, weights, by_rows<D>(v_tile, lane));
  }
  copy_wait<0>();
  __syncthreads();  // without keys q is still being copied
  finish<T, D>(a, rows, first + warp * 32, shared + warp * 64 * D);
}

}  // namespace

#define PLAIT_ATTENTION(name, T, D) \
  PLAIT_GLOBAL(name, AttentionArgs, kAttentionThreads) { attend<T, D>(a); }
PLAIT_ATTENTION(attention_bf16_64, bf16, 64)
PLAIT_ATTENTION(attention_bf16_128, bf16, 128)
PLAIT_ATTENTION(attention_f16_64, f16, 64)
PLAIT_ATTENTION(attention_f16_128, f16, 128)
#undef PLAIT_ATTENTION

}  // namespace plait::cuda
