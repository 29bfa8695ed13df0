#include "engine/session/initialize.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/hash.hpp"
#include "engine/base/thread.hpp"
#include "engine/program/elements.hpp"
#include "engine/session/normal.hpp"
#include "kit/half.hpp"
#include "kit/philox.hpp"

namespace plait::session {
namespace {

double uniform(uint32_t word) { return (word >> 8) * 0x1p-24; }

// Elements [first, first + n) of one parameter.
struct Range {
  const plan::Parameter& p;
  uint64_t stream, seed, first;
  int64_t n;
  uint32_t dtype;
  void* out;

  void store(int64_t i, double v) const { program::store_element(dtype, out, i, v); }
};
using Fill = void (*)(const Range&);

void fill_constant(const Range& r) {
  for (int64_t i = 0; i < r.n; ++i) r.store(i, r.p.init_a);
}

void fill_uniform(const Range& r) {
  std::array<uint32_t, 4> words{};
  for (int64_t i = 0; i < r.n; ++i) {
    const uint64_t e = r.first + static_cast<uint64_t>(i);
    if (i == 0 || e % 4 == 0) words = kit::philox(e / 4, r.stream, r.seed);
    r.store(i, r.p.init_a + (r.p.init_b - r.p.init_a) * uniform(words[e % 4]));
  }
}

void fill_normal_one_by_one(const Range& r, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    r.store(i,
            r.p.init_a + r.p.init_b * normal(r.first + static_cast<uint64_t>(i), r.stream, r.seed));
}

void fill_normal(const Range& r) {
  if (r.dtype != PLAIT_F32) return fill_normal_one_by_one(r, 0, r.n);
  const NormalKernel kernel = normal_kernels().front();
  auto* out = static_cast<float*>(r.out);
  int64_t at = std::min<int64_t>(r.n, static_cast<int64_t>((4 - r.first % 4) % 4));
  fill_normal_one_by_one(r, 0, at);
  for (; at + kNormalElements <= r.n; at += kNormalElements) {
    const uint64_t block = (r.first + static_cast<uint64_t>(at)) / 4;
    if (!kernel(block, r.stream, r.seed, r.p.init_a, r.p.init_b, out + at))
      fill_normal_one_by_one(r, at, at + kNormalElements);
  }
  fill_normal_one_by_one(r, at, r.n);
}

void fill_truncated(const Range& r) {
  for (int64_t i = 0; i < r.n; ++i) {
    // Redraws come from streams of their own, so that neighbours are not shifted.
    double z = 3;
    for (uint64_t draw = 0; std::abs(z) > 2; ++draw)
      z = normal(r.first + static_cast<uint64_t>(i), r.stream + draw * 0x9E3779B97F4A7C15u, r.seed);
    r.store(i, r.p.init_a + r.p.init_b * z);
  }
}

// As f32, rounded to nearest: a weight of 16 bits begins with the bits of the low copy of one of
// 32 bits.
void fill_16_bits(const Range& r, Fill fill) {
  constexpr int64_t kPiece = 1 << 12;
  std::vector<float> drawn(static_cast<size_t>(std::min(kPiece, r.n)));
  auto* out = static_cast<uint16_t*>(r.out);
  for (int64_t at = 0; at < r.n; at += kPiece) {
    const int64_t n = std::min(kPiece, r.n - at);
    fill({r.p, r.stream, r.seed, r.first + static_cast<uint64_t>(at), n, PLAIT_F32, drawn.data()});
    std::transform(drawn.begin(), drawn.begin() + n, out + at,
                   r.dtype == PLAIT_BF16 ? kit::to_bf16 : kit::to_f16);
  }
}

Fill fill_of(const plan::Parameter& p) {
  switch (p.init) {
    case PLAIT_INIT_CONSTANT:
      return fill_constant;
    case PLAIT_INIT_UNIFORM:
      return fill_uniform;
    case PLAIT_INIT_NORMAL:
      return fill_normal;
    case PLAIT_INIT_TRUNCATED:
      return fill_truncated;
    default:
      fail(PLAIT_ERR_PLUGIN, "[session] parameter '" + p.name + "' asks for initialiser " +
                                 std::to_string(p.init) + ", known are 1 to 4 (PLAIT_INIT_*)");
  }
}

}  // namespace

void initialize(const plan::Parameter& p, uint64_t seed, int64_t first, int64_t n, uint32_t dtype,
                void* out, uint32_t threads) {
  const Fill fill = fill_of(p);
  const uint64_t stream = name_hash(p.name);
  // Below this a thread costs more than it saves.
  constexpr int64_t kLeast = 1 << 14;
  const int64_t shares = std::clamp<int64_t>(n / kLeast, 1, std::max(threads, 1u));
  const int64_t each = (n + shares - 1) / shares;
  const auto fill_share = [&](int64_t k) {
    const int64_t begin = std::min(n, k * each), end = std::min(n, begin + each);
    const Range range{p,
                      stream,
                      seed,
                      static_cast<uint64_t>(first + begin),
                      end - begin,
                      dtype,
                      static_cast<char*>(out) + program::bytes_of(begin, dtype)};
    if (program::dtype_bytes(dtype) == 2) return fill_16_bits(range, fill);
    fill(range);
  };
  run_on_threads(shares, fill_share);
}

}  // namespace plait::session
