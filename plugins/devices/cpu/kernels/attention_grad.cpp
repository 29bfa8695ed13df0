// dot_product_attention_grad on f32: FlashAttention-2 (arXiv:2307.08691), algorithm 2. The weights
// are computed again from lse, a block of keys against a block of queries at a time. A thread has
// all query heads of a sample and key head, so that dk and dv add up in its scratch.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plugins/devices/cpu/kernels/attention_grad.cpp"
#include "plugins/devices/cpu/kernels/simd_targets.hpp"

#include <hwy/foreach_target.h>

#include "plugins/devices/cpu/kernels/attention-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {
namespace {

// The scratch of one thread, for one block of keys and one of queries.
struct GradScratch {
  GradScratch(const AttentionArgs& x, float* at) {
    const auto take = [&](int64_t rows, int64_t row) {
      const Matrix m{at, row};
      at += rows * row;
      return m;
    };
    const int64_t keys = row_distance(kKeyBlock), qk = row_distance(x.a.qk),
                  value = row_distance(x.a.value);
    kt = take(x.a.qk, keys);
    vt = take(x.a.value, keys);
    k = take(kKeyBlock, qk);
    dk = take(kKeyBlock, qk);
    dv = take(kKeyBlock, value);
    p = take(kQueryBlock, keys);
    ds = take(kQueryBlock, keys);
    q = take(kQueryBlock, qk);
    dq = take(kQueryBlock, qk);
    d_o = take(kQueryBlock, value);
    mean = take(x.a.heads, x.a.queries).at;
  }
  Matrix kt, vt;      // (d, keys), (e, keys)
  Matrix k, dk, dv;   // (keys, d), (keys, d), (keys, e)
  Matrix p, ds;       // (queries, keys)
  Matrix q, dq, d_o;  // (queries, d), (queries, d), (queries, e)
  float* mean;        // (H, T): D, the sum of o * do
};

HWY_INLINE float dot_row(const float* a, const float* b, int64_t n) {
  const F32 d;
  VF sum = hn::Zero(d);
  int64_t j = 0;
  for (; j + lanes() <= n; j += lanes())
    sum = hn::MulAdd(hn::LoadU(d, a + j), hn::LoadU(d, b + j), sum);
  if (j < n) sum = hn::MulAdd(load_n(a + j, n - j), load_n(b + j, n - j), sum);
  return sum_lanes(sum);
}

// What a row of scores (p) and of do.v (ds) becomes: the weights with dropout, and dS with the
// scale. Keys outside `seen` get 0.
HWY_INLINE void grade_row(const AttentionArgs& x, float* p, float* ds, int64_t columns,
                          const kit::KeyRange& seen, const float* kept, float lse, float mean) {
  const F32 d;
  const VF scale = hn::Set(d, static_cast<float>(x.a.scale)), end = hn::Set(d, lse),
           mid = hn::Set(d, mean), one = hn::Set(d, 1.0f);
  const VF cap = hn::Set(d, static_cast<float>(x.a.softcap)),
           inverse = hn::Set(d, x.a.softcap > 0 ? static_cast<float>(1 / x.a.softcap) : 0.0f);
  for (int64_t j = 0; j < columns; j += lanes()) {
    VF score = hn::Mul(scale, hn::LoadU(d, p + j)), slope = scale;
    if (x.a.softcap > 0) {
      const VF t = tanh(hn::Mul(inverse, score));
      score = hn::Mul(cap, t);
      slope = hn::Mul(scale, hn::NegMulAdd(t, t, one));
    }
    const VF weight = exp(hn::Sub(score, end));
    VF given = hn::LoadU(d, ds + j), used = weight;
    if (kept) {
      const VF z = hn::LoadU(d, kept + j);
      given = hn::Mul(given, z);
      used = hn::Mul(used, z);
    }
    hn::StoreU(used, d, p + j);
    hn::StoreU(hn::Mul(hn::Mul(weight, slope), hn::Sub(given, mid)), d, ds + j);
  }
  for (float* row : {p, ds}) {
    std::fill(row, row + seen.begin, 0.0f);
    std::fill(row + seen.end, row + columns, 0.0f);
  }
}

// One block of queries of one head against the packed block of keys; `depth` of them are seen.
void add_block(const AttentionArgs& x, int64_t sample, int64_t head, int64_t first, int64_t rows,
               int64_t key, int64_t depth, GradScratch& s) {
  const int64_t token = (sample * x.a.queries + first) * x.a.heads + head,
                columns = padded_columns(depth), qk = x.a.qk, value = x.a.value;
  const kit::KeyRange* ranges = x.ranges + sample * x.ranges_stride;
  copy_rows(x.q + token * qk, x.a.heads * qk, rows, qk, s.q);
  copy_rows(x.d_o + token * value, x.a.heads * value, rows, value, s.d_o);
  multiply<false, false>(s.q, s.kt, s.p, rows, columns, qk);
  multiply<false, false>(s.d_o, s.vt, s.ds, rows, columns, value);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t t = first + r, row = head * x.a.queries + t;
    float kept[kKeyBlock + 64] = {};  // the last vector reads behind the keys
    if (x.a.dropout > 0) dropout_row(x, sample, head, t, key, depth, kept);
    grade_row(x, s.p.at + r * s.p.row, s.ds.at + r * s.ds.row, columns,
              inside(ranges[t], key, depth), x.a.dropout > 0 ? kept : nullptr,
              x.lse[sample * x.a.heads * x.a.queries + row], s.mean[row]);
  }
  multiply<true, true>(s.p, s.d_o, s.dv, depth, padded_columns(value), rows);
  multiply<true, true>(s.ds, s.q, s.dk, depth, padded_columns(qk), rows);
  multiply<false, false>(s.ds, s.k, s.dq, rows, padded_columns(qk), depth);
  for (int64_t r = 0; r < rows; ++r)
    add_row(s.dq.at + r * s.dq.row, x.dq + token * qk + r * x.a.heads * qk, qk);
}

