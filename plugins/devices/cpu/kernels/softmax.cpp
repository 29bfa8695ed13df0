// softmax, log_softmax and their gradients on f32. R rows of C elements.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plugins/devices/cpu/kernels/softmax.cpp"
#include "plugins/devices/cpu/kernels/simd_targets.hpp"

#include <hwy/foreach_target.h>

#include "plugins/devices/cpu/kernels/simd-inl.hpp"
#include "plugins/devices/cpu/kernels/simd_log-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {
namespace {

struct Add {
  HWY_INLINE VF operator()(VF acc, VF x) const { return hn::Add(acc, x); }
  HWY_INLINE VF join(VF a, VF b) const { return hn::Add(a, b); }
};

struct AddExp {
  VF shift;
  HWY_INLINE VF operator()(VF acc, VF x) const { return hn::Add(acc, exp(hn::Sub(x, shift))); }
  HWY_INLINE VF join(VF a, VF b) const { return hn::Add(a, b); }
};

// to[i] = f(a[i], b[i]) over a row of n; f sees 0 beyond the end.
template <class F>
HWY_INLINE void each(const float* a, const float* b, float* to, int64_t n, const F& f) {
  const F32 d;
  const int64_t w = lanes();
  int64_t i = 0;
  for (; i + w <= n; i += w) hn::StoreU(f(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, to + i);
  if (i < n) store_n(f(load_n(a + i, n - i), load_n(b + i, n - i)), to + i, n - i);
}

// Sum of a[i] * b[i].
HWY_INLINE float dot(const float* a, const float* b, int64_t n) {
  const F32 d;
  const int64_t w = lanes();
  VF s = hn::Zero(d), t = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * w <= n; i += 2 * w) {
    s = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), s);
    t = hn::MulAdd(hn::LoadU(d, a + i + w), hn::LoadU(d, b + i + w), t);
  }
  if (i + w <= n) {
    s = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), s);
    i += w;
  }
  if (i < n) t = hn::MulAdd(load_n(a + i, n - i), load_n(b + i, n - i), t);
  return sum_lanes(hn::Add(s, t));
}

}  // namespace

void softmax_rows(const float* x, const float*, float* y, int64_t c, int64_t first, int64_t last) {
  const F32 d;
  const int64_t w = lanes();
  const VF least = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (int64_t r = first; r < last; ++r) {
    const float* in = x + r * c;
    float* out = y + r * c;
    if (c < w) {  // the row is part of one vector
      const VF v = load_n(in, c, least);
      const VF e = exp(hn::Sub(v, hn::MaxOfLanes(d, v)));
      store_n(hn::Div(e, hn::SumOfLanes(d, e)), out, c);
      continue;
    }
    const VF m = row_max(in, c);
    VF sum = hn::Zero(d);
    int64_t i = 0;
    for (; i + w <= c; i += w) {
      const VF e = exp(hn::Sub(hn::LoadU(d, in + i), m));
      sum = hn::Add(sum, e);
      hn::StoreU(e, d, out + i);
    }
    if (i < c) {
      // A lane beyond the end is -inf, hence 0; only where all of the row is -inf would it be NaN,
      // as the row then is.
      const VF e = exp(hn::Sub(load_n(in + i, c - i, least), m));
      sum = hn::Add(sum, e);
      store_n(e, out + i, c - i);
    }
    const VF scale = hn::Div(hn::Set(d, 1.0f), hn::SumOfLanes(d, sum));
    each(out, out, out, c, [&](VF e, VF) HWY_ATTR { return hn::Mul(e, scale); });
  }
}

void log_softmax_rows(const float* x, const float*, float* y, int64_t c, int64_t first,
                      int64_t last) {
  const F32 d;
  const VF least = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (int64_t r = first; r < last; ++r) {
    const VF m = row_max(x + r * c, c);
    const VF log_sum = log(hn::SumOfLanes(d, fold(x + r * c, c, hn::Zero(d), least, AddExp{m})));
    each(x + r * c, x + r * c, y + r * c, c,
         [&](VF v, VF) HWY_ATTR { return hn::Sub(hn::Sub(v, m), log_sum); });
  }
}

