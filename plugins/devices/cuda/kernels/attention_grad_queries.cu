// dq of dot_product_attention_grad, of 16-bit floats on tensor cores. A block of threads has 128
// queries of one head, a warp 32 of them, and walks over the tiles of 32 keys that any of them
// sees.
#include "plugins/devices/cuda/kernels/device.cuh"

#include "plugins/devices/cuda/kernels/attention_tile.cuh"

namespace plait::cuda {
namespace {

constexpr int kQueries = kGradQueryRows, kKeys = kGradKeyColumns;
using Scores = float[2][kKeys / 8][4];

// Of a warp's 32 queries what a thread has: of its four rows lse, in units of log2, and delta.
struct Rows : QueryRows {
  float lse[2][2], delta[2][2];
  // Behind the last query both are 0, as q and do are.
  __device__ void read(const AttentionArgs& a) {
    const int64_t row = (static_cast<int64_t>(sample) * a.heads + head) * a.queries;
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int t = query(m, half);
        lse[m][half] = t < a.queries ? a.lse[row + t] * kLog2E : 0;
        delta[m][half] = t < a.queries ? a.delta[row + t] : 0;
      }
  }
};

// Scores become weights.
__device__ __forceinline__ void weigh(const AttentionArgs& a, Scores& s, const Rows& rows, int key,
                                      bool masked) {
  const int column = key + 2 * (static_cast<int>(threadIdx.x) % 4);
  const float factor = exp2_factor(a);
  if (a.softcap > 0) {
    const float to_cap = a.scale / a.softcap;
#pragma unroll
    for (int i = 0; i < 32; ++i)
      s[i / 16][i / 4 % 4][i % 4] = capped(s[i / 16][i / 4 % 4][i % 4], to_cap);
  }
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    float& x = s[i / 16][i / 4 % 4][i % 4];
    x = fast_exp2(fmaf(x, factor, -rows.lse[i / 16][i / 2 % 2]));
  }
  if (!masked) return;
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const AttentionKeys seen = keys_of_query(a, rows.sample, rows.query(m, half));
#pragma unroll
      for (int i = 0; i < kKeys / 4; ++i)
        if (!sees(seen, column + i / 2 * 8 + i % 2)) s[m][i / 2][2 * half + i % 2] = 0;
    }
}

// dp of a tile becomes the gradient of its scores, without the factor of the scores.
__device__ __forceinline__ void grade(const AttentionArgs& a, const Scores& s, Scores& dp,
                                      const Rows& rows, int key) {
  const int column = key + 2 * (static_cast<int>(threadIdx.x) % 4);
  if (a.dropout > 0) {
    uint32_t kept = 0;  // a bit per weight; the loop stays one, since its body is long
#pragma unroll 1
    for (int i = 0; i < 32; ++i)
      kept |= static_cast<uint32_t>(keeps(a, rows.sample, rows.head, rows.query(i / 16, i / 2 % 2),
                                          column + i / 4 % 4 * 8 + i % 2))
              << i;
#pragma unroll
    for (int i = 0; i < 32; ++i) dp[i / 16][i / 4 % 4][i % 4] *= kept >> i & 1 ? a.kept : 0.0f;
  }
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    float& x = dp[i / 16][i / 4 % 4][i % 4];
    x = s[i / 16][i / 4 % 4][i % 4] * (x - rows.delta[i / 16][i / 2 % 2]);
  }
  if (a.softcap > 0) {
    const float from_log2 = 1 / exp2_factor(a);
#pragma unroll
    for (int i = 0; i < 32; ++i)
      dp[i / 16][i / 4 % 4][i % 4] *=
          cap_slope(s[i / 16][i / 4 % 4][i % 4], rows.lse[i / 16][i / 2 % 2], from_log2);
  }
}

