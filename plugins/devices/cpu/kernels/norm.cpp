// layer_norm, rms_norm and their gradients on f32; the formulas are in
// plugins/support/plain/norm.cpp. R rows of C channels.
//
// Gradients of gain and bias are sums over rows: rows are cut into at most kMostChunks chunks by
// their number alone, each chunk sums into its own place in the workspace, and the chunks are added
// in order.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plugins/devices/cpu/kernels/norm.cpp"
#include "plugins/devices/cpu/kernels/simd_targets.hpp"

#include <hwy/foreach_target.h>

#include "plugins/devices/cpu/kernels/norm_args.hpp"
#include "plugins/devices/cpu/kernels/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {
namespace {

// f(i, n, whole) for each vector of a row: n elements from i, `whole` if they fill it.
template <class F>
HWY_INLINE void vectors(int64_t c, const F& f) {
  const int64_t w = lanes();
  int64_t i = 0;
  for (; i + w <= c; i += w) f(i, w, true);
  if (i < c) f(i, c - i, false);
}
HWY_INLINE VF get(const float* p, int64_t n, bool whole) {
  return whole ? hn::LoadU(F32(), p) : load_n(p, n);
}
HWY_INLINE void put(VF v, float* p, int64_t n, bool whole) {
  if (whole)
    hn::StoreU(v, F32(), p);
  else
    store_n(v, p, n);
}

struct Add {
  HWY_INLINE VF operator()(VF acc, VF x) const { return hn::Add(acc, x); }
  HWY_INLINE VF join(VF a, VF b) const { return hn::Add(a, b); }
};
// Lanes beyond the end hold `mean`, so they add nothing.
struct AddSquare {
  VF mean;
  HWY_INLINE VF operator()(VF acc, VF x) const {
    const VF v = hn::Sub(x, mean);
    return hn::MulAdd(v, v, acc);
  }
  HWY_INLINE VF join(VF a, VF b) const { return hn::Add(a, b); }
};

template <bool kLayer>
HWY_INLINE void forward(const NormArgs& a, int64_t first, int64_t last) {
  const F32 d;
  const int64_t c = a.cols;
  const VF zero = hn::Zero(d);
  for (int64_t r = first; r < last; ++r) {
    const float* x = a.x + r * c;
    VF mean = zero;
    if (kLayer) {
      a.mean[r] = sum_lanes(fold(x, c, zero, zero, Add())) / static_cast<float>(c);
      mean = hn::Set(d, a.mean[r]);
    }
    const float square = sum_lanes(fold(x, c, zero, mean, AddSquare{mean}));
    a.rstd[r] = 1 / std::sqrt(square / static_cast<float>(c) + a.eps);
    const VF rstd = hn::Set(d, a.rstd[r]);
    vectors(c, [&](int64_t i, int64_t n, bool whole) HWY_ATTR {
      const VF xh = hn::Mul(hn::Sub(get(x + i, n, whole), mean), rstd),
               gain = get(a.gain + i, n, whole);
      put(kLayer ? hn::MulAdd(xh, gain, get(a.bias + i, n, whole)) : hn::Mul(xh, gain),
          a.y + r * c + i, n, whole);
    });
  }
}

// sums: (C) of dgain, then (C) of dbias.
template <bool kLayer>
HWY_INLINE void backward(const NormArgs& a, int64_t first, int64_t last, float* sums) {
  const F32 d;
  const int64_t c = a.cols;
  for (int64_t i = 0; i < (kLayer ? 2 * c : c); ++i) sums[i] = 0;
  for (int64_t r = first; r < last; ++r) {
    const float *x = a.x + r * c, *dy = a.dy + r * c;
    const VF mean = kLayer ? hn::Set(d, a.mean[r]) : hn::Zero(d), rstd = hn::Set(d, a.rstd[r]);
    VF sum_g = hn::Zero(d), sum_gx = hn::Zero(d);
    vectors(c, [&](int64_t i, int64_t n, bool whole) HWY_ATTR {
      const VF xh = hn::Mul(hn::Sub(get(x + i, n, whole), mean), rstd), up = get(dy + i, n, whole);
      const VF g = hn::Mul(up, get(a.gain + i, n, whole));
      sum_g = hn::Add(sum_g, g);
      sum_gx = hn::MulAdd(g, xh, sum_gx);  // beyond the end g is 0
      put(hn::MulAdd(up, xh, get(sums + i, n, whole)), sums + i, n, whole);
      if (kLayer) put(hn::Add(up, get(sums + c + i, n, whole)), sums + c + i, n, whole);
    });
    const VF mean_g = hn::Set(d, kLayer ? sum_lanes(sum_g) / static_cast<float>(c) : 0.0f);
    const VF mean_gx = hn::Set(d, sum_lanes(sum_gx) / static_cast<float>(c));
    vectors(c, [&](int64_t i, int64_t n, bool whole) HWY_ATTR {
      const VF xh = hn::Mul(hn::Sub(get(x + i, n, whole), mean), rstd);
      const VF g = hn::Mul(get(dy + i, n, whole), get(a.gain + i, n, whole));
      put(hn::Mul(rstd, hn::NegMulAdd(xh, mean_gx, hn::Sub(g, mean_g))), a.y + r * c + i, n, whole);
    });
  }
}

}  // namespace

void layer_forward(const NormArgs& a, int64_t first, int64_t last) {
  forward<true>(a, first, last);
}
void rms_forward(const NormArgs& a, int64_t first, int64_t last) { forward<false>(a, first, last); }
void layer_backward(const NormArgs& a, int64_t first, int64_t last, float* sums) {
  backward<true>(a, first, last, sums);
}
void rms_backward(const NormArgs& a, int64_t first, int64_t last, float* sums) {
  backward<false>(a, first, last, sums);
}

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include "kit/ops/norm.hpp"
#include "kit/ops/rows.hpp"

