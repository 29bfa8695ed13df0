// attention_cached where few tokens of a sequence meet many keys, in f32: a block for one token, up
// to R query heads that read one key head, and a part of the keys. A tile of keys at a time lies in
// shared memory, an online softmax (Milakov and Gimelshein 2018, arXiv:1805.02867) keeps the sums,
// and the parts are joined as in Flash-Decoding (Dao et al. 2023).
#include "plugins/devices/cuda/kernels/attention_decode_args.hpp"
#include "plugins/devices/cuda/kernels/device.cuh"

namespace plait::cuda {
namespace {

constexpr int kWarps = kDecodeBlock / 32, kVector = 4;

struct Keys {
  int64_t begin, end;
};
// The keys that a token sees.
__device__ Keys keys_of(const AttentionDecodeArgs& a, int64_t token) {
  const int64_t slot = get_index(a.slot, token / a.tokens), p = get_index(a.at, token);
  if (slot < 0 || slot >= a.slots || p < 0) return {0, 0};
  const int64_t begin = a.window > 0 && p >= a.window ? p - a.window + 1 : 0;
  return {begin, (p < a.places - 1 ? p : a.places - 1) + 1};
}

// What the threads of a block share.
template <int R>
struct Shared {
  alignas(16) float q[R][kDecodeChannels];  // scaled
  float weights[R][kDecodeKeys];
  float greatest[R], sum[R], keep[R];  // keep: what older sums are multiplied by
  float of_warp[kWarps][kDecodeChannels];
};

// The keys from `key` on, whole units of 16 bytes; behind `end` zeros.
template <class C>
__device__ void load_keys(const AttentionDecodeArgs& a, const C* k, int64_t key, int64_t end,
                          unsigned char* tile) {
  const int units = a.qk * static_cast<int>(sizeof(C)) / 16, stride = units * 16 + kDecodePad;
  for (int i = static_cast<int>(threadIdx.x); i < kDecodeKeys * units; i += kDecodeBlock) {
    const int row = i / units, unit = i - row * units;
    uint4 bits = make_uint4(0, 0, 0, 0);
    if (key + row < end)
      bits = reinterpret_cast<const uint4*>(k + (key + row) * a.groups * a.qk)[unit];
    *reinterpret_cast<uint4*>(tile + row * stride + unit * 16) = bits;
  }
}

// Two threads for each key, which take its units in turn.
template <class C, int R>
__device__ void score_keys(const AttentionDecodeArgs& a, const unsigned char* tile, int valid,
                           Shared<R>& s) {
  constexpr int kUnit = 16 / static_cast<int>(sizeof(C));
  const int key = static_cast<int>(threadIdx.x / 2), half = static_cast<int>(threadIdx.x % 2);
  const int units = a.qk / kUnit;
  const unsigned char* row = tile + key * (units * 16 + kDecodePad);
  float sum[R] = {};
  for (int u = half; u < units; u += 2) {
    float k[kUnit];
    load_pack<C, kUnit>(reinterpret_cast<const C*>(row + u * 16), k);
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
      for (int j = 0; j < kUnit; j += kVector) {
        float q[kVector];
        load_pack<float, kVector>(&s.q[r][u * kUnit + j], q);
#pragma unroll
        for (int i = 0; i < kVector; ++i) sum[r] = fmaf(q[i], k[j + i], sum[r]);
      }
  }
#pragma unroll
  for (int r = 0; r < R; ++r) {
    float score = sum[r] + __shfl_xor_sync(kWholeWarp, sum[r], 1);
    if (a.softcap > 0) score = a.softcap * tanhf(score / a.softcap);
    if (half == 0) s.weights[r][key] = key < valid ? score : static_cast<float>(-kInfinity);
  }
}

// Scores become weights relative to the greatest score so far. Where all are -infinity, weights are
// 0: a later tile may have more.
template <int R>
__device__ void weigh_keys(Shared<R>& s) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int r = static_cast<int>(threadIdx.x / 32); r < R; r += kWarps) {
    const float a = s.weights[r][lane], b = s.weights[r][lane + 32], old = s.greatest[r];
    const float greatest = max_nan(old, over_warp<Max>(max_nan(a, b)));
    const bool none = greatest == static_cast<float>(-kInfinity);
    const float wa = none ? 0.0f : expf(a - greatest), wb = none ? 0.0f : expf(b - greatest),
                keep = none ? 1.0f : expf(old - greatest);
    s.weights[r][lane] = wa;
    s.weights[r][lane + 32] = wb;
    const float sum = over_warp<Sum>(wa + wb);
    if (lane == 0) {
      s.sum[r] = s.sum[r] * keep + sum;
      s.greatest[r] = greatest;
      s.keep[r] = keep;
    }
  }
}

