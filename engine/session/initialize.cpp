#include "engine/session/initialize.hpp"

#include <cmath>
#include <numbers>

#include "engine/base/error.hpp"
#include "engine/base/hash.hpp"
#include "engine/base/philox.hpp"

namespace plait::session {
namespace {

double uniform(uint32_t word) { return (word >> 8) * 0x1p-24; }

// Standard normal number of element e: Box and Muller 1958, on the pair of words that the element shares with its neighbour.
double normal(uint64_t e, uint64_t stream, uint64_t seed) {
  const auto words = philox(e / 4, stream, seed);
  const size_t pair = e % 4 / 2 * 2;
  const double r = std::sqrt(-2 * std::log(((words[pair] >> 8) + 1) * 0x1p-24));
  const double angle = 2 * std::numbers::pi * uniform(words[pair + 1]);
  return e % 2 == 0 ? r * std::cos(angle) : r * std::sin(angle);
}

}  // namespace

void initialize(const plan::Parameter& p, uint64_t seed, int64_t first, std::span<float> out) {
  const uint64_t stream = name_hash(p.name);
  const double a = p.init_a, b = p.init_b;
  for (size_t i = 0; i < out.size(); ++i) {
    const auto e = static_cast<uint64_t>(first) + i;
    double v = a;
    switch (p.init) {
      case PLAIT_INIT_CONSTANT:
        break;
      case PLAIT_INIT_UNIFORM:
        v = a + (b - a) * uniform(philox(e / 4, stream, seed)[e % 4]);
        break;
      case PLAIT_INIT_NORMAL:
        v = a + b * normal(e, stream, seed);
        break;
      case PLAIT_INIT_TRUNCATED: {
        // Redraws come from streams of their own, so that neighbours are not shifted.
        double z = 3;
        for (uint64_t draw = 0; std::abs(z) > 2; ++draw)
          z = normal(e, stream + draw * 0x9E3779B97F4A7C15u, seed);
        v = a + b * z;
        break;
      }
      default:
        fail(PLAIT_ERR_PLUGIN, "[session] parameter '" + p.name + "' asks for initialiser " +
                                   std::to_string(p.init) + ", known are 1 to 4 (PLAIT_INIT_*)");
    }
    out[i] = static_cast<float>(v);
  }
}

}  // namespace plait::session
