// cross_entropy and its gradient on logits of f32 and of 16 bits. R rows of C logits.
//
// Rows are taken kBlock at a time: first the greatest element and the sum of exponentials of each,
// then the logarithms of all sums at once, since with ten classes a logarithm costs as much as the
// rest of the row.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plugins/devices/cpu/kernels/cross_entropy.cpp"
#include "plugins/devices/cpu/kernels/simd_targets.hpp"

#include <hwy/foreach_target.h>

#include "plugins/devices/cpu/kernels/cross_entropy_args.hpp"
#include "plugins/devices/cpu/kernels/simd-inl.hpp"
#include "plugins/devices/cpu/kernels/simd_log-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {
namespace {

struct AddExp {
  VF shift;
  HWY_INLINE VF operator()(VF acc, VF x) const { return hn::Add(acc, exp(hn::Sub(x, shift))); }
  HWY_INLINE VF join(VF a, VF b) const { return hn::Add(a, b); }
};

struct Add {
  HWY_INLINE VF operator()(VF acc, VF x) const { return hn::Add(acc, x); }
  HWY_INLINE VF join(VF a, VF b) const { return hn::Add(a, b); }
};

constexpr int64_t kBlock = 64;

// lse[i] = most[i] + log(sum[i]), i in [0, n); both arrays may be read up to kBlock.
HWY_INLINE void log_block(const float* most, const float* sum, float* lse, int64_t n) {
  const F32 d;
  const int64_t w = lanes();
  for (int64_t i = 0; i < n; i += w) {
    const VF v = hn::Add(hn::Load(d, most + i), log(hn::Load(d, sum + i)));
    if (i + w <= n)
      hn::StoreU(v, d, lse + i);
    else
      store_n(v, lse + i, n - i);
  }
}

template <class Label>
HWY_INLINE void forward(const CrossEntropyArgs& a, int64_t first, int64_t last) {
  const F32 d;
  const VF least = hn::Set(d, -std::numeric_limits<float>::infinity());
  const int64_t c = a.valid, w = lanes();
  const auto* labels = static_cast<const Label*>(a.labels);
  const float keep = 1 - a.smoothing, spread = a.smoothing / static_cast<float>(a.total);
  HWY_ALIGN float most[kBlock], sum[kBlock];
  for (float& s : sum) s = 1;
  for (float& m : most) m = 0;
  for (int64_t block = first; block < last; block += kBlock) {
    const int64_t n = std::min(kBlock, last - block);
    for (int64_t i = 0; i < n; ++i) {
      const float* x = a.logits + (block + i) * a.cols;
      if (c <= w) {  // the row is one vector
        const VF v = c == w ? hn::LoadU(d, x) : load_n(x, c, least);
        const VF m = hn::MaxOfLanes(d, v);
        most[i] = hn::GetLane(m);
        sum[i] = sum_lanes(exp(hn::Sub(v, m)));
      } else {
        const VF m = row_max(x, c);
        most[i] = hn::GetLane(m);
        sum[i] = sum_lanes(fold(x, c, hn::Zero(d), least, AddExp{m}));
      }
    }
    // Of a part whose classes are all impossible; other parts may have some.
    if (a.part)
      for (int64_t i = 0; i < n; ++i)
        if (most[i] == -std::numeric_limits<float>::infinity()) sum[i] = 1;
    log_block(most, sum, a.lse + block, n);
    for (int64_t i = 0; i < n; ++i) {
      const auto label = static_cast<int64_t>(labels[block + i]);
      const float* x = a.logits + (block + i) * a.cols;
      float loss = 0;
      if (label >= a.total) {
        loss = std::numeric_limits<float>::quiet_NaN();
      } else if (label >= 0) {
        loss = a.part ? 0 : a.lse[block + i];
        if (label >= a.first && label - a.first < c) loss -= keep * x[label - a.first];
        if (spread > 0) loss -= spread * sum_lanes(fold(x, c, hn::Zero(d), hn::Zero(d), Add()));
      }
      a.loss[block + i] = loss;
    }
  }
}

// dlogits = dloss * (exp(x - lse) - s/C), less dloss * (1-s) at the label.
template <class Label>
HWY_INLINE void backward(const CrossEntropyArgs& a, int64_t first, int64_t last) {
  const F32 d;
  const int64_t c = a.valid, w = lanes();
  const auto* labels = static_cast<const Label*>(a.labels);
  const VF spread = hn::Set(d, a.smoothing / static_cast<float>(a.total));
  for (int64_t r = first; r < last; ++r) {
    const auto label = static_cast<int64_t>(labels[r]);
    const float* x = a.logits + r * a.cols;
    float* dx = a.dlogits + r * a.cols;
    for (int64_t i = c; i < a.cols; ++i) dx[i] = 0;
    if (label < 0 || label >= a.total) {
      const float fill = label < 0 ? 0 : std::numeric_limits<float>::quiet_NaN();
      for (int64_t i = 0; i < c; ++i) dx[i] = fill;
      continue;
    }
    const VF lse = hn::Set(d, a.lse[r]), dloss = hn::Set(d, a.dloss[r]);
    const auto f = [&](VF v)
                       HWY_ATTR { return hn::Mul(dloss, hn::Sub(exp(hn::Sub(v, lse)), spread)); };
    // Rounded once at the label, as elsewhere: exp(x - lse) - target there can cancel to almost
    // nothing.
    const int64_t at = label >= a.first && label - a.first < c ? label - a.first : -1;
    const float at_label = at < 0 ? 0
                                  : a.dloss[r] * (std::exp(x[at] - a.lse[r]) - (1 - a.smoothing) -
                                                  a.smoothing / static_cast<float>(a.total));
    int64_t i = 0;
    for (; i + w <= c; i += w) hn::StoreU(f(hn::LoadU(d, x + i)), d, dx + i);
    if (i < c) store_n(f(load_n(x + i, c - i)), dx + i, c - i);
    if (at >= 0) dx[at] = at_label;
  }
}

}  // namespace

