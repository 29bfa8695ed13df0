// attention_cached in f32; 16-bit keys and values are widened block by block. Few queries of a
// sample, as of one token: all query heads of a key head read its keys together, in the cache as
// they
// lie, a block of keys at a time, and the key heads take turns at each block, because their keys
// lie
// side by side; an online softmax (Milakov and Gimelshein 2018, arXiv:1805.02867), split over keys
// as
// in Flash-Decoding (Dao et al. 2023). Many queries: the blocks of dot_product_attention.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plugins/devices/cpu/kernels/attention_cached.cpp"
#include "plugins/devices/cpu/kernels/simd_targets.hpp"

#include <hwy/foreach_target.h>

#include "plugins/devices/cpu/kernels/attention-inl.hpp"
#include "plugins/devices/cpu/kernels/attention_cached_args.hpp"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR || HWY_HAVE_SCALABLE
HWY_INLINE void store_sums(VF a, VF b, VF c, VF e, float* to) {
  to[0] = sum_lanes(a), to[1] = sum_lanes(b), to[2] = sum_lanes(c), to[3] = sum_lanes(e);
}
#else
// Adds up the blocks of four lanes of a vector.
template <class D, class V>
HWY_INLINE auto sum_of_blocks(D d, V v) {
  if constexpr (hn::MaxLanes(d) <= 4) {
    return v;
  } else {
    const hn::Half<D> half;
    return sum_of_blocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}
// to[0..4) = the sums of the lanes of four vectors.
HWY_INLINE void store_sums(VF a, VF b, VF c, VF e, float* to) {
  const F32 d;
  const hn::Repartition<double, F32> pairs;
  const auto ab =
      hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  const auto ce =
      hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e)));
  const VF all = hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, ab, ce)),
                         hn::BitCast(d, hn::InterleaveUpper(pairs, ab, ce)));
  hn::StoreU(sum_of_blocks(d, all), hn::Full128<float>(), to);
}
#endif

// Scores of four keys and one or two rows of q, which end in zeros.
template <int R>
HWY_INLINE void score_keys(const float* q, int64_t q_row, const float* const (&k)[4], int64_t n,
                           float* s, int64_t s_row) {
  const F32 d;
  VF a0 = hn::Zero(d), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0;
  const auto add = [&](int64_t i, VF k0, VF k1, VF k2, VF k3) HWY_ATTR {
    const VF x = hn::LoadU(d, q + i);
    a0 = hn::MulAdd(x, k0, a0), a1 = hn::MulAdd(x, k1, a1);
    a2 = hn::MulAdd(x, k2, a2), a3 = hn::MulAdd(x, k3, a3);
    if constexpr (R == 2) {
      const VF y = hn::LoadU(d, q + q_row + i);
      b0 = hn::MulAdd(y, k0, b0), b1 = hn::MulAdd(y, k1, b1);
      b2 = hn::MulAdd(y, k2, b2), b3 = hn::MulAdd(y, k3, b3);
    }
  };
  int64_t i = 0;
  for (; i + lanes() <= n; i += lanes())
    add(i, hn::LoadU(d, k[0] + i), hn::LoadU(d, k[1] + i), hn::LoadU(d, k[2] + i),
        hn::LoadU(d, k[3] + i));
  if (const int64_t rest = n - i; rest > 0)
    add(i, load_n(k[0] + i, rest), load_n(k[1] + i, rest), load_n(k[2] + i, rest),
        load_n(k[3] + i, rest));
  store_sums(a0, a1, a2, a3, s);
  if constexpr (R == 2) store_sums(b0, b1, b2, b3, s + s_row);
}

// A block of keys of one key head, from a row of k and of v on.
struct Block {
  int64_t row, depth;
};
// Asks for some keys of a block to be in the second cache.
template <class T>
HWY_INLINE void ask_for(const T* of, int64_t row, int64_t groups, int64_t width, int64_t rows) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < width; i += kLine)
      __builtin_prefetch(of + (row + r * groups) * width + i, 0, 2);
}
HWY_INLINE void ask_for(const AttentionArgs& x, const Block& b, int64_t first) {
  const int64_t row = b.row + first * x.a.groups, rows = std::min<int64_t>(4, b.depth - first);
  if (x.widen) {
    ask_for(x.k16, row, x.a.groups, x.a.qk, rows);
    ask_for(x.v16, row, x.a.groups, x.a.value, rows);
  } else {
    ask_for(x.k, row, x.a.groups, x.a.qk, rows);
    ask_for(x.v, row, x.a.groups, x.a.value, rows);
  }
}

