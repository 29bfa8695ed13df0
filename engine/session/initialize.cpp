#include "engine/session/initialize.hpp"

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/hash.hpp"
#include "engine/base/philox.hpp"
#include "engine/base/thread.hpp"
#include "engine/session/normal.hpp"

namespace plait::session {
namespace {

double uniform(uint32_t word) { return (word >> 8) * 0x1p-24; }

// Elements [first, first + out.size()) of one parameter. Throws nothing: it runs on any thread.
using Fill = void (*)(const plan::Parameter&, uint64_t stream, uint64_t seed, uint64_t first,
                      std::span<float> out);

void fill_constant(const plan::Parameter& p, uint64_t, uint64_t, uint64_t, std::span<float> out) {
  std::fill(out.begin(), out.end(), static_cast<float>(p.init_a));
}

void fill_uniform(const plan::Parameter& p, uint64_t stream, uint64_t seed, uint64_t first,
                  std::span<float> out) {
  std::array<uint32_t, 4> words{};
  for (size_t i = 0; i < out.size(); ++i) {
    const uint64_t e = first + i;
    if (i == 0 || e % 4 == 0) words = philox(e / 4, stream, seed);
    out[i] = static_cast<float>(p.init_a + (p.init_b - p.init_a) * uniform(words[e % 4]));
  }
}

void fill_normal(const plan::Parameter& p, uint64_t stream, uint64_t seed, uint64_t first,
                 std::span<float> out) {
  const NormalKernel kernel = normal_kernels().front();
  const auto one_by_one = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
      out[i] = static_cast<float>(p.init_a + p.init_b * normal(first + i, stream, seed));
  };
  const size_t head = std::min<size_t>(out.size(), (4 - first % 4) % 4);
  one_by_one(0, head);
  size_t at = head;
  for (; at + kNormalElements <= out.size(); at += kNormalElements)
    if (!kernel((first + at) / 4, stream, seed, p.init_a, p.init_b, &out[at]))
      one_by_one(at, at + kNormalElements);
  one_by_one(at, out.size());
}

void fill_truncated(const plan::Parameter& p, uint64_t stream, uint64_t seed, uint64_t first,
                    std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    // Redraws come from streams of their own, so that neighbours are not shifted.
    double z = 3;
    for (uint64_t draw = 0; std::abs(z) > 2; ++draw)
      z = normal(first + i, stream + draw * 0x9E3779B97F4A7C15u, seed);
    out[i] = static_cast<float>(p.init_a + p.init_b * z);
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

void initialize(const plan::Parameter& p, uint64_t seed, int64_t first, std::span<float> out,
                uint32_t threads) {
  const Fill fill = fill_of(p);
  const uint64_t stream = name_hash(p.name);
  // Below this a thread costs more than it saves.
  constexpr size_t kLeast = 1 << 14;
  const size_t shares = std::clamp<size_t>(out.size() / kLeast, 1, std::max(threads, 1u));
  const size_t each = (out.size() + shares - 1) / shares;
  const auto fill_share = [&](size_t k) {
    const size_t begin = std::min(out.size(), k * each), end = std::min(out.size(), begin + each);
    fill(p, stream, seed, static_cast<uint64_t>(first) + begin, out.subspan(begin, end - begin));
  };
  std::vector<std::thread> workers;
  try {
    workers.reserve(shares);
    for (size_t k = 1; k < shares; ++k)
      workers.push_back(start_thread([&fill_share, k] {
        unbind_thread();  // the caller may be bound to one core
        fill_share(k);
      }));
  } catch (...) {
    for (auto& w : workers) w.join();
    throw;
  }
  fill_share(0);
  for (auto& w : workers) w.join();
}

}  // namespace plait::session
