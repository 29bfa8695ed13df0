// split_halves and join_halves in vectors, threads over pieces: see kit/ops/halves.hpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plugins/devices/cpu/kernels/halves.cpp"
#include "plugins/devices/cpu/kernels/simd_targets.hpp"

#include <hwy/foreach_target.h>

#include "kit/ops/halves.hpp"
#include "plugins/devices/cpu/kernels/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {

void split_row(const float* x, uint16_t* high, int16_t* low, int64_t n) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const F32 d;
  const hn::RebindToUnsigned<F32> du;
  const hn::Rebind<uint16_t, F32> d16;
  const auto infinity = hn::Set(du, 0x7f800000u), quiet = hn::Set(du, 0x400000u),
             sign = hn::Set(du, 0x7fffffffu), half = hn::Set(du, 0x8000u),
             ones = hn::Set(du, 0xffffu);
  const int64_t w = lanes();
  for (; i + w <= n; i += w) {
    const auto v = hn::BitCast(du, hn::LoadU(d, x + i));
    const auto nan = hn::Gt(hn::And(v, sign), infinity);
    const auto upper = hn::IfThenElse(nan, hn::Or(v, quiet), hn::Add(v, half));
    const auto lower = hn::IfThenZeroElse(nan, hn::And(v, ones));
    hn::StoreU(hn::TruncateTo(d16, hn::ShiftRight<16>(upper)), d16, high + i);
    hn::StoreU(hn::TruncateTo(d16, lower), d16, reinterpret_cast<uint16_t*>(low + i));
  }
#endif
  for (; i < n; ++i) {
    const kit::Halves h = kit::split_halves(x[i]);
    high[i] = h.high;
    low[i] = h.low;
  }
}

void join_row(const uint16_t* high, const int16_t* low, float* x, int64_t n) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const F32 d;
  const I32 di;
  const hn::RebindToUnsigned<F32> du;
  const hn::Rebind<uint16_t, F32> d16;
  const hn::Rebind<int16_t, F32> d16i;
  const int64_t w = lanes();
  for (; i + w <= n; i += w) {
    const auto upper = hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, high + i)));
    const auto lower = hn::BitCast(du, hn::PromoteTo(di, hn::LoadU(d16i, low + i)));
    hn::StoreU(hn::BitCast(d, hn::Add(upper, lower)), d, x + i);
  }
#endif
  for (; i < n; ++i) x[i] = kit::join_halves({high[i], low[i]});
}

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "plugins/devices/cpu/kernels/kernels.hpp"
#include "plugins/devices/cpu/kernels/simd.hpp"
#include "plugins/devices/cpu/parallel.hpp"

namespace plait::cpu {
namespace {

HWY_EXPORT(split_row);
HWY_EXPORT(join_row);

constexpr double kNanoseconds = 0.5;  // for an element

template <int64_t (*parse)(const plait_op_desc&)>
class CpuHalves {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    choice.workspace = 0;
    why = variant("vectors", num_threads(parse(d), d.threads));
    return true;
  }
  CpuHalves(plait_device*, const plait_op_desc& d)
      : n_(parse(d)), num_threads_(num_threads(n_, d.threads)) {}

 protected:
  int64_t n_;
  int num_threads_;

 private:
  static int num_threads(int64_t n, uint32_t threads) {
    return choose_num_threads(threads, static_cast<double>(n) * kNanoseconds, n / 64);
  }
};

class CpuSplitHalves : public CpuHalves<kit::parse_split_halves> {
 public:
  CpuSplitHalves(plait_device* device, const plait_op_desc& d)
      : CpuHalves(device, d), split_(PLAIT_PICK(split_row)) {}
  void run(plait_queue*, void* const* operands, void*) const {
    const auto* x = static_cast<const float*>(operands[0]);
    auto* high = static_cast<uint16_t*>(operands[1]);
    auto* low = static_cast<int16_t*>(operands[2]);
    in_parallel(num_threads_, n_, [&](int64_t first, int64_t last) {
      split_(x + first, high + first, low + first, last - first);
    });
  }

 private:
  void (*split_)(const float*, uint16_t*, int16_t*, int64_t);
};

class CpuJoinHalves : public CpuHalves<kit::parse_join_halves> {
 public:
  CpuJoinHalves(plait_device* device, const plait_op_desc& d)
      : CpuHalves(device, d), join_(PLAIT_PICK(join_row)) {}
  void run(plait_queue*, void* const* operands, void*) const {
    const auto* high = static_cast<const uint16_t*>(operands[0]);
    const auto* low = static_cast<const int16_t*>(operands[1]);
    auto* x = static_cast<float*>(operands[2]);
    in_parallel(num_threads_, n_, [&](int64_t first, int64_t last) {
      join_(high + first, low + first, x + first, last - first);
    });
  }

 private:
  void (*join_)(const uint16_t*, const int16_t*, float*, int64_t);
};

}  // namespace

void add_halves(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<CpuSplitHalves>("simd", "split_halves", kDevice, kFastPriority));
  out.push_back(kernel<CpuJoinHalves>("simd", "join_halves", kDevice, kFastPriority));
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
