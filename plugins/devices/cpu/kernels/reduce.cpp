// reduce on f32: sum, max and sum of squares. Up to two passes: `inner` folds rows that lie
// together, `outer` folds whole rows into one, as for a bias gradient.
//
// Order of a sum: rows of more than kLongRow elements are cut into parts of that size, tall stacks
// into kTallStack rows; parts are folded on their own and joined in order. It follows from the
// shape, never from the number of threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plugins/devices/cpu/kernels/reduce.cpp"
#include "plugins/devices/cpu/kernels/simd_targets.hpp"

#include <hwy/foreach_target.h>

#include "plugins/devices/cpu/kernels/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {
namespace {

struct Sum {
  static constexpr float kInitial = 0;
  HWY_INLINE VF operator()(VF acc, VF x) const { return hn::Add(acc, x); }
  HWY_INLINE VF join(VF a, VF b) const { return hn::Add(a, b); }
  static HWY_INLINE float across(VF v) { return sum_lanes(v); }
};

struct SumSquares : Sum {
  HWY_INLINE VF operator()(VF acc, VF x) const { return hn::MulAdd(x, x, acc); }
};

// NaN, once met, stays.
struct MaxNan {
  static constexpr float kInitial = -std::numeric_limits<float>::infinity();
  HWY_INLINE VF operator()(VF acc, VF x) const {
    return hn::IfThenElse(hn::Or(hn::Le(x, acc), hn::IsNaN(acc)), acc, x);
  }
  HWY_INLINE VF join(VF a, VF b) const { return (*this)(a, b); }
  static HWY_INLINE float across(VF v) {
    HWY_ALIGN float all[HWY_MAX_BYTES / sizeof(float)];
    hn::Store(v, F32(), all);
    float m = all[0];
    for (int64_t i = 1; i < lanes(); ++i) m = m != m || all[i] <= m ? m : all[i];
    return m;
  }
};

// y[r] = fold of x[r, 0..n), rows [first, last) with `stride` elements from one to the next.
template <class F>
HWY_INLINE void inner(const float* x, int64_t n, int64_t stride, float* y, int64_t first,
                      int64_t last) {
  const VF initial = hn::Set(F32(), F::kInitial);
  for (int64_t r = first; r < last; ++r)
    y[r] = F::across(fold(x + r * stride, n, initial, initial, F()));
}

// y[c] = fold over r in [0, rows) of x[r * stride + c], c in [0, kVectors * lanes), or the last
// vector `tail` wide.
template <class F, int kVectors>
HWY_INLINE void panel(const float* x, int64_t rows, int64_t stride, float* y, int64_t tail) {
  const F32 d;
  const F f;
  const int64_t w = lanes();
  VF acc[kVectors];
  HWY_UNROLL(8)
  for (int v = 0; v < kVectors; ++v) acc[v] = hn::Set(d, F::kInitial);
  for (int64_t r = 0; r < rows; ++r, x += stride) {
    // Unrolled, or the accumulators would live in memory.
    HWY_UNROLL(8)
    for (int v = 0; v + 1 < kVectors; ++v) acc[v] = f(acc[v], hn::LoadU(d, x + v * w));
    const float* end = x + (kVectors - 1) * w;
    acc[kVectors - 1] = f(acc[kVectors - 1], tail == w ? hn::LoadU(d, end) : load_n(end, tail));
  }
  HWY_UNROLL(8)
  for (int v = 0; v + 1 < kVectors; ++v) hn::StoreU(acc[v], d, y + v * w);
  if (tail == w)
    hn::StoreU(acc[kVectors - 1], d, y + (kVectors - 1) * w);
  else
    store_n(acc[kVectors - 1], y + (kVectors - 1) * w, tail);
}

// y[c] for c in [0, cols).
template <class F>
HWY_INLINE void outer(const float* x, int64_t rows, int64_t cols, int64_t stride, float* y) {
  const int64_t w = lanes();
  for (int64_t c = 0; c < cols;) {
    const int64_t vectors = std::min<int64_t>((cols - c + w - 1) / w, 8);
    const int64_t tail = std::min(w, cols - c - (vectors - 1) * w);
    switch (vectors) {
      case 1:
        panel<F, 1>(x + c, rows, stride, y + c, tail);
        break;
      case 2:
        panel<F, 2>(x + c, rows, stride, y + c, tail);
        break;
      case 3:
        panel<F, 3>(x + c, rows, stride, y + c, tail);
        break;
      case 4:
        panel<F, 4>(x + c, rows, stride, y + c, tail);
        break;
      case 5:
        panel<F, 5>(x + c, rows, stride, y + c, tail);
        break;
      case 6:
        panel<F, 6>(x + c, rows, stride, y + c, tail);
        break;
      case 7:
        panel<F, 7>(x + c, rows, stride, y + c, tail);
        break;
      default:
        panel<F, 8>(x + c, rows, stride, y + c, tail);
    }
    c += vectors * w;
  }
}

}  // namespace