void softmax_grad_rows(const float* y, const float* dy, float* dx, int64_t c, int64_t first,
                       int64_t last) {
  for (int64_t r = first; r < last; ++r) {
    const VF sum = hn::Set(F32(), dot(y + r * c, dy + r * c, c));
    each(y + r * c, dy + r * c, dx + r * c, c,
         [&](VF p, VF g) HWY_ATTR { return hn::Mul(p, hn::Sub(g, sum)); });
  }
}

void log_softmax_grad_rows(const float* y, const float* dy, float* dx, int64_t c, int64_t first,
                           int64_t last) {
  const F32 d;
  for (int64_t r = first; r < last; ++r) {
    const VF sum = hn::SumOfLanes(d, fold(dy + r * c, c, hn::Zero(d), hn::Zero(d), Add()));
    each(y + r * c, dy + r * c, dx + r * c, c,
         [&](VF p, VF g) HWY_ATTR { return hn::NegMulAdd(exp(p), sum, g); });
  }
}

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kit/ops/rows.hpp"
#include "plugins/devices/cpu/kernels/kernels.hpp"
#include "plugins/devices/cpu/kernels/simd.hpp"
#include "plugins/devices/cpu/parallel.hpp"

namespace plait::cpu {
namespace {

HWY_EXPORT(softmax_rows);
HWY_EXPORT(log_softmax_rows);
HWY_EXPORT(softmax_grad_rows);
HWY_EXPORT(log_softmax_grad_rows);

// Of one input, or of two for the gradients.
using RowsFunction = void (*)(const float*, const float*, float*, int64_t, int64_t, int64_t);

constexpr double kNanosecondsPerElement = 0.5;

template <auto Pick, uint32_t kInputs>
class CpuRows {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::Rows r = kit::parse_rows(d, kInputs);
    if (!all_f32(d, why)) return false;
    choice.workspace = 0;
    why = variant("row by row", num_threads(r, d.threads));
    return true;
  }
  CpuRows(plait_device*, const plait_op_desc& d)
      : shape_(kit::parse_rows(d, kInputs)),
        num_threads_(num_threads(shape_, d.threads)),
        rows_(Pick()) {}
  void run(plait_queue*, void* const* operands, void*) const {
    const auto* a = static_cast<const float*>(operands[0]);
    const auto* b = static_cast<const float*>(operands[kInputs - 1]);
    auto* y = static_cast<float*>(operands[kInputs]);
    in_parallel(num_threads_, shape_.rows,
                [&](int64_t first, int64_t last) { rows_(a, b, y, shape_.cols, first, last); });
  }

 private:
  static int num_threads(const kit::Rows& r, uint32_t threads) {
    const double work =
        static_cast<double>(r.rows) * (static_cast<double>(r.cols) + 32) * kNanosecondsPerElement;
    return choose_num_threads(threads, work, r.rows);
  }
  kit::Rows shape_;
  int num_threads_;
  RowsFunction rows_;
};

RowsFunction pick_softmax() { return PLAIT_PICK(softmax_rows); }
RowsFunction pick_log_softmax() { return PLAIT_PICK(log_softmax_rows); }
RowsFunction pick_softmax_grad() { return PLAIT_PICK(softmax_grad_rows); }
RowsFunction pick_log_softmax_grad() { return PLAIT_PICK(log_softmax_grad_rows); }

}  // namespace

void add_softmax(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<CpuRows<pick_softmax, 1>>("simd", "softmax", kDevice, kFastPriority));
  out.push_back(
      kernel<CpuRows<pick_log_softmax, 1>>("simd", "log_softmax", kDevice, kFastPriority));
  out.push_back(
      kernel<CpuRows<pick_softmax_grad, 2>>("simd", "softmax_grad", kDevice, kFastPriority));
  out.push_back(kernel<CpuRows<pick_log_softmax_grad, 2>>("simd", "log_softmax_grad", kDevice,
                                                          kFastPriority));
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
