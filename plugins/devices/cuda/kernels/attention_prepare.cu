// What the attention kernels read beside the operands: the keys of each query where documents begin
// at some queries, and of the gradient the sum of o * do of each row.
#include "plugins/devices/cuda/kernels/device.cuh"

#include "plugins/devices/cuda/kernels/attention_tile.cuh"

namespace plait::cuda {
namespace {

constexpr int kRangeThreads = 256;

// The least value of this thread and those behind it in the block.
__device__ __forceinline__ int least_behind(int value, int (&all)[kRangeThreads]) {
  const unsigned i = threadIdx.x;
  all[i] = value;
  __syncthreads();
  for (unsigned step = 1; step < kRangeThreads; step *= 2) {
    if (i + step < kRangeThreads) value = min(value, all[i + step]);
    __syncthreads();
    all[i] = value;
    __syncthreads();
  }
  return value;
}

// Of kAttentionSpan threads in a row; the first of them writes. Threads without a query give
// {kNoKey, 0, 0, kNoKey}.
__device__ __forceinline__ void write_span(AttentionSpan x, AttentionSpan* to) {
  static_assert(kAttentionSpan == 64, "two warps join their spans");
  __shared__ AttentionSpan of_warp[kRangeThreads / 32];
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    x.begin = min(x.begin, __shfl_xor_sync(kWholeWarp, x.begin, step));
    x.end = max(x.end, __shfl_xor_sync(kWholeWarp, x.end, step));
    x.all_begin = max(x.all_begin, __shfl_xor_sync(kWholeWarp, x.all_begin, step));
    x.all_end = min(x.all_end, __shfl_xor_sync(kWholeWarp, x.all_end, step));
  }
  const unsigned warp = threadIdx.x / 32;
  if (threadIdx.x % 32 == 0) of_warp[warp] = x;
  __syncthreads();
  if (to) {
    const AttentionSpan y = of_warp[warp + 1];
    *to = {min(x.begin, y.begin), max(x.end, y.end), max(x.all_begin, y.all_begin),
           min(x.all_end, y.all_end)};
  }
  __syncthreads();
}

}  // namespace

// A block per sample, from the last queries to the first, so that the end of each document is
// known.
PLAIT_GLOBAL(attention_ranges, AttentionArgs, kRangeThreads) {
  __shared__ int ends[kRangeThreads];
  const int sample = static_cast<int>(blockIdx.x), i = static_cast<int>(threadIdx.x);
  const int64_t row = static_cast<int64_t>(sample) * a.queries;
  const int spans = (a.queries + kAttentionSpan - 1) / kAttentionSpan;
  int behind = a.queries;  // the end of a document that begins before these queries end
  for (int chunk = (a.queries - 1) / kRangeThreads * kRangeThreads; chunk >= 0;
       chunk -= kRangeThreads) {
    const int t = chunk + i;
    const bool exists = t < a.queries;
    const int64_t first = exists ? get_index(a.first, row + t) : 0;
    const bool last = exists && (t + 1 == a.queries || get_index(a.first, row + t + 1) != first);
    const int end = min(least_behind(last ? t + 1 : kNoKey, ends), behind);
    behind = min(ends[0], behind);
    AttentionSpan span{kNoKey, 0, 0, kNoKey};
    if (exists) {
      const int64_t begin = first < 0 ? 0 : first > kNoKey ? kNoKey : first;
      const AttentionKeys keys = keys_of(a, t, static_cast<int>(begin), end);
      a.ranges[row + t] = keys;
      span = {keys.begin, keys.end, keys.begin, keys.end};
    }
    AttentionSpan* to = nullptr;
    if (exists && i % kAttentionSpan == 0)
      to = a.spans + static_cast<int64_t>(sample) * spans + t / kAttentionSpan;
    write_span(span, to);
  }
}

namespace {

// Where in (B, H, T) the number of a row of (B, T, H) is.
__device__ __forceinline__ int64_t number_of(const AttentionArgs& a, int64_t row) {
  const int64_t token = row / a.heads, head = row % a.heads, sample = token / a.queries;
  return (sample * a.heads + head) * a.queries + token % a.queries;
}

// Half a warp per row of o, at most 128 elements in parts of 8.
template <class T>
__device__ __forceinline__ void sum_rows(const AttentionArgs& a) {
  const int64_t rows = static_cast<int64_t>(a.samples) * a.queries * a.heads;
  const int part = static_cast<int>(threadIdx.x) % 16;
  for (int64_t first = thread_index() / 32 * 2; first < rows; first += thread_count() / 16) {
    const int64_t row = first + threadIdx.x / 16 % 2;
    float sum = 0;
    if (row < rows && part * 8 < a.value) {
      float o[8], d_o[8];
      load_pack<T, 8>(static_cast<const T*>(a.o) + row * a.value + part * 8, o);
      load_pack<T, 8>(static_cast<const T*>(a.d_o) + row * a.value + part * 8, d_o);
#pragma unroll
      for (int i = 0; i < 8; ++i) sum = fmaf(o[i], d_o[i], sum);
    }
#pragma unroll
    for (int step = 8; step > 0; step /= 2) sum += __shfl_xor_sync(kWholeWarp, sum, step);
    if (row >= rows || part != 0) continue;
    a.delta[number_of(a, row)] = sum;
  }
}
}  // namespace

// Of f32, a warp per row.
PLAIT_GLOBAL(attention_delta_f32, AttentionArgs, 256) {
  const int64_t rows = static_cast<int64_t>(a.samples) * a.queries * a.heads;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int64_t row = thread_index() / 32; row < rows; row += thread_count() / 32) {
    const float* const o = static_cast<const float*>(a.o) + row * a.value;
    const float* const d_o = static_cast<const float*>(a.d_o) + row * a.value;
    float sum = 0;
    for (int i = lane; i < a.value; i += 32) sum = fmaf(o[i], d_o[i], sum);
    sum = over_warp<Sum>(sum);
    if (lane == 0) a.delta[number_of(a, row)] = sum;
  }
}
PLAIT_GLOBAL(attention_delta_bf16, AttentionArgs, 256) { sum_rows<bf16>(a); }
PLAIT_GLOBAL(attention_delta_f16, AttentionArgs, 256) { sum_rows<f16>(a); }

}  // namespace plait::cuda
