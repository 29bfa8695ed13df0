// What the attention kernels on tensor cores share: masks, tiles in shared memory, products of a
// warp, and dropout.
//
// A tile is rows of D 16-bit elements. The 16-byte parts of a row are permuted: part i of row r
// lies at place i ^ (r % 8), so that neither rows nor columns of 8x8 matrices meet in a bank.
#pragma once

#include "plugins/devices/cuda/kernels/attention_args.hpp"
#include "plugins/devices/cuda/kernels/device_mma.cuh"
#include "plugins/devices/cuda/kernels/philox.cuh"

namespace plait::cuda {

constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;

__device__ __forceinline__ float minus_infinity() { return __uint_as_float(0xff800000u); }

// ---- Masks ----

// keys_of() of kit/ops/attention.hpp.
__device__ __forceinline__ AttentionKeys keys_of(const AttentionArgs& a, int t, int first,
                                                 int document_end) {
  AttentionKeys keys{max(first, 0), a.causal ? t + 1 : document_end};
  if (a.window > 0) {
    keys.begin = max(keys.begin, t - a.window + 1);
    keys.end = min(keys.end, t + a.window);
  }
  if (keys.begin >= keys.end) keys = {kNoKey, 0};
  return keys;
}
// Of query t; behind the last query, as of the last one.
__device__ __forceinline__ AttentionKeys keys_of_query(const AttentionArgs& a, int sample, int t) {
  t = min(t, a.queries - 1);
  if (a.ranges) return a.ranges[static_cast<int64_t>(sample) * a.queries + t];
  return keys_of(a, t, 0, a.keys);
}

// Of queries [first, first + count), of which some may not exist. With documents possibly of some
// around them, too, if these are not whole spans.
__device__ __forceinline__ AttentionSpan span_of(const AttentionArgs& a, int sample, int first,
                                                 int count) {
  const int last = min(first + count, a.queries) - 1;
  if (!a.ranges) {  // both ends grow with t
    const AttentionKeys low = keys_of(a, first, 0, a.keys), high = keys_of(a, last, 0, a.keys);
    return {low.begin, high.end, high.begin, low.end};
  }
  const int spans = (a.queries + kAttentionSpan - 1) / kAttentionSpan;
  const AttentionSpan* of = a.spans + static_cast<int64_t>(sample) * spans;
  AttentionSpan all = of[first / kAttentionSpan];
  for (int i = first / kAttentionSpan + 1; i <= last / kAttentionSpan; ++i) {
    all.begin = min(all.begin, of[i].begin);
    all.end = max(all.end, of[i].end);
    all.all_begin = max(all.all_begin, of[i].all_begin);
    all.all_end = min(all.all_end, of[i].all_end);
  }
  return all;
}
__device__ __forceinline__ bool sees_any(const AttentionSpan& x, int key, int count) {
  return x.begin < key + count && key < x.end;
}
__device__ __forceinline__ bool sees_all(const AttentionSpan& x, int key, int count) {
  return x.all_begin <= key && key + count <= x.all_end;
}
__device__ __forceinline__ bool sees(const AttentionKeys& x, int key) {
  return x.begin <= key && key < x.end;
}

// The query heads that read key head `group`: [begin, end) of those here.
__device__ __forceinline__ int heads_begin(const AttentionArgs& a, int group) {
  return min(max(group * a.heads_per_group - a.skipped_heads, 0), a.heads);
}
__device__ __forceinline__ int group_of(const AttentionArgs& a, int head) {
  return (head + a.skipped_heads) / a.heads_per_group;
}

// The block of kRows queries that a block of threads has: of the heads of samples one after the
// other, each from its last block, the longest under a causal mask.
struct QueryBlock {
  int first, sample, head, group;  // the first query; its key head
};
template <int kRows>
__device__ __forceinline__ QueryBlock query_block(const AttentionArgs& a) {
  const int blocks = (a.queries + kRows - 1) / kRows, row = static_cast<int>(blockIdx.x) / blocks,
            first = (blocks - 1 - static_cast<int>(blockIdx.x) % blocks) * kRows,
            head = row % a.heads;
  return {first, row / a.heads, head, group_of(a, head)};
}
// The first key of the first tile of kColumns keys that any of them sees; seen.end: there is none.
template <int kColumns>
__device__ __forceinline__ int first_tile(const AttentionSpan& seen) {
  return seen.begin < seen.end ? seen.begin / kColumns * kColumns : seen.end;
}

// The four rows that a thread has in fragments c of its warp's 32 queries.
struct QueryRows {
  int sample, head, first;  // the query of row 0 of this thread
  __device__ int query(int m, int half) const { return first + 16 * m + 8 * half; }
};

// Walks over the tiles of kQueryColumns queries that see any key of a block of kKeyRows, of one
// query head of the group after the other.
template <int kKeyRows, int kQueryColumns>
class QueryTiles {
 public:
  __device__ QueryTiles(const AttentionArgs& a, int sample, int group, int key)
      : sample_(sample), key_(key), head_end_(heads_begin(a, group + 1)) {
    const int last = min(key + kKeyRows, a.keys) - 1;
    first_ = a.causal ? key : a.window > 0 ? max(key - a.window + 1, 0) : 0;
    end_ = a.window > 0 ? min(a.queries, last + a.window) : a.queries;
    first_ = first_ / kQueryColumns * kQueryColumns;
    head = heads_begin(a, group);
    query = first_ - kQueryColumns;
    next(a);
  }
  __device__ bool done() const { return head >= head_end_; }
  __device__ void next(const AttentionArgs& a) {
    for (query += kQueryColumns; head < head_end_; query += kQueryColumns) {
      if (query >= end_) {
        ++head;
        query = first_ - kQueryColumns;
      } else {
        const AttentionSpan seen = span_of(a, sample_, query, kQueryColumns);
        masked = !sees_all(seen, key_, kKeyRows);
        if (sees_any(seen, key_, kKeyRows)) return;
      }
    }
  }
  int head, query;
  bool masked = false;  // some query does not see some key

