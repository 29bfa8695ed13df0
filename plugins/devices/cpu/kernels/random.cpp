// random on f32: Philox blocks, one per 64-bit lane. Which number an element gets is in
// plugins/support/philox.hpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plugins/devices/cpu/kernels/random.cpp"
#include "plugins/devices/cpu/kernels/simd_targets.hpp"

#include <hwy/foreach_target.h>

#include "plugins/devices/cpu/kernels/philox-inl.hpp"
#include "plugins/support/philox.hpp"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {

void draw_words(uint64_t first, int64_t high, uint32_t step, uint32_t stream, uint32_t key0,
                uint32_t key1, int64_t blocks, uint32_t* words) {
  philox_words(first, high, step, stream, key0, key1, blocks, words);
}

// to[i] = words[i] as a number in [0, 1).
void uniform_of(const uint32_t* words, float* to, int64_t n) {
  const F32 d;
  const hn::RebindToSigned<F32> di;
  const hn::RebindToUnsigned<F32> du;
  const auto scale = hn::Set(d, 0x1p-24f);
  const int64_t w = lanes();
  int64_t i = 0;
  for (; i + w <= n; i += w) {
    const auto top = hn::ShiftRight<8>(hn::LoadU(du, words + i));
    hn::StoreU(hn::Mul(hn::ConvertTo(d, hn::BitCast(di, top)), scale), d, to + i);
  }
  for (; i < n; ++i) to[i] = support::to_uniform(words[i]);
}

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kit/ops/random.hpp"
#include "plugins/devices/cpu/kernels/kernels.hpp"
#include "plugins/devices/cpu/kernels/simd.hpp"
#include "plugins/devices/cpu/parallel.hpp"

namespace plait::cpu {
namespace {

HWY_EXPORT(draw_words);
HWY_EXPORT(uniform_of);

constexpr int64_t kBlocks = 64;  // drawn at a time: more than any vector holds, and a power of two
constexpr int64_t kPiece = kBlocks * 4;  // elements
constexpr double kUniformNanoseconds = 1, kNormalNanoseconds = 15;

class CpuRandom {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::Random r = kit::parse_random(d);
    if (d.outputs[0].dtype != PLAIT_F32) {
      why = std::string("takes f32 only, found ") + kit::dtype_name(d.outputs[0].dtype);
      return false;
    }
    choice.workspace = 0;
    why = variant(r.normal ? "words vectorised, normal one by one" : "words vectorised",
                  num_threads(r, d.threads));
    return true;
  }
  CpuRandom(plait_device*, const plait_op_desc& d)
      : r_(kit::parse_random(d)),
        num_threads_(num_threads(r_, d.threads)),
        words_(PLAIT_PICK(draw_words)),
        uniform_(PLAIT_PICK(uniform_of)) {}

  void run(plait_queue*, void* const* operands, void*) const {
    const auto* counter = static_cast<const int64_t*>(operands[0]);
    auto* y = static_cast<float*>(operands[1]);
    const auto step = static_cast<uint32_t>(counter[0]);
    const int64_t pieces = pieces_of(r_);
    in_parallel(num_threads_, r_.samples * r_.runs * pieces, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t run = i / pieces, sample = run / r_.runs;
        const int64_t high =
            r_.by_sample ? int64_t{static_cast<uint32_t>(counter[1] + r_.first_sample + sample)}
                         : -1;
        // Elements [begin, end) of the whole sample, piece by piece where blocks are whole.
        const int64_t begin = r_.first + run % r_.runs * r_.stride, end = begin + r_.run;
        const int64_t at = (begin / kPiece + i % pieces) * kPiece;
        const int64_t from = std::max(at, begin), to = std::min(at + kPiece, end);
        if (from < to) piece(at, from - at, to - at, high, step, y + run * r_.run + from - begin);
      }
    });
  }

 private:
  static int64_t pieces_of(const kit::Random& r) {
    const bool aligned = r.first % kPiece == 0 && (r.runs == 1 || r.stride % kPiece == 0);
    return (r.run + kPiece - 1) / kPiece + (aligned ? 0 : 1);
  }
  static int num_threads(const kit::Random& r, uint32_t threads) {
    const double work = static_cast<double>(r.samples) * static_cast<double>(r.per_sample);
    return choose_num_threads(threads, work * (r.normal ? kNormalNanoseconds : kUniformNanoseconds),
                              r.samples * r.runs * pieces_of(r));
  }

  // Elements [at + begin, at + end) of a sample; at is a multiple of kPiece.
  void piece(int64_t at, int64_t begin, int64_t end, int64_t high, uint32_t step, float* to) const {
    alignas(64) uint32_t words[kPiece];
    const int64_t blocks = end > kPiece / 2 ? kBlocks : std::max<int64_t>((end + 31) / 32 * 8, 8);
    words_(static_cast<uint64_t>(at) / 4, high, step, support::stream_word(r_.stream),
           static_cast<uint32_t>(r_.seed), static_cast<uint32_t>(r_.seed >> 32), blocks, words);
    if (!r_.normal) return uniform_(words + begin, to, end - begin);
    for (int64_t i = begin / 2 * 2; i < end; i += 2) {
      const auto pair = support::to_normal(words[i], words[i + 1]);
      if (i >= begin) to[i - begin] = static_cast<float>(pair[0]);
      if (i + 1 < end) to[i + 1 - begin] = static_cast<float>(pair[1]);
    }
  }

  kit::Random r_;
  int num_threads_;
  void (*words_)(uint64_t, int64_t, uint32_t, uint32_t, uint32_t, uint32_t, int64_t, uint32_t*);
  void (*uniform_)(const uint32_t*, float*, int64_t);
};

}  // namespace

void add_random(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<CpuRandom>("simd", "random", kDevice, kFastPriority));
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