// s (rows, depth) = q k^T, while the next block is asked for. Writes up to three columns behind
// them.
HWY_INLINE void score_block(const AttentionArgs& x, Matrix q, int64_t rows, const Rows& k,
                            int64_t depth, const Block& next, Matrix s) {
  for (int64_t j = 0; j < depth; j += 4) {
    ask_for(x, next, j);
    const float* keys[4];
    for (int64_t i = 0; i < 4; ++i) keys[i] = k.at + std::min(j + i, depth - 1) * k.distance;
    int64_t r = 0;
    for (; r + 2 <= rows; r += 2)
      score_keys<2>(q.at + r * q.row, q.row, keys, x.a.qk, s.at + r * s.row + j, s.row);
    if (r < rows) score_keys<1>(q.at + r * q.row, q.row, keys, x.a.qk, s.at + r * s.row + j, s.row);
  }
}

// o (rows, e) += s v over the columns `seen` of s, which are the keys of v. What lies at
// other places is not read: it need not be a number.
HWY_INLINE void add_values(const AttentionArgs& x, Matrix s, int64_t rows, const Rows& v,
                           const kit::KeyRange& seen, Matrix o) {
  const F32 d;
  const int64_t distance = v.distance, width = x.a.value,
                pairs = width / (2 * lanes()) * 2 * lanes(), depth = seen.end - seen.begin;
  const float* first = v.at + seen.begin * distance;
  multiply<false, true>({s.at + seen.begin, s.row}, {const_cast<float*>(first), distance}, o, rows,
                        pairs, depth);
  for (int64_t j = pairs; j < width; j += lanes()) {
    const int64_t rest = width - j;
    for (int64_t r = 0; r < rows; ++r) {
      const float* weights = s.at + r * s.row + seen.begin;
      VF sum = hn::LoadU(d, o.at + r * o.row + j);
      for (int64_t i = 0; i < depth; ++i) {
        const float* at = first + i * distance + j;
        sum = hn::MulAdd(hn::Set(d, weights[i]),
                         rest < lanes() ? load_n(at, rest) : hn::LoadU(d, at), sum);
      }
      hn::StoreU(sum, d, o.at + r * o.row + j);
    }
  }
}

// The rows of one key head: q scaled, and zeros behind it.
void copy_queries(const AttentionArgs& x, const DecodeRows& rows, const GroupHeads& heads,
                  Matrix q) {
  for (int64_t r = 0; r < rows.queries * heads.count; ++r) {
    const int64_t token = rows.sample * x.a.queries + rows.query + r / heads.count,
                  head = heads.first + r % heads.count;
    copy_row(x.q + (token * x.a.heads + head) * x.a.qk, static_cast<float>(x.a.scale),
             q.at + r * q.row, x.a.qk);
    std::fill(q.at + r * q.row + x.a.qk, q.at + r * q.row + padded_columns(x.a.qk), 0.0f);
  }
}

// The block of key head `group` that begins at `key`.
Block block_of(const AttentionArgs& x, const DecodeRows& rows, int64_t group, int64_t key) {
  return {x.key_row(rows.sample, key, group),
          std::clamp<int64_t>(rows.keys.end - key, 0, kKeyBlock)};
}

// Adds the block that begins at `key` to the state of the rows of one key head.
void attend_block(const AttentionArgs& x, const DecodeRows& rows, int64_t heads, int64_t key,
                  int64_t depth, const Rows& v, Matrix s, const DecodeState& to) {
  for (int64_t i = 0; i < rows.queries; ++i) {
    const kit::KeyRange seen =
        inside(x.ranges[rows.sample * x.ranges_stride + rows.query + i], key, depth);
    if (seen.begin >= seen.end) continue;
    const int64_t first = i * heads;
    for (int64_t r = first; r < first + heads; ++r)
      weigh_row(x, s.at + r * s.row, padded_columns(depth), seen, to.most[r], to.sum[r],
                to.o + r * to.o_row);
    add_values(x, {s.at + first * s.row, s.row}, heads, v, seen,
               {to.o + first * to.o_row, to.o_row});
  }
}