 private:
  int sample_, key_, head_end_, first_, end_;
};

// ---- Scores ----

// A score in the unit that is kept: its dot product, or with a cap the tanh. Times exp2_factor() it
// is the logarithm to base 2 of a weight that is not divided yet.
__device__ __forceinline__ float exp2_factor(const AttentionArgs& a) {
  return (a.softcap > 0 ? a.softcap : a.scale) * kLog2E;
}
// tanh(product * to_cap), within 2e-7, and near 0 within 1e-7 of itself: a large cap multiplies it
// again.
__device__ __forceinline__ float capped(float product, float to_cap) {
  const float x = product * to_cap, square = x * x;
  if (square < 0.01f) return x - x * square * (1.0f / 3 - square * (2.0f / 15));
  return 1 - 2 * fast_reciprocal(fast_exp2(x * (2 * kLog2E)) + 1);
}
// The slope of the cap at a weight: its logarithm and lse give back the capped score.
__device__ __forceinline__ float cap_slope(float weight, float lse_log2, float from_log2) {
  const float t = fminf(fmaxf((fast_log2(weight) + lse_log2) * from_log2, -1.0f), 1.0f);
  return 1 - t * t;
}

// Whether dropout keeps the weight of a query and key.
__device__ __forceinline__ bool keeps(const AttentionArgs& a, int sample, int head, int t,
                                      int key) {
  const uint64_t e =
      (static_cast<uint64_t>(a.first_head + head) * static_cast<uint64_t>(a.queries) +
       static_cast<uint64_t>(t)) *
          static_cast<uint64_t>(a.keys) +
      static_cast<uint64_t>(key);
  // A long sample has more than 2^34 weights: the high word of the block changes the stream.
  const uint64_t block = e / 4;
  const uint4 words = random_block(a.seed, a.stream ^ static_cast<uint32_t>(block >> 32),
                                   a.counter[0], a.counter[1] + sample, block);
  return to_uniform(word_of(words, static_cast<uint32_t>(e % 4))) >= a.dropout;
}

// ---- Tiles ----

// Where in a tile a lane finds the row of a matrix that it has to name to load_matrices(). Products
// flip the bits of the column in these addresses, so tiles begin at multiples of a row.
// `by_rows`: of 16 rows and 16 columns, as fragment a, or transposed as two fragments b.
template <int D>
__device__ __forceinline__ SharedAddress by_rows(SharedAddress tile, int lane) {
  return tile + static_cast<unsigned>(lane % 16 * (2 * D) + ((lane / 16 ^ lane % 8) << 4));
}
// Of 16 rows and 16 columns as two fragments b, whose columns the rows are.
template <int D>
__device__ __forceinline__ SharedAddress by_columns(SharedAddress tile, int lane) {
  return tile + static_cast<unsigned>((lane / 16 * 8 + lane % 8) * (2 * D) +
                                      ((lane / 8 % 2 ^ lane % 8) << 4));
}

// Begins to copy kRows rows of `width` elements, `distance` apart; rows from `rows` on and columns
// from `width` on become 0. All kThreads threads of the block.
template <class T, int D, int kRows, int kThreads = kAttentionThreads>
__device__ __forceinline__ void copy_tile(SharedAddress tile, const T* from, int distance, int rows,
                                          int width) {
  constexpr int kParts = D / 8, kStep = kThreads / kParts;
  const int part = static_cast<int>(threadIdx.x) % kParts,
            row = static_cast<int>(threadIdx.x) / kParts;
  const bool in_width = part * 8 < width;
  const T* source = from + static_cast<int64_t>(row) * distance + part * 8;
  const SharedAddress to = tile + static_cast<unsigned>(row * (2 * D) + ((part ^ row % 8) << 4));
#pragma unroll
  for (int i = 0; i < kRows; i += kStep) {
    copy_async16(to + static_cast<unsigned>(i * (2 * D)), source, in_width && row + i < rows);
    source += kStep * distance;
  }
}

// c (16M x 8N) += a (16M x D) b^T (8N x D). a: by_rows() of the warp's rows; b: by_columns().
template <class T, int D, int M, int N>
__device__ __forceinline__ void multiply_rows(float (&c)[M][N][4], SharedAddress a,
                                              SharedAddress b) {
#pragma unroll
  for (unsigned k = 0; k < D / 16; ++k) {
    uint32_t left[M][4];
#pragma unroll
    for (unsigned m = 0; m < M; ++m) load_matrices(left[m], (a ^ (k << 5)) + m * (32 * D));
#pragma unroll
    for (unsigned n = 0; n < N / 2; ++n) {
      uint32_t right[4];
      load_matrices(right, (b ^ (k << 5)) + n * (32 * D));
#pragma unroll
      for (unsigned m = 0; m < M; ++m) {
        multiply_add<T>(c[m][2 * n], left[m], right[0], right[1]);
        multiply_add<T>(c[m][2 * n + 1], left[m], right[2], right[3]);
      }
    }
  }
}

// c (16M x D) += p (16M x 16K) b (16K x D). p: fragments a; b: by_rows().
template <class T, int D, int M, int K>
__device__ __forceinline__ void multiply_columns(float (&c)[M][D / 8][4],
                                                 const uint32_t (&p)[M][K][4], SharedAddress b) {
#pragma unroll
  for (unsigned k = 0; k < K; ++k)
#pragma unroll
    for (unsigned n = 0; n < D / 16; ++n) {
      uint32_t right[4];
      load_matrices_transposed(right, (b ^ (n << 5)) + k * (32 * D));
#pragma unroll
      for (unsigned m = 0; m < M; ++m) {
        multiply_add<T>(c[m][2 * n], p[m][k], right[0], right[1]);
        multiply_add<T>(c[m][2 * n + 1], p[m][k], right[2], right[3]);
      }
    }
}

// Fragments c become fragments a, rounded to T.
template <class T, int M, int N>
__device__ __forceinline__ void as_left(const float (&c)[M][N][4], uint32_t (&a)[M][N / 2][4]) {
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int n = 0; n < N; ++n) {
      a[m][n / 2][n % 2 * 2] = pack_two<T>(c[m][n][0], c[m][n][1]);
      a[m][n / 2][n % 2 * 2 + 1] = pack_two<T>(c[m][n][2], c[m][n][3]);
    }
}

