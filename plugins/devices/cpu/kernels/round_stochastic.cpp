// round_stochastic: Philox blocks and the sums of bits in vectors, threads over pieces.
// kit/ops/round_stochastic.hpp says which element gets which bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plugins/devices/cpu/kernels/round_stochastic.cpp"
#include "plugins/devices/cpu/kernels/simd_targets.hpp"

#include <hwy/foreach_target.h>

#include "kit/ops/round_stochastic.hpp"
#include "plugins/devices/cpu/kernels/philox-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {

void draw_rounding(uint64_t first, uint32_t step, uint32_t stream, uint32_t key0, uint32_t key1,
                   int64_t blocks, uint32_t* words) {
  philox_words(first, -1, step, stream, key0, key1, blocks, words);
}

// bits: 16 for each element.
void round_row(const float* x, const uint16_t* bits, uint16_t* y, int64_t n) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const F32 d;
  const hn::RebindToUnsigned<F32> du;
  const hn::Rebind<uint16_t, F32> d16;
  const auto infinity = hn::Set(du, 0x7f800000u), quiet = hn::Set(du, 0x400000u);
  const auto largest = hn::Set(du, 0x7f7effffu), sign = hn::Set(du, 0x7fffffffu);
  const int64_t w = lanes();
  for (; i + w <= n; i += w) {
    const auto v = hn::BitCast(du, hn::LoadU(d, x + i));
    const auto size = hn::And(v, sign);
    const auto u = hn::PromoteTo(du, hn::LoadU(d16, bits + i));
    const auto finite = hn::IfThenElse(hn::Gt(size, largest), v, hn::Add(v, u));
    const auto r = hn::IfThenElse(hn::Gt(size, infinity), hn::Or(v, quiet), finite);
    hn::StoreU(hn::TruncateTo(d16, hn::ShiftRight<16>(r)), d16, y + i);
  }
#endif
  for (; i < n; ++i) y[i] = kit::round_stochastic(x[i], bits[i]);
}

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "plugins/devices/cpu/kernels/kernels.hpp"
#include "plugins/devices/cpu/kernels/simd.hpp"
#include "plugins/devices/cpu/parallel.hpp"
#include "plugins/support/philox.hpp"

namespace plait::cpu {
namespace {

HWY_EXPORT(draw_rounding);
HWY_EXPORT(round_row);

constexpr int64_t kBlocks = 64;  // drawn at a time: more than any vector holds
constexpr int64_t kDrawn = kBlocks * kit::kRoundedByBlock;  // elements
constexpr int64_t kPiece = 32 * kDrawn;                     // elements that one thread takes
constexpr double kNanoseconds = 0.7;

class CpuRoundStochastic {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::RoundStochastic r = kit::parse_round_stochastic(d);
    choice.workspace = 0;
    why = variant("vectors", num_threads(r, d.threads));
    return true;
  }
  CpuRoundStochastic(plait_device*, const plait_op_desc& d)
      : r_(kit::parse_round_stochastic(d)),
        num_threads_(num_threads(r_, d.threads)),
        draw_(PLAIT_PICK(draw_rounding)),
        round_(PLAIT_PICK(round_row)) {}

  void run(plait_queue*, void* const* operands, void*) const {
    const auto* x = static_cast<const float*>(operands[0]);
    auto* y = static_cast<uint16_t*>(operands[2]);
    const int64_t step = r_.step == PLAIT_F64
                             ? static_cast<int64_t>(*static_cast<const double*>(operands[1]))
                             : static_cast<int64_t>(*static_cast<const float*>(operands[1]));
    in_parallel(num_threads_, pieces(r_), [&](int64_t first, int64_t last) {
      const int64_t end = std::min(last * kPiece, r_.n);
      for (int64_t i = first * kPiece; i < end;) {
        const int64_t n = std::min(r_.in_a_row(i), end - i);
        round_run(x + i, y + i, r_.element(i), n, static_cast<uint32_t>(step));
        i += n;
      }
    });
  }

 private:
  static int64_t pieces(const kit::RoundStochastic& r) { return (r.n + kPiece - 1) / kPiece; }
  static int num_threads(const kit::RoundStochastic& r, uint32_t threads) {
    return choose_num_threads(threads, static_cast<double>(r.n) * kNanoseconds, pieces(r));
  }

  // Elements [e, e + n) of the tensor.
  void round_run(const float* x, uint16_t* y, int64_t e, int64_t n, uint32_t step) const {
    alignas(64) uint32_t words[kBlocks * 4];
    uint16_t bits[kDrawn];
    while (n > 0) {
      const int64_t skipped = e % kit::kRoundedByBlock, m = std::min(n, kDrawn - skipped);
      const int64_t used = (skipped + m + kit::kRoundedByBlock - 1) / kit::kRoundedByBlock;
      draw_(static_cast<uint64_t>(e / kit::kRoundedByBlock), step, support::stream_word(r_.stream),
            static_cast<uint32_t>(r_.seed), static_cast<uint32_t>(r_.seed >> 32),
            std::min(kBlocks, (used + 7) / 8 * 8), words);
      // The low half of a word first, whatever the byte order.
      for (int64_t w = 0; w < used * 4; ++w) {
        bits[2 * w] = static_cast<uint16_t>(words[w]);
        bits[2 * w + 1] = static_cast<uint16_t>(words[w] >> 16);
      }
      round_(x, bits + skipped, y, m);
      x += m, y += m, e += m, n -= m;
    }
  }

  kit::RoundStochastic r_;
  int num_threads_;
  void (*draw_)(uint64_t, uint32_t, uint32_t, uint32_t, uint32_t, int64_t, uint32_t*);
  void (*round_)(const float*, const uint16_t*, uint16_t*, int64_t);
};

}  // namespace

void add_round_stochastic(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<CpuRoundStochastic>("simd", "round_stochastic", kDevice, kFastPriority));
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
