// What attention and its gradient share in vectors: products of blocks, copies into scratch, caps
// and dropout of a row. Compiled once per instruction set, inside HWY_NAMESPACE.
#if defined(PLAIT_CPU_ATTENTION_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_CPU_ATTENTION_INL
#undef PLAIT_CPU_ATTENTION_INL
#else
#define PLAIT_CPU_ATTENTION_INL
#endif

#include <algorithm>

#include "plugins/devices/cpu/kernels/attention_args.hpp"
#include "plugins/devices/cpu/kernels/philox-inl.hpp"
#include "plugins/support/philox.hpp"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {

// Rows of a tile: as many sums as there are registers, two vectors each.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_SSE2
constexpr int kTileRows = 6;
#else
constexpr int kTileRows = 8;
#endif

// A matrix in memory: element (i, j) is at[i * row + j].
struct Matrix {
  float* at;
  int64_t row;
};

// C (R x two vectors) = A B, or += with kAdd. kTransposed: a is stored (depth, R). Named sums,
// because vectors without a fixed size cannot lie in arrays.
template <int R, bool kTransposed, bool kAdd>
HWY_INLINE void multiply_tile(const float* a, int64_t a_row, const float* b, int64_t b_row,
                              float* c, int64_t c_row, int64_t depth) {
  const F32 d;
  const int64_t w = lanes();
#define PLAIT_EACH_ROW(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)
#define PLAIT_START(i) VF x##i = hn::Zero(d), y##i = hn::Zero(d);
#define PLAIT_LOAD(i)                       \
  if constexpr (R > (i)) {                  \
    x##i = hn::LoadU(d, c + (i)*c_row);     \
    y##i = hn::LoadU(d, c + (i)*c_row + w); \
  }
#define PLAIT_ADD(i)                                                              \
  if constexpr (R > (i)) {                                                        \
    const VF f = hn::Set(d, kTransposed ? a[k * a_row + (i)] : a[(i)*a_row + k]); \
    x##i = hn::MulAdd(f, b0, x##i);                                               \
    y##i = hn::MulAdd(f, b1, y##i);                                               \
  }
#define PLAIT_STORE(i)                      \
  if constexpr (R > (i)) {                  \
    hn::StoreU(x##i, d, c + (i)*c_row);     \
    hn::StoreU(y##i, d, c + (i)*c_row + w); \
  }
  PLAIT_EACH_ROW(PLAIT_START)
  if constexpr (kAdd) {
    PLAIT_EACH_ROW(PLAIT_LOAD)
  }
  for (int64_t k = 0; k < depth; ++k) {
    const VF b0 = hn::LoadU(d, b + k * b_row), b1 = hn::LoadU(d, b + k * b_row + w);
    PLAIT_EACH_ROW(PLAIT_ADD)
  }
  PLAIT_EACH_ROW(PLAIT_STORE)
#undef PLAIT_EACH_ROW
#undef PLAIT_START
#undef PLAIT_LOAD
#undef PLAIT_ADD
#undef PLAIT_STORE
}

// C (rows, columns) = A (rows, depth) B (depth, columns), or += with kAdd; kTransposed: A is stored
// (depth, rows). Columns are padded_columns() of something.
template <bool kTransposed, bool kAdd>
HWY_INLINE void multiply(Matrix a, Matrix b, Matrix c, int64_t rows, int64_t columns,
                         int64_t depth) {
  const int64_t step = kTransposed ? 1 : a.row;  // from row to row of A
  for (int64_t j = 0; j < columns; j += 2 * lanes()) {
    int64_t i = 0;
    const auto tile = [&]<int R>() HWY_ATTR {
      multiply_tile<R, kTransposed, kAdd>(a.at + i * step, a.row, b.at + j, b.row,
                                          c.at + i * c.row + j, c.row, depth);
      i += R;
    };
    while (i + kTileRows <= rows) tile.template operator()<kTileRows>();
    if (i + 4 <= rows) tile.template operator()<4>();
    if (i + 2 <= rows) tile.template operator()<2>();
    if (i < rows) tile.template operator()<1>();
  }
}

// to[j] = factor * from[j].
HWY_INLINE void copy_row(const float* from, float factor, float* to, int64_t n) {
  const F32 d;
  const VF f = hn::Set(d, factor);
  int64_t j = 0;
  for (; j + lanes() <= n; j += lanes()) hn::StoreU(hn::Mul(f, hn::LoadU(d, from + j)), d, to + j);
  for (; j < n; ++j) to[j] = factor * from[j];
}
// to[j] += from[j].
HWY_INLINE void add_row(const float* from, float* to, int64_t n) {
  const F32 d;
  int64_t j = 0;
  for (; j + lanes() <= n; j += lanes())
    hn::StoreU(hn::Add(hn::LoadU(d, to + j), hn::LoadU(d, from + j)), d, to + j);
  for (; j < n; ++j) to[j] += from[j];
}
HWY_INLINE void scale_row(float* row, VF factor, int64_t padded) {
  const F32 d;
  for (int64_t j = 0; j < padded; j += lanes())
    hn::StoreU(hn::Mul(factor, hn::LoadU(d, row + j)), d, row + j);
}

// Copies rows of n, `distance` apart, and fills the columns behind them with 0.
HWY_INLINE void copy_rows(const float* from, int64_t distance, int64_t rows, int64_t n, Matrix to) {
  for (int64_t i = 0; i < rows; ++i) {
    copy_row(from + i * distance, 1, to.at + i * to.row, n);
    std::fill(to.at + i * to.row + n, to.at + i * to.row + padded_columns(n), 0.0f);
  }
}

// to (n, kKeyBlock) = the transposed rows, and 0 in the columns behind them.
HWY_INLINE void transpose_rows(const float* from, int64_t distance, int64_t rows, int64_t n,
                               Matrix to) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::Full128<float> d;
  const hn::Full128<double> pairs;
  for (; i + 4 <= rows; i += 4) {
    const float* r = from + i * distance;
    int64_t j = 0;
    for (; j + 4 <= n; j += 4) {
      const auto r0 = hn::LoadU(d, r + j), r1 = hn::LoadU(d, r + distance + j),
                 r2 = hn::LoadU(d, r + 2 * distance + j), r3 = hn::LoadU(d, r + 3 * distance + j);
      const auto a = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1)),
                 b = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3)),
                 e = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1)),
                 f = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
      float* c = to.at + j * to.row + i;
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, a, b)), d, c);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, a, b)), d, c + to.row);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, e, f)), d, c + 2 * to.row);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, e, f)), d, c + 3 * to.row);
    }
    for (; j < n; ++j)
      for (int64_t l = 0; l < 4; ++l) to.at[j * to.row + i + l] = r[l * distance + j];
  }