// Writes a warp's rows of c, times the factor of each row, by way of its own rows of a tile that no
// other warp reads any more. `tile`: these rows; `to`: where the first goes, the others `distance`
// apart; rows from `rows` on and columns from `width` on are left out.
template <class T, int D, int M>
__device__ __forceinline__ void write_rows(const float (&c)[M][D / 8][4],
                                           const float (&factor)[M][2], unsigned char* tile, T* to,
                                           int64_t distance, int rows, int width) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  __syncwarp();
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int n = 0; n < D / 8; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<uint32_t*>(tile + (16 * m + 8 * half + g) * (2 * D) + ((n ^ g) << 4) +
                                     4 * t) = pack_two<T>(c[m][n][2 * half] * factor[m][half],
                                                          c[m][n][2 * half + 1] * factor[m][half]);
  __syncwarp();
  constexpr int kParts = D / 8, kStep = 32 / kParts;
  const int part = lane % kParts;
  for (int row = lane / kParts; row < 16 * M; row += kStep)
    if (row < rows && part * 8 < width)
      *reinterpret_cast<uint4*>(to + row * distance + part * 8) =
          *reinterpret_cast<const uint4*>(tile + row * (2 * D) + ((part ^ row % 8) << 4));
}

}  // namespace plait::cuda