HWY_INLINE float weight(float x) { return hn::GetLane(exp(hn::Set(F32(), x))); }

// o = keep * o + scale * more, and the sums alike.
HWY_INLINE void merge_row(float* o, float keep, const float* more, float scale, int64_t padded,
                          float& sum, float more_sum) {
  const F32 d;
  for (int64_t j = 0; j < padded; j += lanes())
    hn::StoreU(hn::MulAdd(hn::Set(d, scale), hn::LoadU(d, more + j),
                          hn::Mul(hn::Set(d, keep), hn::LoadU(d, o + j))),
               d, o + j);
  sum = keep * sum + scale * more_sum;
}

}  // namespace

void decode_attend(const AttentionArgs& x, const DecodeRows& rows, float* scratch,
                   const DecodeStates& to) {
  const Matrix q{scratch, row_distance(x.a.qk)};
  int64_t n = 0;  // rows of q so far
  for (int64_t g = 0; g < rows.groups; ++g) {
    copy_queries(x, rows, rows.heads[g], {q.at + n * q.row, q.row});
    const int64_t own = rows.queries * rows.heads[g].count;
    std::fill_n(to[g].o, own * to.o_row, 0.0f);
    std::fill_n(to[g].most, own, -std::numeric_limits<float>::infinity());
    std::fill_n(to[g].sum, own, 0.0f);
    n += own;
  }
  int64_t most = 0;  // rows of a key head
  for (int64_t g = 0; g < rows.groups; ++g)
    most = std::max(most, rows.queries * rows.heads[g].count);
  const Matrix s{q.at + n * q.row, row_distance(kKeyBlock)};
  float* wide = s.at + most * s.row;
  for (int64_t key = rows.keys.begin; key < rows.keys.end; key += kKeyBlock) {
    int64_t row = 0;
    for (int64_t g = 0; g < rows.groups; ++g) {
      const int64_t heads = rows.heads[g].count;
      const bool last = g + 1 == rows.groups;
      const Block b = block_of(x, rows, rows.group + g, key),
                  next = block_of(x, rows, last ? rows.group : rows.group + g + 1,
                                  last ? key + kKeyBlock : key);
      const Rows k = rows_of_k(x, b.row, b.depth, wide),
                 v = rows_of_v(x, b.row, b.depth, wide + x.widened_k());
      score_block(x, {q.at + row * q.row, q.row}, rows.queries * heads, k, b.depth, next, s);
      attend_block(x, rows, heads, key, b.depth, v, s, to[g]);
      row += rows.queries * heads;
    }
  }
}

void decode_finish(const AttentionArgs& x, const DecodeRows& rows, const DecodeStates& states,
                   int64_t n, int64_t distance) {
  const GroupHeads& heads = *rows.heads;
  for (int64_t r = 0; r < rows.queries * heads.count; ++r) {
    float *o = states[0].o + r * states.o_row, most = states[0].most[r], sum = states[0].sum[r];
    for (int64_t i = 1; i < n; ++i) {
      const DecodeState more = states[i * distance];
      if (more.sum[r] == 0) continue;  // it saw none of these keys
      const float now = sum == 0 ? more.most[r] : std::max(most, more.most[r]);
      merge_row(o, sum == 0 ? 0 : weight(most - now), more.o + r * more.o_row,
                weight(more.most[r] - now), padded_columns(x.a.value), sum, more.sum[r]);
      most = now;
    }
    const int64_t query = rows.query + r / heads.count, head = heads.first + r % heads.count;
    const kit::KeyRange& seen = x.ranges[rows.sample * x.ranges_stride + query];
    copy_row(o, seen.begin < seen.end ? 1 / sum : 0,
             x.out + ((rows.sample * x.a.queries + query) * x.a.heads + head) * x.a.value,
             x.a.value);
  }
}

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "plugins/devices/cpu/kernels/attention_cached_kernel.hpp"

namespace plait::cpu {

HWY_EXPORT(decode_attend);
HWY_EXPORT(decode_finish);

DecodeAttend pick_decode_attend() { return PLAIT_PICK(decode_attend); }
DecodeFinish pick_decode_finish() { return PLAIT_PICK(decode_finish); }

void add_attention_cached(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<CpuAttentionCached>("simd", "attention_cached", kDevice, kFastPriority));
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