// o += weights * v. Warps take keys in turn, lanes channels.
template <class C, int R, int P>
__device__ void add_values(const AttentionDecodeArgs& a, const C* v, int64_t key, int valid,
                           const Shared<R>& s, float (&o)[R][P * kVector]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int i = 0; i < P * kVector; ++i) o[r][i] *= s.keep[r];
#pragma unroll 4
  for (int j = static_cast<int>(threadIdx.x / 32); j < valid; j += kWarps) {
    const C* row = v + (key + j) * a.groups * a.value;
    float x[P * kVector] = {};
#pragma unroll
    for (int p = 0; p < P; ++p)
      if ((p * 32 + lane) * kVector < a.value)
        load_pack<C, kVector>(row + (p * 32 + lane) * kVector, x + p * kVector);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const float w = s.weights[r][j];
#pragma unroll
      for (int i = 0; i < P * kVector; ++i) o[r][i] = fmaf(w, x[i], o[r][i]);
    }
  }
}

// Head r of the block's tile; heads that there are not have no result.
struct Heads {
  int first, end;
};
__device__ Heads heads_of(const AttentionDecodeArgs& a, int group, int tile, int per_tile) {
  const int begin = group * a.heads_per_group - a.skipped, end = begin + a.heads_per_group;
  return {begin + tile * per_tile, end < a.heads ? end : a.heads};
}

// Adds up what the warps have of one head and writes it: the result, or the part of this block.
template <int R>
__device__ void put_head(const AttentionDecodeArgs& a, int64_t row, int split, bool some, int r,
                         const Shared<R>& s) {
  const float sum = s.sum[r];
  for (int i = static_cast<int>(threadIdx.x); i < a.value; i += kDecodeBlock) {
    float o = 0;
    for (int w = 0; w < kWarps; ++w) o += s.of_warp[w][i];
    if (a.splits == 1)
      set(a.out, row * a.value + i, some ? o / sum : 0.0f);
    else
      a.sums[(row * a.splits + split) * a.value + i] = o;
  }
  if (a.splits > 1 && threadIdx.x == 0) {
    a.greatest[row * a.splits + split] = s.greatest[r];
    a.weights[row * a.splits + split] = sum;
  }
}