// Everything that one block of keys contributes.
void add_keys(const AttentionArgs& x, int64_t sample, int64_t group, int64_t key, GradScratch& s) {
  const int64_t n = std::min(kKeyBlock, x.a.keys - key), qk = x.a.qk, value = x.a.value,
                at = (sample * x.a.keys + key) * x.a.groups + group;
  const kit::KeyRange* ranges = x.ranges + sample * x.ranges_stride;
  transpose_rows(x.k + at * qk, x.a.groups * qk, n, qk, s.kt);
  transpose_rows(x.v + at * value, x.a.groups * value, n, value, s.vt);
  copy_rows(x.k + at * qk, x.a.groups * qk, n, qk, s.k);
  std::fill_n(s.dk.at, kKeyBlock * s.dk.row, 0.0f);
  std::fill_n(s.dv.at, kKeyBlock * s.dv.row, 0.0f);
  for (int64_t h = 0; h < x.a.heads; ++h) {
    if (x.a.group_of(h) != group) continue;
    for (int64_t first = 0; first < x.a.queries; first += kQueryBlock) {
      const int64_t rows = std::min(kQueryBlock, x.a.queries - first);
      const kit::KeyRange all = keys_of_block(ranges, first, first + rows);
      const int64_t depth = std::min(all.end - key, n);
      if (depth > 0 && all.begin < key + n) add_block(x, sample, h, first, rows, key, depth, s);
    }
  }
  for (int64_t j = 0; j < n; ++j) {
    copy_row(s.dk.at + j * s.dk.row, 1, x.dk + (at + j * x.a.groups) * qk, qk);
    copy_row(s.dv.at + j * s.dv.row, 1, x.dv + (at + j * x.a.groups) * value, value);
  }
}

}  // namespace

// Units [first, last): key heads of samples.
void attention_grad_units(const AttentionArgs& x, float* memory, int64_t first, int64_t last) {
  GradScratch s(x, memory);
  for (int64_t i = first; i < last; ++i) {
    const int64_t sample = i / x.a.groups, group = i % x.a.groups;
    for (int64_t h = 0; h < x.a.heads; ++h) {
      if (x.a.group_of(h) != group) continue;
      for (int64_t t = 0; t < x.a.queries; ++t) {
        const int64_t row = (sample * x.a.queries + t) * x.a.heads + h;
        s.mean[h * x.a.queries + t] =
            dot_row(x.o + row * x.a.value, x.d_o + row * x.a.value, x.a.value);
        std::fill_n(x.dq + row * x.a.qk, x.a.qk, 0.0f);
      }
    }
    for (int64_t key = 0; key < x.a.keys; key += kKeyBlock) add_keys(x, sample, group, key, s);
  }
}

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "plugins/devices/cpu/kernels/attention_kernel.hpp"
#include "plugins/devices/cpu/kernels/widened.hpp"

namespace plait::cpu {
namespace {

HWY_EXPORT(attention_grad_units);

struct Gradient {
  static constexpr int kProducts = 5;
  static bool takes(const plait_op_desc& d, std::string& why) { return all_f32(d, why); }
  static std::string how() { return "blocks of scores"; }
  static kit::Attention parse(const plait_op_desc& d) { return kit::parse_attention_grad(d); }
  static int64_t floats(const AttentionArgs& x) { return attention_grad_floats(x); }
  static int64_t units(const AttentionArgs& x) { return x.a.samples * x.a.groups; }
  static void bind(AttentionArgs& x, void* const* in, void* const* out) {
    const auto f32 = [](void* p) { return static_cast<float*>(p); };
    x.q = f32(in[0]), x.k = f32(in[1]), x.v = f32(in[2]);
    x.o = f32(in[3]), x.lse = f32(in[4]), x.d_o = f32(in[5]);
    x.dq = f32(out[0]), x.dk = f32(out[1]), x.dv = f32(out[2]);
  }
  static AttentionUnits pick() { return PLAIT_PICK(attention_grad_units); }
};

}  // namespace

void add_attention_grad(std::vector<plait_kernel_item>& out) {
  out.push_back(
      kernel<CpuAttention<Gradient>>("simd", "dot_product_attention_grad", kDevice, kFastPriority));
  out.push_back(kernel<Widened<CpuAttention<Gradient>>>("widened", "dot_product_attention_grad",
                                                        kDevice, kWidenedPriority));
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