// Blocks: see QueryBlock.
template <class T, int D>
__device__ __forceinline__ void grade_queries(const AttentionArgs& a) {
  constexpr unsigned kTile = kKeys * 2 * D;
  PLAIT_DYNAMIC_SHARED(unsigned char, shared);
  const SharedAddress q_tile = shared_address(shared), do_tile = q_tile + kQueries * 2 * D,
                      keys_tile = do_tile + kQueries * 2 * D;
  const auto [first, sample, head, group] = query_block<kQueries>(a);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;

  const AttentionSpan seen = span_of(a, sample, first, kQueries);
  const int64_t query = (static_cast<int64_t>(sample) * a.queries + first) * a.heads + head,
                keys = static_cast<int64_t>(sample) * a.keys * a.groups + group;
  const auto copy_keys = [&](unsigned stage, int key) {
    const SharedAddress to = keys_tile + stage * 2 * kTile;
    const int64_t from = keys + static_cast<int64_t>(key) * a.groups;
    copy_tile<T, D, kKeys>(to, static_cast<const T*>(a.k) + from * a.qk, a.groups * a.qk,
                           a.keys - key, a.qk);
    copy_tile<T, D, kKeys>(to + kTile, static_cast<const T*>(a.v) + from * a.value,
                           a.groups * a.value, a.keys - key, a.value);
  };
  copy_tile<T, D, kQueries>(q_tile, static_cast<const T*>(a.q) + query * a.qk, a.heads * a.qk,
                            a.queries - first, a.qk);
  copy_tile<T, D, kQueries>(do_tile, static_cast<const T*>(a.d_o) + query * a.value,
                            a.heads * a.value, a.queries - first, a.value);
  Rows rows;
  rows.sample = sample, rows.head = head, rows.first = first + warp * 32 + lane / 4;
  rows.read(a);
  const SharedAddress q_rows = by_rows<D>(q_tile + static_cast<unsigned>(warp * 64 * D), lane),
                      do_rows = by_rows<D>(do_tile + static_cast<unsigned>(warp * 64 * D), lane);
  float dq[2][D / 8][4] = {};
  int key = first_tile<kKeys>(seen);
  if (key < seen.end) copy_keys(0, key);
  copy_commit();
  for (unsigned stage = 0; key < seen.end; key += kKeys, stage ^= 1) {
    copy_wait<0>();
    __syncthreads();  // this tile is there, and nobody reads the one before any more
    if (key + kKeys < seen.end) copy_keys(stage ^ 1, key + kKeys);
    copy_commit();
    const SharedAddress k_tile = keys_tile + stage * 2 * kTile;
    Scores s = {}, dp = {};
    multiply_rows<T, D, 2, kKeys / 8>(s, q_rows, by_columns<D>(k_tile, lane));
    weigh(a, s, rows, key, !sees_all(seen, key, kKeys));
    multiply_rows<T, D, 2, kKeys / 8>(dp, do_rows, by_columns<D>(k_tile + kTile, lane));
    grade(a, s, dp, rows, key);
    uint32_t left[2][kKeys / 16][4];
    as_left<T>(dp, left);
    multiply_columns<T, D, 2, kKeys / 16>(dq, left, by_rows<D>(k_tile, lane));
  }
  copy_wait<0>();
  __syncthreads();  // without keys q is still being copied
  const float scales[2][2] = {{a.scale, a.scale}, {a.scale, a.scale}};
  write_rows<T, D, 2>(
      dq, scales, shared + warp * 64 * D,
      static_cast<T*>(a.dq) + (query + static_cast<int64_t>(warp * 32) * a.heads) * a.qk,
      static_cast<int64_t>(a.heads) * a.qk, a.queries - first - warp * 32, a.qk);
}

}  // namespace

#define PLAIT_ATTENTION(name, T, D) \
  PLAIT_GLOBAL(name, AttentionArgs, kAttentionThreads) { grade_queries<T, D>(a); }
PLAIT_ATTENTION(attention_grad_queries_bf16_64, bf16, 64)
PLAIT_ATTENTION(attention_grad_queries_bf16_128, bf16, 128)
PLAIT_ATTENTION(attention_grad_queries_f16_64, f16, 64)
PLAIT_ATTENTION(attention_grad_queries_f16_128, f16, 128)
#undef PLAIT_ATTENTION

}  // namespace plait::cuda
