// attention and its gradient of every type and mask, in double; the formulas are those of
// plugins/support/plain/attention.cpp. A warp for each query, and for the gradient of the keys for
// each key: its lanes share the scores of 32 keys or queries, then the channels of the row that
// they add up, in the order of the keys or queries.
#include "plugins/devices/cuda/kernels/attention_plain_args.hpp"
#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/philox.cuh"

namespace plait::cuda {
namespace {

constexpr int kLanes = 32, kChannels = kAttentionPlainChannels / kLanes;

__device__ int lane() { return static_cast<int>(threadIdx.x % kLanes); }
// The first channel of this lane.
__device__ int64_t channel() {
  return static_cast<int64_t>(blockIdx.y) * kAttentionPlainChannels + lane();
}

template <class T>
__device__ double dot(const T* x, const T* y, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum = fma(static_cast<double>(load(x + i)), static_cast<double>(load(y + i)), sum);
  return sum;
}
// to += factor * x, the channels of this lane.
template <class T>
__device__ void add_row(double (&to)[kChannels], double factor, const T* x, int64_t n) {
  for (int c = 0; c < kChannels; ++c) {
    const int64_t i = channel() + c * kLanes;
    if (i < n) to[c] += factor * static_cast<double>(load(x + i));
  }
}
template <class T>
__device__ void put_row(const double (&from)[kChannels], T* to, int64_t n) {
  for (int c = 0; c < kChannels; ++c) {
    const int64_t i = channel() + c * kLanes;
    if (i < n) store(to + i, static_cast<Accumulate<T>>(from[c]));
  }
}

// A query of one head, or a key of one group.
struct Place {
  int64_t sample, head, token;
};
__device__ Place place_of(int64_t row, int64_t heads, int64_t tokens) {
  const int64_t head = row / tokens, sample = head / heads;
  return {sample, head - sample * heads, row - head * tokens};
}
// The row of (B, tokens, heads, width) of a place.
template <class T>
__device__ T* row_at(T* of, const Place& p, int64_t heads, int64_t tokens, int64_t width) {
  return of + ((p.sample * tokens + p.token) * heads + p.head) * width;
}
template <class T>
__device__ const T* key_row(const AttentionPlainArgs& a, const void* of, const Place& p,
                            int64_t width) {
  return row_at(static_cast<const T*>(of), p, a.groups, a.keys, width);
}
template <class T>
__device__ const T* query_row(const AttentionPlainArgs& a, const void* of, const Place& p,
                              int64_t width) {
  return row_at(static_cast<const T*>(of), p, a.heads, a.queries, width);
}
__device__ int64_t group_of(const AttentionPlainArgs& a, int64_t head) {
  return (a.first_head + head) * a.all_groups / a.all_heads - a.first_group;
}

struct Keys {
  int64_t begin, end;
};
// The whole warp looks for the end of the document.
__device__ Keys keys_of(const AttentionPlainArgs& a, const Place& p) {
  int64_t first = 0, end = a.keys;
  if (a.first.data) {
    const int64_t row = p.sample * a.queries;
    first = get_index(a.first, row + p.token);
    unsigned other = a.causal ? 1 : 0;  // lanes that see another document
    for (end = p.token + 1; other == 0 && end < a.queries;) {
      const int64_t t = end + lane();
      other = __ballot_sync(kWholeWarp, t < a.queries && get_index(a.first, row + t) != first);
      end += other == 0 ? kLanes : __popc((other & -other) - 1);
    }
    end = end < a.queries ? end : a.queries;
  }
  Keys keys{first > 0 ? first : 0, a.causal ? p.token + 1 : end};
  if (a.window > 0) {
    const int64_t least = p.token - a.window + 1;
    keys.begin = keys.begin > least ? keys.begin : least;
    if (a.window < keys.end - p.token) keys.end = p.token + a.window;
  }
  return keys;
}

template <class T>
__device__ double score(const AttentionPlainArgs& a, const T* q, const T* k) {
  const double s = a.scale * dot(q, k, a.qk);
  return a.softcap > 0 ? a.softcap * tanh(s / a.softcap) : s;
}
// What dropout multiplies a weight by.
__device__ double kept(const AttentionPlainArgs& a, const Place& query, int64_t key) {
  if (a.dropout == 0) return 1;
  const auto e =
      static_cast<uint64_t>(((a.first_head + query.head) * a.queries + query.token) * a.keys + key);
  const uint64_t q = e / 4;
  const uint4 block = random_block(a.seed, a.stream ^ static_cast<uint32_t>(q >> 32), a.counter[0],
                                   a.counter[1] + query.sample, q);
  const bool stays =
      to_uniform(word_of(block, static_cast<uint32_t>(e % 4))) >= static_cast<float>(a.dropout);
  return stays ? 1 / (1 - a.dropout) : 0;
}

template <class T>
__device__ void attend(const AttentionPlainArgs& a) {
  const int64_t row = thread_index() / kLanes;
  if (row >= a.samples * a.heads * a.queries) return;
  const Place query = place_of(row, a.heads, a.queries);
  const Keys keys = keys_of(a, query);
  const T* q = query_row<T>(a, a.q, query, a.qk);
  Place key{query.sample, group_of(a, query.head), 0};
  double most = -kInfinity, sum = 0, o[kChannels] = {};
  for (key.token = keys.begin + lane(); key.token < keys.end; key.token += kLanes)
    most = max_nan(most, score(a, q, key_row<T>(a, a.k, key, a.qk)));
  most = over_warp<Max>(most);
  for (int64_t first = keys.begin; first < keys.end; first += kLanes) {
    double weight = 0, factor = 0;
    key.token = first + lane();
    if (key.token < keys.end) {
      weight = exp(score(a, q, key_row<T>(a, a.k, key, a.qk)) - most);
      factor = weight * kept(a, query, key.token);
    }
    for (int i = 0; i < kLanes && first + i < keys.end; ++i) {
      sum += __shfl_sync(kWholeWarp, weight, i);
      key.token = first + i;
      add_row(o, __shfl_sync(kWholeWarp, factor, i), key_row<T>(a, a.v, key, a.value), a.value);
    }
  }
  const bool some = keys.begin < keys.end;
  for (double& x : o) x = some ? x / sum : 0;
  put_row(o, row_at(static_cast<T*>(a.out), query, a.heads, a.queries, a.value), a.value);
  if (blockIdx.y == 0 && lane() == 0) set(a.lse, row, some ? most + log(sum) : most);
}

// The weight of a key for a query, after dropout, and the derivative of its score times `scale`.
struct Terms {
  double weight = 0, d_score = 0;
};
template <class T>
__device__ Terms terms_of(const AttentionPlainArgs& a, const Place& query, int64_t row, double mean,
                          const Place& key) {
  const double s = score(a, query_row<T>(a, a.q, query, a.qk), key_row<T>(a, a.k, key, a.qk)),
               p = exp(s - get(a.lse, row)), z = kept(a, query, key.token),
               d_weight = dot(query_row<T>(a, a.d_o, query, a.value),
                              key_row<T>(a, a.v, key, a.value), a.value);
  double d_score = p * (d_weight * z - mean) * a.scale;
  if (a.softcap > 0) d_score *= 1 - (s / a.softcap) * (s / a.softcap);
  return {p * z, d_score};
}

// dq, and what the other kernel needs of each query.
template <class T>
__device__ void grad_of_queries(const AttentionPlainArgs& a) {
  const int64_t row = thread_index() / kLanes;
  if (row >= a.samples * a.heads * a.queries) return;
  const Place query = place_of(row, a.heads, a.queries);
  const Keys keys = keys_of(a, query);
  const T *o = query_row<T>(a, a.o, query, a.value), *d_o = query_row<T>(a, a.d_o, query, a.value);
  double mean = 0, dq[kChannels] = {};
  for (int64_t i = lane(); i < a.value; i += kLanes)
    mean += static_cast<double>(load(o + i)) * static_cast<double>(load(d_o + i));
  mean = over_warp<Sum>(mean);
  if (blockIdx.y == 0 && lane() == 0) a.rows[row] = {mean, keys.begin, keys.end};
  Place key{query.sample, group_of(a, query.head), 0};
  for (int64_t first = keys.begin; first < keys.end; first += kLanes) {
    Terms terms;
    key.token = first + lane();
    if (key.token < keys.end) terms = terms_of<T>(a, query, row, mean, key);
    for (int i = 0; i < kLanes && first + i < keys.end; ++i) {
      key.token = first + i;
      add_row(dq, __shfl_sync(kWholeWarp, terms.d_score, i), key_row<T>(a, a.k, key, a.qk), a.qk);
    }
  }
  put_row(dq, row_at(static_cast<T*>(a.dq), query, a.heads, a.queries, a.qk), a.qk);
}

// Adds what all queries of a head contribute to the gradients of a key.
template <class T>
__device__ void add_head(const AttentionPlainArgs& a, const Place& key, int64_t head,
                         double (&dk)[kChannels], double (&dv)[kChannels]) {
  const int64_t row = (key.sample * a.heads + head) * a.queries;
  Place query{key.sample, head, 0};
  for (int64_t first = 0; first < a.queries; first += kLanes) {
    query.token = first + lane();
    AttentionPlainRow known{};
    if (query.token < a.queries) known = a.rows[row + query.token];
    const bool sees = known.begin <= key.token && key.token < known.end;
    const unsigned all = __ballot_sync(kWholeWarp, sees);
    Terms terms;
    if (sees) terms = terms_of<T>(a, query, row + query.token, known.mean, key);
    for (int i = 0; i < kLanes; ++i) {
      if ((all >> i & 1) == 0) continue;
      query.token = first + i;
      add_row(dk, __shfl_sync(kWholeWarp, terms.d_score, i), query_row<T>(a, a.q, query, a.qk),
              a.qk);
      add_row(dv, __shfl_sync(kWholeWarp, terms.weight, i), query_row<T>(a, a.d_o, query, a.value),
              a.value);
    }
  }
}

// dk and dv: all queries of the heads that read the key.
template <class T>
__device__ void grad_of_keys(const AttentionPlainArgs& a) {
  const int64_t row = thread_index() / kLanes;
  if (row >= a.samples * a.groups * a.keys) return;
  const Place key = place_of(row, a.groups, a.keys);
  double dk[kChannels] = {}, dv[kChannels] = {};
  for (int64_t head = 0; head < a.heads; ++head)
    if (group_of(a, head) == key.head) add_head<T>(a, key, head, dk, dv);
  put_row(dk, row_at(static_cast<T*>(a.dk), key, a.groups, a.keys, a.qk), a.qk);
  put_row(dv, row_at(static_cast<T*>(a.dv), key, a.groups, a.keys, a.value), a.value);
}

}  // namespace

#define ATTENTION_PLAIN_KERNELS(T, name)                                                           \
  PLAIT_GLOBAL(attention_plain_##name, AttentionPlainArgs, kAttentionPlainBlock) { attend<T>(a); } \
  PLAIT_GLOBAL(attention_plain_queries_##name, AttentionPlainArgs, kAttentionPlainBlock) {         \
    grad_of_queries<T>(a);                                                                         \
  }                                                                                                \
  PLAIT_GLOBAL(attention_plain_keys_##name, AttentionPlainArgs, kAttentionPlainBlock) {            \
    grad_of_keys<T>(a);                                                                            \
  }

ATTENTION_PLAIN_KERNELS(float, f32)
ATTENTION_PLAIN_KERNELS(double, f64)
ATTENTION_PLAIN_KERNELS(bf16, bf16)
ATTENTION_PLAIN_KERNELS(f16, f16)

}  // namespace plait::cuda