#endif
  for (; i < rows; ++i)
    for (int64_t j = 0; j < n; ++j) to.at[j * to.row + i] = from[i * distance + j];
  if (rows < kKeyBlock)
    for (int64_t j = 0; j < n; ++j)
      std::fill(to.at + j * to.row + rows, to.at + j * to.row + kKeyBlock, 0.0f);
}

// Rows of f32, `distance` apart.
struct Rows {
  const float* at;
  int64_t distance;
};
// Rows from key row `first` of a key head on: as they lie, or widened to `to`.
HWY_INLINE Rows rows_of(const AttentionArgs& x, const float* wide, const uint16_t* half,
                        int64_t first, int64_t rows, int64_t width, float* to) {
  const int64_t distance = x.a.groups * width;
  if (!x.widen) return {wide + first * width, distance};
  for (int64_t r = 0; r < rows; ++r)
    x.widen(half + first * width + r * distance, to + r * width, width);
  return {to, width};
}
HWY_INLINE Rows rows_of_k(const AttentionArgs& x, int64_t first, int64_t rows, float* to) {
  return rows_of(x, x.k, x.k16, first, rows, x.a.qk, to);
}
HWY_INLINE Rows rows_of_v(const AttentionArgs& x, int64_t first, int64_t rows, float* to) {
  return rows_of(x, x.v, x.v16, first, rows, x.a.value, to);
}

// tanh within 3 ulp. NaN propagates.
HWY_INLINE VF tanh(VF x) {
  const F32 d;
  const VF size = hn::Abs(x), z = hn::Mul(x, x), one = hn::Set(d, 1.0f);
  // A polynomial near 0, where 1 - 2/(e^2x + 1) would cancel.
  VF p = hn::MulAdd(hn::Set(d, -5.67931254e-3f), z, hn::Set(d, 2.06181305e-2f));
  p = hn::MulAdd(p, z, hn::Set(d, -5.37340027e-2f));
  p = hn::MulAdd(p, z, hn::Set(d, 1.33313837e-1f));
  p = hn::MulAdd(p, z, hn::Set(d, -3.33332802e-1f));
  const VF near = hn::MulAdd(hn::Mul(x, z), p, x);
  const VF e = exp(hn::Add(size, size)),
           far = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(e, one)));
  return hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.625f)), near, hn::CopySignToAbs(far, x));
}

// Keys [begin, end) that any query of [first, last) sees; begin >= end: none.
HWY_INLINE kit::KeyRange keys_of_block(const kit::KeyRange* ranges, int64_t first, int64_t last) {
  kit::KeyRange all{std::numeric_limits<int64_t>::max(), 0};
  for (int64_t t = first; t < last; ++t)
    if (ranges[t].begin < ranges[t].end) {
      all.begin = std::min(all.begin, ranges[t].begin);
      all.end = std::max(all.end, ranges[t].end);
    }
  return all;
}

// The keys of a range inside a block of `columns` that begins at key `first`.
HWY_INLINE kit::KeyRange inside(const kit::KeyRange& keys, int64_t first, int64_t columns) {
  const int64_t begin = std::clamp<int64_t>(keys.begin - first, 0, columns);
  return {begin, std::max(begin, std::min(keys.end - first, columns))};
}