#define PLAIT_CROSS_ENTROPY(suffix, Label)                                     \
  void loss_##suffix(const CrossEntropyArgs& a, int64_t first, int64_t last) { \
    forward<Label>(a, first, last);                                            \
  }                                                                            \
  void grad_##suffix(const CrossEntropyArgs& a, int64_t first, int64_t last) { \
    backward<Label>(a, first, last);                                           \
  }
PLAIT_CROSS_ENTROPY(u8, uint8_t)
PLAIT_CROSS_ENTROPY(i32, int32_t)
PLAIT_CROSS_ENTROPY(i64, int64_t)
#undef PLAIT_CROSS_ENTROPY

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kit/ops/cross_entropy.hpp"
#include "plugins/devices/cpu/kernels/kernels.hpp"
#include "plugins/devices/cpu/kernels/simd.hpp"
#include "plugins/devices/cpu/kernels/widened.hpp"
#include "plugins/devices/cpu/parallel.hpp"

namespace plait::cpu {
namespace {

HWY_EXPORT(loss_u8);
HWY_EXPORT(loss_i32);
HWY_EXPORT(loss_i64);
HWY_EXPORT(grad_u8);
HWY_EXPORT(grad_i32);
HWY_EXPORT(grad_i64);

using RowsFunction = void (*)(const CrossEntropyArgs&, int64_t, int64_t);

RowsFunction pick(uint32_t label, bool grad) {
  if (label == PLAIT_U8) return grad ? PLAIT_PICK(grad_u8) : PLAIT_PICK(loss_u8);
  if (label == PLAIT_I32) return grad ? PLAIT_PICK(grad_i32) : PLAIT_PICK(loss_i32);
  return grad ? PLAIT_PICK(grad_i64) : PLAIT_PICK(loss_i64);
}

constexpr double kNanosecondsPerElement = 0.6;

template <bool kGrad>
class CpuCrossEntropy {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::CrossEntropy s = kit::parse_cross_entropy(d, kGrad);
    if (!all_f32(d, why)) return false;
    if (s.valid == 0 && s.x.cols > 0) {
      why = "all columns are padding";
      return false;
    }
    choice.workspace = 0;
    why = variant("row by row", num_threads(s, d.threads));
    return true;
  }
  CpuCrossEntropy(plait_device*, const plait_op_desc& d)
      : shape_(kit::parse_cross_entropy(d, kGrad)),
        num_threads_(num_threads(shape_, d.threads)),
        rows_(pick(shape_.label, kGrad)) {}
  void run(plait_queue*, void* const* operands, void*) const {
    const auto f32 = [&](size_t i) { return static_cast<float*>(operands[i]); };
    CrossEntropyArgs a{
        f32(0),       operands[1],  shape_.x.cols, shape_.valid,
        shape_.first, shape_.total, shape_.part,   static_cast<float>(shape_.smoothing)};
    if (kGrad) {
      a.lse = f32(2), a.dloss = f32(3), a.dlogits = f32(4);
    } else {
      a.loss = f32(2), a.lse = f32(3);
    }
    in_parallel(num_threads_, shape_.x.rows,
                [&](int64_t first, int64_t last) { rows_(a, first, last); });
  }

  static int num_threads(const kit::CrossEntropy& s, uint32_t threads) {
    const double work = static_cast<double>(s.x.rows) * (static_cast<double>(s.x.cols) + 16) *
                        kNanosecondsPerElement;
    return choose_num_threads(threads, work, s.x.rows);
  }

