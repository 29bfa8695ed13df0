// rope on f32: pairs of channels turned by the angles of their token, vectors along the pairs,
// threads over the tokens. Letters as in kit/ops/rope.hpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plugins/devices/cpu/kernels/rope.cpp"
#include "plugins/devices/cpu/kernels/simd_targets.hpp"

#include <hwy/foreach_target.h>

#include <algorithm>

#include "kit/ops/rope.hpp"
#include "plugins/devices/cpu/kernels/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {
namespace {

// (a, b) becomes (a cos - b sin, b cos + a sin).
struct Turned {
  VF a, b;
};
HWY_INLINE Turned turn(VF a, VF b, VF cos, VF sin) {
  return {hn::NegMulAdd(b, sin, hn::Mul(a, cos)), hn::MulAdd(a, sin, hn::Mul(b, cos))};
}

// Pair j: channels j and j + n.
HWY_INLINE void turn_halves(const float* x, const float* cos, const float* sin, VF sign, float* y,
                            int64_t n) {
  const F32 d;
  int64_t j = 0;
  for (; j + lanes() <= n; j += lanes()) {
    const Turned t = turn(hn::LoadU(d, x + j), hn::LoadU(d, x + n + j), hn::LoadU(d, cos + j),
                          hn::Mul(sign, hn::LoadU(d, sin + j)));
    hn::StoreU(t.a, d, y + j);
    hn::StoreU(t.b, d, y + n + j);
  }
  if (const int64_t rest = n - j; rest > 0) {
    const Turned t = turn(load_n(x + j, rest), load_n(x + n + j, rest), load_n(cos + j, rest),
                          hn::Mul(sign, load_n(sin + j, rest)));
    store_n(t.a, y + j, rest);
    store_n(t.b, y + n + j, rest);
  }
}

// Pair j: channels 2j and 2j + 1.
HWY_INLINE void turn_neighbours(const float* x, const float* cos, const float* sin, VF sign,
                                float* y, int64_t n) {
  const F32 d;
  int64_t j = 0;
  for (; j + lanes() <= n; j += lanes()) {
    VF a, b;
    hn::LoadInterleaved2(d, x + 2 * j, a, b);
    const Turned t = turn(a, b, hn::LoadU(d, cos + j), hn::Mul(sign, hn::LoadU(d, sin + j)));
    hn::StoreInterleaved2(t.a, t.b, d, y + 2 * j);
  }
  const float s = hn::GetLane(sign);
  for (; j < n; ++j) {
    const float a = x[2 * j], b = x[2 * j + 1];
    y[2 * j] = a * cos[j] - b * (s * sin[j]);
    y[2 * j + 1] = b * cos[j] + a * (s * sin[j]);
  }
}

}  // namespace

// Tokens [first, last) of all samples. y may be x.
void rope_tokens(const kit::Rope& r, const float* x, const float* cos, const float* sin, float* y,
                 int64_t first, int64_t last) {
  const VF sign = hn::Set(F32(), r.inverse ? -1.0f : 1.0f);
  const int64_t turned = 2 * r.pairs;
  for (int64_t token = first; token < last; ++token) {
    const int64_t row = (r.by_sample ? token : token % r.tokens) * r.pairs;
    for (int64_t h = 0; h < r.heads; ++h) {
      const int64_t at = (token * r.heads + h) * r.channels;
      if (r.adjacent)
        turn_neighbours(x + at, cos + row, sin + row, sign, y + at, r.pairs);
      else
        turn_halves(x + at, cos + row, sin + row, sign, y + at, r.pairs);
      if (x != y) std::copy(x + at + turned, x + at + r.channels, y + at + turned);
    }
  }
}

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "plugins/devices/cpu/kernels/kernels.hpp"
#include "plugins/devices/cpu/kernels/simd.hpp"
#include "plugins/devices/cpu/kernels/widened.hpp"
#include "plugins/devices/cpu/parallel.hpp"

namespace plait::cpu {
namespace {

HWY_EXPORT(rope_tokens);

class CpuRope {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const CpuRope kernel(nullptr, d);
    if (!all_f32(d, why)) return false;
    choice.workspace = 0;
    why = variant("pairs of a token", kernel.num_threads_);
    return true;
  }
  CpuRope(plait_device*, const plait_op_desc& d)
      : r_(kit::parse_rope(d)),
        num_threads_(choose_num_threads(d.threads, nanoseconds(r_), r_.samples * r_.tokens)),
        function_(PLAIT_PICK(rope_tokens)) {}
  void run(plait_queue*, void* const* operands, void*) const {
    const auto f32 = [&](int i) { return static_cast<float*>(operands[i]); };
    in_parallel(num_threads_, r_.samples * r_.tokens, [&](int64_t first, int64_t last) {
      function_(r_, f32(0), f32(1), f32(2), f32(3), first, last);
    });
  }

 private:
  static double nanoseconds(const kit::Rope& r) {
    constexpr double kPerElement = 0.4;
    return static_cast<double>(r.samples * r.tokens * r.heads) * static_cast<double>(r.channels) *
           kPerElement;
  }

  kit::Rope r_;
  int num_threads_;
  void (*function_)(const kit::Rope&, const float*, const float*, const float*, float*, int64_t,
                    int64_t);
};

}  // namespace

void add_rope(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<CpuRope>("simd", "rope", kDevice, kFastPriority));
  out.push_back(kernel<Widened<CpuRope>>("widened", "rope", kDevice, kWidenedPriority));
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