template <class C, int R, int P>
__device__ void decode(const AttentionDecodeArgs& a) {
  __shared__ Shared<R> s;
  PLAIT_DYNAMIC_SHARED(unsigned char, tile);
  const int64_t token = static_cast<int64_t>(blockIdx.x) / a.splits;
  const int split = static_cast<int>(blockIdx.x - token * a.splits), lane = threadIdx.x % 32,
            group = static_cast<int>(blockIdx.y) / a.tiles_per_group;
  const Heads heads =
      heads_of(a, group, static_cast<int>(blockIdx.y) - group * a.tiles_per_group, R);
  const Keys all = keys_of(a, token);
  // Each part is whole tiles, but for the last one.
  const int64_t parts = static_cast<int64_t>(a.splits) * kDecodeKeys,
                each = (all.end - all.begin + parts - 1) / parts * kDecodeKeys,
                begin = all.begin + split * each,
                end = begin + each < all.end ? begin + each : all.end;
  for (int r = 0; r < R; ++r) {
    const bool there = heads.first + r >= 0 && heads.first + r < heads.end;
    for (int i = static_cast<int>(threadIdx.x); i < a.qk; i += kDecodeBlock)
      s.q[r][i] = !there ? 0.0f
                         : a.scale * static_cast<float>(
                                         get(a.q, (token * a.heads + heads.first + r) * a.qk + i));
    if (threadIdx.x == 0) s.greatest[r] = static_cast<float>(-kInfinity), s.sum[r] = 0;
  }
  const int64_t row = all.begin < all.end ? get_index(a.slot, token / a.tokens) * a.places : 0;
  const C* k = static_cast<const C*>(a.k) + (row * a.groups + a.first_group + group) * a.qk;
  const C* v = static_cast<const C*>(a.v) + (row * a.groups + a.first_group + group) * a.value;
  float o[R][P * kVector] = {};
  for (int64_t key = begin; key < end; key += kDecodeKeys) {
    const int valid = end - key < kDecodeKeys ? static_cast<int>(end - key) : kDecodeKeys;
    load_keys(a, k, key, end, tile);
    __syncthreads();
    score_keys<C, R>(a, tile, valid, s);
    __syncthreads();
    weigh_keys<R>(s);
    __syncthreads();
    add_values<C, R, P>(a, v, key, valid, s, o);
    __syncthreads();
  }
  const int warp = static_cast<int>(threadIdx.x / 32);
#pragma unroll
  for (int r = 0; r < R; ++r) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < P * kVector; ++i) {
      const int channel = (i / kVector * 32 + lane) * kVector + i % kVector;
      if (channel < a.value) s.of_warp[warp][channel] = o[r][i];
    }
    __syncthreads();
    if (heads.first + r >= 0 && heads.first + r < heads.end)
      put_head<R>(a, token * a.heads + heads.first + r, split, all.begin < all.end, r, s);
  }
}

}  // namespace

// Joins the parts of each query: a block for each.
PLAIT_GLOBAL(attention_decode_join, AttentionDecodeArgs, kDecodeBlock) {
  const int64_t row = blockIdx.x;
  const float *greatest = a.greatest + row * a.splits, *weights = a.weights + row * a.splits;
  float most = static_cast<float>(-kInfinity), sum = 0;
  for (int s = 0; s < a.splits; ++s) most = max_nan(most, greatest[s]);
  const auto factor = [&](int s) {
    return most == static_cast<float>(-kInfinity) ? 0.0f : expf(greatest[s] - most);
  };
  for (int s = 0; s < a.splits; ++s) sum += factor(s) * weights[s];
  const Keys keys = keys_of(a, row / a.heads);
  for (int i = static_cast<int>(threadIdx.x); i < a.value; i += kDecodeBlock) {
    float o = 0;
    for (int s = 0; s < a.splits; ++s)
      o = fmaf(factor(s), a.sums[(row * a.splits + s) * a.value + i], o);
    set(a.out, row * a.value + i, keys.begin < keys.end ? o / sum : 0.0f);
  }
}

// R: heads of a block; P: passes of the lanes over the channels of a value.
#define ATTENTION_DECODE_KERNEL(T, name, R, P)                                           \
  PLAIT_GLOBAL(attention_decode_##name##_##R##_##P, AttentionDecodeArgs, kDecodeBlock) { \
    decode<T, R, P>(a);                                                                  \
  }
#define ATTENTION_DECODE_KERNELS(T, name) \
  ATTENTION_DECODE_KERNEL(T, name, 1, 1)  \
  ATTENTION_DECODE_KERNEL(T, name, 2, 1)  \
  ATTENTION_DECODE_KERNEL(T, name, 4, 1)  \
  ATTENTION_DECODE_KERNEL(T, name, 8, 1)  \
  ATTENTION_DECODE_KERNEL(T, name, 1, 2)  \
  ATTENTION_DECODE_KERNEL(T, name, 2, 2)  \
  ATTENTION_DECODE_KERNEL(T, name, 4, 2)

ATTENTION_DECODE_KERNELS(float, f32)
ATTENTION_DECODE_KERNELS(bf16, bf16)
ATTENTION_DECODE_KERNELS(f16, f16)

}  // namespace plait::cuda