 private:
  kit::CrossEntropy shape_;
  int num_threads_;
  RowsFunction rows_;
};

// Logits of 16 bits: each thread widens a few rows at a time, and narrows their gradient.
template <bool kGrad>
class HalfCrossEntropy {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const WidenedOperands wide(d);
    if (!takes(d)) {
      why = "takes 16-bit logits, and f32 for each row";
      return false;
    }
    const HalfCrossEntropy k(nullptr, d);
    if (!CpuCrossEntropy<kGrad>::select(wide.desc(), choice, why)) return false;
    choice.workspace = static_cast<uint64_t>(k.num_threads_) * k.scratch() * sizeof(float);
    why = variant("row by row, widened to f32", k.num_threads_);
    return true;
  }
  HalfCrossEntropy(plait_device*, const plait_op_desc& d)
      : shape_(kit::parse_cross_entropy(d, kGrad)),
        dtype_(d.inputs[0].dtype),
        label_bytes_(static_cast<int64_t>(kit::dtype_bytes(shape_.label))),
        num_threads_(CpuCrossEntropy<kGrad>::num_threads(shape_, d.threads)),
        rows_(pick(shape_.label, kGrad)) {}
  void run(plait_queue*, void* const* operands, void* workspace) const {
    on_pool(num_threads_, [&](int64_t thread, int64_t all) {
      float* wide = static_cast<float*>(workspace) + thread * static_cast<int64_t>(scratch());
      const int64_t rows = shape_.x.rows, last = rows * (thread + 1) / all;
      for (int64_t r = rows * thread / all; r < last; r += at_a_time())
        run_rows(operands, r, std::min(at_a_time(), last - r), wide);
    });
  }

 private:
  // The labels are integers; of the other operands only logits and their gradient have 16 bits.
  static bool takes(const plait_op_desc& d) {
    const auto half = [](const plait_shape& s) {
      return s.dtype == PLAIT_BF16 || s.dtype == PLAIT_F16;
    };
    const auto f32 = [](const plait_shape& s) { return s.dtype == PLAIT_F32; };
    if (!half(d.inputs[0])) return false;
    if (kGrad)
      return f32(d.inputs[2]) && f32(d.inputs[3]) && d.outputs[0].dtype == d.inputs[0].dtype;
    return f32(d.outputs[0]) && f32(d.outputs[1]);
  }
  void run_rows(void* const* operands, int64_t first, int64_t n, float* wide) const {
    const auto f32 = [&](size_t i) { return static_cast<float*>(operands[i]) + first; };
    const auto half = [&](size_t i) {
      return static_cast<uint16_t*>(operands[i]) + first * shape_.x.cols;
    };
    widen_function(dtype_)(half(0), wide, n * shape_.x.cols);
    CrossEntropyArgs a{wide,          static_cast<const char*>(operands[1]) + first * label_bytes_,
                       shape_.x.cols, shape_.valid,
                       shape_.first,  shape_.total,
                       shape_.part,   static_cast<float>(shape_.smoothing)};
    if (kGrad) {
      a.lse = f32(2), a.dloss = f32(3), a.dlogits = wide;
    } else {
      a.loss = f32(2), a.lse = f32(3);
    }
    rows_(a, 0, n);
    if (kGrad) narrow_function(dtype_)(wide, half(4), n * shape_.x.cols);
  }
  // Rows of 128 KiB, which stay in the cache; one row if it is larger.
  int64_t at_a_time() const {
    return std::clamp<int64_t>(32768 / std::max<int64_t>(shape_.x.cols, 1), 1, 64);
  }
  // Floats of a thread.
  uint64_t scratch() const {
    return (static_cast<uint64_t>(at_a_time() * shape_.x.cols) + 15) / 16 * 16;
  }

  kit::CrossEntropy shape_;
  uint32_t dtype_;
  int64_t label_bytes_;
  int num_threads_;
  RowsFunction rows_;
};

}  // namespace

void add_cross_entropy(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<CpuCrossEntropy<false>>("simd", "cross_entropy", kDevice, kFastPriority));
  out.push_back(
      kernel<CpuCrossEntropy<true>>("simd", "cross_entropy_grad", kDevice, kFastPriority));
  out.push_back(
      kernel<HalfCrossEntropy<false>>("half", "cross_entropy", kDevice, kFastPriority - 1));
  out.push_back(
      kernel<HalfCrossEntropy<true>>("half", "cross_entropy_grad", kDevice, kFastPriority - 1));
  out.push_back(kernel<Widened<CpuCrossEntropy<false>>>("widened", "cross_entropy", kDevice,
                                                        kWidenedPriority));
  out.push_back(kernel<Widened<CpuCrossEntropy<true>>>("widened", "cross_entropy_grad", kDevice,
                                                       kWidenedPriority));
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
