// draw_tokens with threads over the rows: the algorithm of kit/draw_token.hpp, whose loops over
// logits are vectors. Every number is that of the plain loops, to the last bit.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plugins/devices/cpu/kernels/draw_tokens.cpp"
#include "plugins/devices/cpu/kernels/simd_targets.hpp"

#include <hwy/foreach_target.h>

#include "kit/draw_token.hpp"
#include "plugins/devices/cpu/kernels/draw_tokens_args.hpp"
#include "plugins/devices/cpu/kernels/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {
namespace {

using F64 = hn::CappedTag<double, 8>;
using U64 = hn::Rebind<uint64_t, F64>;
using F32OfF64 = hn::Rebind<float, F64>;
using I32OfF64 = hn::Rebind<int32_t, F64>;
using U32OfF64 = hn::Rebind<uint32_t, F64>;
using V64 = hn::Vec<U64>;

// a * b / 2^32 of numbers below 2^32.
HWY_INLINE V64 multiply_shift(V64 a, V64 b) {
#if HWY_TARGET == HWY_SCALAR
  return hn::ShiftRight<32>(hn::Mul(a, b));
#else
  const hn::Repartition<uint32_t, U64> halves;
  return hn::ShiftRight<32>(hn::MulEven(hn::BitCast(halves, a), hn::BitCast(halves, b)));
#endif
}

struct SimdLogits {
  static kit::Greatest greatest(const float* x, int64_t n) {
    const F32 d;
    const int64_t w = lanes();
    const VF least = hn::Set(d, -std::numeric_limits<float>::infinity());
    VF most = least, nan = hn::Zero(d);
    const auto add = [&](VF v) HWY_ATTR {
      nan = hn::Or(nan, hn::VecFromMask(d, hn::IsNaN(v)));
      most = hn::Max(most, v);
    };
    int64_t i = 0;
    for (; i + w <= n; i += w) add(hn::LoadU(d, x + i));
    if (i < n) add(load_n(x + i, n - i, least));
    return {hn::GetLane(hn::MaxOfLanes(d, most)), !hn::AllFalse(d, hn::IsNaN(nan))};
  }

  static void weigh(const float* x, int64_t n, float greatest, double scale, uint32_t* distance,
                    uint64_t* weight) {
    const F64 d64;
    const U64 u64;
    const F32OfF64 f32;
    const I32OfF64 i32;
    const U32OfF64 u32;
    const auto most = hn::Set(f32, greatest);
    const auto scales = hn::Set(d64, scale);
    const auto farthest = hn::Set(d64, static_cast<double>(kit::kFarthest));
    const auto w = static_cast<int64_t>(hn::Lanes(d64));
    int64_t i = 0;
    for (; i + w <= n; i += w) {
      auto far = hn::Mul(hn::PromoteTo(d64, hn::Sub(hn::LoadU(f32, x + i), most)), scales);
      far = hn::IfThenElse(hn::Lt(far, farthest), far, farthest);
      const auto steps = hn::DemoteTo(i32, far);
      hn::StoreU(hn::BitCast(u32, steps), u32, distance + i);
      const auto exponent = hn::Neg(steps);
      const V64 fraction = hn::PromoteTo(
          u64, hn::ShiftLeft<7>(hn::And(hn::BitCast(u32, exponent), hn::Set(u32, 0x1ffffff))));
      V64 y = hn::Set(u64, kit::kPowerOf2[5]);
      for (int k = 4; k >= 0; --k)
        y = hn::Add(multiply_shift(y, fraction), hn::Set(u64, kit::kPowerOf2[k]));
      y = hn::Add(multiply_shift(y, fraction), hn::Set(u64, uint64_t{1} << 32));
      const V64 shift = hn::PromoteTo(u64, hn::BitCast(u32, hn::Neg(hn::ShiftRight<25>(exponent))));
      hn::StoreU(hn::Shr(hn::ShiftLeft<kit::kWeightBits - 32>(y), shift), u64, weight + i);
    }
    kit::PlainLogits::weigh(x + i, n - i, greatest, scale, distance + i, weight + i);
  }
};

}  // namespace

void draw_rows(const DrawTokensArgs& a, int64_t first, int64_t last, uint64_t* scratch) {
  for (int64_t r = first; r < last; ++r) {
    kit::TokenDraw<SimdLogits> row({a.logits + r * a.vocabulary, static_cast<size_t>(a.vocabulary)},
                                   scratch);
    const kit::Drawn drawn =
        row.draw(a.settings + r * kit::kDrawSettings, a.numbers + r * kit::kDrawNumbers);
    a.ids[r] = drawn.id;
    a.log_probability[r] = drawn.log_probability;
  }
}

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kit/ops/draw_tokens.hpp"
#include "plugins/devices/cpu/kernels/kernels.hpp"
#include "plugins/devices/cpu/kernels/simd.hpp"
#include "plugins/devices/cpu/parallel.hpp"

namespace plait::cpu {
namespace {

HWY_EXPORT(draw_rows);

constexpr double kNanosecondsPerLogit = 2;

class CpuDrawTokens {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const CpuDrawTokens k(nullptr, d);
    choice.workspace =
        static_cast<uint64_t>(k.threads_) * static_cast<uint64_t>(k.scratch()) * sizeof(uint64_t);
    why = variant("weights that are whole numbers", k.threads_);
    return true;
  }
  CpuDrawTokens(plait_device*, const plait_op_desc& d)
      : t_(kit::parse_draw_tokens(d)), rows_(PLAIT_PICK(draw_rows)) {
    const double work =
        static_cast<double>(t_.rows) * static_cast<double>(t_.vocabulary) * kNanosecondsPerLogit;
    threads_ = choose_num_threads(d.threads, work, t_.rows);
  }
  void run(plait_queue*, void* const* operands, void* workspace) const {
    const DrawTokensArgs a{
        static_cast<const float*>(operands[0]),   static_cast<const float*>(operands[1]),
        static_cast<const int32_t*>(operands[2]), t_.vocabulary,
        static_cast<int32_t*>(operands[3]),       static_cast<float*>(operands[4])};
    on_pool(threads_, [&](int64_t thread, int64_t all) {
      rows_(a, t_.rows * thread / all, t_.rows * (thread + 1) / all,
            static_cast<uint64_t*>(workspace) + thread * scratch());
    });
  }

 private:
  // Words of a thread, whole lines of the cache.
  int64_t scratch() const {
    return (kit::TokenDraw<kit::PlainLogits>::scratch_words(t_.vocabulary) + 7) / 8 * 8;
  }

  kit::DrawTokens t_;
  int threads_ = 1;
  void (*rows_)(const DrawTokensArgs&, int64_t, int64_t, uint64_t*);
};

}  // namespace

void add_draw_tokens(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<CpuDrawTokens>("simd", "draw_tokens", kDevice, kFastPriority));
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