#include "plugins/devices/cpu/kernels/kernels.hpp"
#include "plugins/devices/cpu/kernels/simd.hpp"
#include "plugins/devices/cpu/kernels/widened.hpp"
#include "plugins/devices/cpu/parallel.hpp"

namespace plait::cpu {
namespace {

HWY_EXPORT(layer_forward);
HWY_EXPORT(rms_forward);
HWY_EXPORT(layer_backward);
HWY_EXPORT(rms_backward);

constexpr double kNanosecondsPerElement = 0.2;
constexpr int64_t kMostChunks = 64, kRowsPerChunk = 16;

double cost(const kit::Rows& r) {
  return static_cast<double>(r.rows) * (static_cast<double>(r.cols) + 64) * kNanosecondsPerElement;
}

template <bool kLayer>
class CpuNorm {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::Norm s = kit::parse_norm(d, kLayer, false);
    if (!all_f32(d, why)) return false;
    choice.workspace = 0;
    why = variant("row by row", choose_num_threads(d.threads, cost(s.x), s.x.rows));
    return true;
  }
  CpuNorm(plait_device*, const plait_op_desc& d)
      : shape_(kit::parse_norm(d, kLayer, false)),
        num_threads_(choose_num_threads(d.threads, cost(shape_.x), shape_.x.rows)),
        rows_(kLayer ? PLAIT_PICK(layer_forward) : PLAIT_PICK(rms_forward)) {}
  void run(plait_queue*, void* const* operands, void*) const {
    const auto f32 = [&](size_t i) { return static_cast<float*>(operands[i]); };
    NormArgs a{shape_.x.cols, static_cast<float>(shape_.eps), f32(0), f32(1)};
    if (kLayer) {
      a.bias = f32(2), a.y = f32(3), a.mean = f32(4), a.rstd = f32(5);
    } else {
      a.y = f32(2), a.rstd = f32(3);
    }
    in_parallel(num_threads_, shape_.x.rows,
                [&](int64_t first, int64_t last) { rows_(a, first, last); });
  }

 private:
  kit::Norm shape_;
  int num_threads_;
  void (*rows_)(const NormArgs&, int64_t, int64_t);
};

template <bool kLayer>
class CpuNormGrad {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::Norm s = kit::parse_norm(d, kLayer, true);
    if (!all_f32(d, why)) return false;
    choice.workspace = static_cast<uint64_t>(chunks(s.x) * sums(s.x)) * sizeof(float);
    why = variant("row by row", choose_num_threads(d.threads, 2 * cost(s.x), chunks(s.x)));
    return true;
  }
  CpuNormGrad(plait_device*, const plait_op_desc& d)
      : shape_(kit::parse_norm(d, kLayer, true)),
        chunks_(chunks(shape_.x)),
        num_threads_(choose_num_threads(d.threads, 2 * cost(shape_.x), chunks_)),
        rows_(kLayer ? PLAIT_PICK(layer_backward) : PLAIT_PICK(rms_backward)) {}
  void run(plait_queue*, void* const* operands, void* workspace) const {
    const auto f32 = [&](size_t i) { return static_cast<float*>(operands[i]); };
    NormArgs a{shape_.x.cols, 0, f32(0), f32(1)};
    if (kLayer) a.mean = f32(2);
    a.rstd = f32(kLayer ? 3 : 2);
    a.dy = f32(kLayer ? 4 : 3);
    a.y = f32(kLayer ? 5 : 4);
    auto* parts = static_cast<float*>(workspace);
    const int64_t each = sums(shape_.x);
    in_parallel(num_threads_, chunks_, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i)
        rows_(a, shape_.x.rows * i / chunks_, shape_.x.rows * (i + 1) / chunks_, parts + i * each);
    });
    for (int64_t i = 1; i < chunks_; ++i)
      for (int64_t j = 0; j < each; ++j) parts[j] += parts[i * each + j];
    std::copy_n(parts, shape_.x.cols, f32(kLayer ? 6 : 5));
    if (kLayer) std::copy_n(parts + shape_.x.cols, shape_.x.cols, f32(7));
  }

 private:
  static int64_t chunks(const kit::Rows& r) {
    return std::clamp<int64_t>(r.rows / kRowsPerChunk, 1, kMostChunks);
  }
  static int64_t sums(const kit::Rows& r) { return (kLayer ? 2 : 1) * r.cols; }

  kit::Norm shape_;
  int64_t chunks_;
  int num_threads_;
  void (*rows_)(const NormArgs&, int64_t, int64_t, float*);
};

}  // namespace

void add_norm(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<CpuNorm<true>>("simd", "layer_norm", kDevice, kFastPriority));
  out.push_back(kernel<CpuNorm<false>>("simd", "rms_norm", kDevice, kFastPriority));
  out.push_back(kernel<CpuNormGrad<true>>("simd", "layer_norm_grad", kDevice, kFastPriority));
  out.push_back(kernel<CpuNormGrad<false>>("simd", "rms_norm_grad", kDevice, kFastPriority));
  out.push_back(kernel<Widened<CpuNorm<true>>>("widened", "layer_norm", kDevice, kWidenedPriority));
  out.push_back(kernel<Widened<CpuNorm<false>>>("widened", "rms_norm", kDevice, kWidenedPriority));
  out.push_back(
      kernel<Widened<CpuNormGrad<true>>>("widened", "layer_norm_grad", kDevice, kWidenedPriority));
  out.push_back(
      kernel<Widened<CpuNormGrad<false>>>("widened", "rms_norm_grad", kDevice, kWidenedPriority));
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