#define PLAIT_REDUCE(name, F)                                                               \
  void inner_##name(const float* x, int64_t n, int64_t stride, float* y, int64_t first,     \
                    int64_t last) {                                                         \
    inner<F>(x, n, stride, y, first, last);                                                 \
  }                                                                                         \
  void outer_##name(const float* x, int64_t rows, int64_t cols, int64_t stride, float* y) { \
    outer<F>(x, rows, cols, stride, y);                                                     \
  }
PLAIT_REDUCE(sum, Sum)
PLAIT_REDUCE(squares, SumSquares)
PLAIT_REDUCE(max, MaxNan)
#undef PLAIT_REDUCE

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kit/ops/reduce.hpp"
#include "plugins/devices/cpu/kernels/kernels.hpp"
#include "plugins/devices/cpu/kernels/reduce_plan.hpp"
#include "plugins/devices/cpu/kernels/simd.hpp"
#include "plugins/devices/cpu/kernels/widened.hpp"
#include "plugins/devices/cpu/parallel.hpp"

namespace plait::cpu {
namespace {

HWY_EXPORT(inner_sum);
HWY_EXPORT(inner_squares);
HWY_EXPORT(inner_max);
HWY_EXPORT(outer_sum);
HWY_EXPORT(outer_squares);
HWY_EXPORT(outer_max);

using kit::ReduceKind;
using Inner = void (*)(const float*, int64_t, int64_t, float*, int64_t, int64_t);
using Outer = void (*)(const float*, int64_t, int64_t, int64_t, float*);

Inner inner_of(ReduceKind kind) {
  if (kind == ReduceKind::max) return PLAIT_PICK(inner_max);
  return kind == ReduceKind::sum ? PLAIT_PICK(inner_sum) : PLAIT_PICK(inner_squares);
}
Outer outer_of(ReduceKind kind) {
  if (kind == ReduceKind::max) return PLAIT_PICK(outer_max);
  return kind == ReduceKind::sum ? PLAIT_PICK(outer_sum) : PLAIT_PICK(outer_squares);
}

class CpuReduce {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::Reduce r = kit::parse_reduce(d);
    if (!all_f32(d, why)) return false;
    const ReducePlan p = plan_of(r, d.threads);
    if (p.what.empty()) {
      why = "the axes make more than three groups";
      return false;
    }
    choice.workspace = p.workspace();
    why = variant(p.what, std::max(p.inner_threads, p.outer_threads));
    return true;
  }
  CpuReduce(plait_device*, const plait_op_desc& d)
      : kind_(kit::parse_reduce(d).kind), p_(plan_of(kit::parse_reduce(d), d.threads)) {
    const ReduceKind join = kind_ == ReduceKind::max ? kind_ : ReduceKind::sum;
    inner_ = inner_of(kind_);
    inner_join_ = inner_of(join);
    outer_ = outer_of(p_.n || p_.rows ? join : kind_);
    outer_join_ = outer_of(join);
  }

  void run(plait_queue*, void* const* operands, void* workspace) const {
    const auto* x = static_cast<const float*>(operands[0]);
    auto* y = static_cast<float*>(operands[1]);
    auto* scratch = static_cast<float*>(workspace);
    if (p_.rows) {
      float* to = p_.batch ? scratch : y;
      run_inner(x, to, scratch + p_.between);
      x = to;
    }
    if (p_.batch) run_outer(x, y, scratch + p_.between);
  }

 private:
  void run_inner(const float* x, float* y, float* pieces) const {
    if (p_.parts == 1)
      return in_parallel(p_.inner_threads, p_.rows, [&](int64_t first, int64_t last) {
        inner_(x, p_.n, p_.n, y, first, last);
      });
    in_parallel(p_.inner_threads, p_.rows * p_.parts, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t at = i % p_.parts * kLongRow;
        inner_(x + i / p_.parts * p_.n + at, std::min(kLongRow, p_.n - at), 0, pieces + i, 0, 1);
      }
    });
    inner_join_(pieces, p_.parts, p_.parts, y, 0, p_.rows);
  }
  void run_outer(const float* x, float* y, float* pieces) const {
    float* to = p_.stacks == 1 ? y : pieces;
    in_parallel(p_.outer_threads, p_.batch * p_.stacks, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t at = i % p_.stacks * kTallStack,
                      rows = p_.stacks == 1 ? p_.tall : std::min(kTallStack, p_.tall - at);
        outer_(x + (i / p_.stacks * p_.tall + at) * p_.wide, rows, p_.wide, p_.wide,
               to + i * p_.wide);
      }
    });
    if (p_.stacks == 1) return;
    for (int64_t b = 0; b < p_.batch; ++b)
      outer_join_(pieces + b * p_.stacks * p_.wide, p_.stacks, p_.wide, p_.wide, y + b * p_.wide);
  }

  ReduceKind kind_;
  ReducePlan p_;
  Inner inner_, inner_join_;
  Outer outer_, outer_join_;
};

}  // namespace

void add_reduce(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<CpuReduce>("simd", "reduce", kDevice, kFastPriority));
  out.push_back(kernel<Widened<CpuReduce>>("widened", "reduce", kDevice, kWidenedPriority));
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