// The scores of a row become weights, not yet divided by their sum; what the row has so far is
// scaled to its new greatest score. `seen`: the columns that the query sees.
HWY_INLINE void weigh_row(const AttentionArgs& x, float* s, int64_t columns,
                          const kit::KeyRange& seen, float& most, float& sum, float* o) {
  const F32 d;
  if (x.a.softcap > 0) {
    const VF cap = hn::Set(d, static_cast<float>(x.a.softcap)),
             inverse = hn::Set(d, static_cast<float>(1 / x.a.softcap));
    for (int64_t j = 0; j < columns; j += lanes())
      hn::StoreU(hn::Mul(cap, tanh(hn::Mul(inverse, hn::LoadU(d, s + j)))), d, s + j);
  }
  constexpr float kLeast = -std::numeric_limits<float>::infinity();
  std::fill(s, s + seen.begin, kLeast);
  std::fill(s + seen.end, s + columns, kLeast);
  const VF before = hn::Set(d, most), now = hn::Max(before, row_max(s, columns));
  // Nothing seen so far: exp(-inf - 0) is 0, where -inf + inf would not be.
  const VF shift = hn::IfThenZeroElse(hn::Eq(now, hn::Set(d, kLeast)), now);
  VF add = hn::Zero(d);
  for (int64_t j = 0; j < columns; j += lanes()) {
    const VF e = exp(hn::Sub(hn::LoadU(d, s + j), shift));
    add = hn::Add(add, e);
    hn::StoreU(e, d, s + j);
  }
  const VF factor = exp(hn::Sub(before, shift));
  sum = sum * hn::GetLane(factor) + sum_lanes(add);
  if (hn::GetLane(now) != most) scale_row(o, factor, padded_columns(x.a.value));
  most = hn::GetLane(now);
}

// lse of a row; scores that are all -inf have no softmax.
HWY_INLINE float lse_of(bool sees, float most, float sum) {
  return sees && sum == 0 ? std::numeric_limits<float>::quiet_NaN() : most + std::log(sum);
}

// Units [first, last): blocks of queries in the order of samples, key heads, blocks. Calls
// attend(sample, group, head, first query). packed: of each block of keys, 0 for a new key head.
template <class Attend>
HWY_INLINE void for_units(const AttentionArgs& x, float* packed, int64_t first, int64_t last,
                          const Attend& attend) {
  const int64_t blocks = x.query_blocks();
  for (int64_t i = first; i < last; ++i) {
    const int64_t sample = i / blocks / x.a.groups, group = i / blocks % x.a.groups;
    if (i == first || i % blocks == 0) std::fill_n(packed, x.key_blocks(), 0.0f);
    for (int64_t h = 0; h < x.a.heads; ++h)
      if (x.a.group_of(h) == group) attend(sample, group, h, i % blocks * kQueryBlock);
  }
}

// factors[j] = 0 or 1/(1-p): dropout of the weights of a query and the keys [first, first + n).
HWY_INLINE void dropout_row(const AttentionArgs& x, int64_t sample, int64_t head, int64_t query,
                            int64_t first, int64_t n, float* factors) {
  constexpr int64_t kMost = kKeyBlock / 4 + 8;  // blocks of four words, in whole vectors
  static_assert(kMost % 8 == 0);
  alignas(64) uint32_t words[4 * kMost];
  const auto begin = static_cast<uint64_t>(x.a.element(head, query, first)), q = begin / 4;
  const uint64_t last = (begin + static_cast<uint64_t>(n) - 1) / 4;
  const uint32_t stream = support::stream_word(x.a.stream);
  const auto high = int64_t{static_cast<uint32_t>(x.first_sample + sample)};
  const auto draw = [&](uint64_t from, int64_t blocks, uint32_t* to) HWY_ATTR {
    philox_words(from, high, x.step, stream ^ static_cast<uint32_t>(from >> 32),
                 static_cast<uint32_t>(x.a.seed), static_cast<uint32_t>(x.a.seed >> 32), blocks,
                 to);
  };
  if (q >> 32 == last >> 32) {
    draw(q, (static_cast<int64_t>(last - q) + 8) / 8 * 8, words);
  } else {  // the high word changes inside
    alignas(64) uint32_t some[32];
    for (uint64_t block = q; block <= last; ++block) {
      draw(block, 8, some);
      std::copy_n(some, 4, words + 4 * (block - q));
    }
  }
  const auto least = static_cast<float>(x.a.dropout);
  const auto kept = static_cast<float>(1 / (1 - x.a.dropout));
  const uint32_t* row = words + begin % 4;
  for (int64_t j = 0; j < n; ++j) factors[j] = support::to_uniform(row[j]) >= least ? kept : 0.0f;
}

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // PLAIT_CPU_ATTENTION_INL
