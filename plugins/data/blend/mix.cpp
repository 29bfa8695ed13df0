#include "plugins/data/blend/mix.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace plait::data::blend {

std::vector<double> shares_of(std::span<const double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<double> shares;
  for (const double w : weights) shares.push_back(w / sum);
  return shares;
}

std::vector<double> shares_by_size(std::span<const int64_t> sizes, double exponent, int64_t most) {
  std::vector<double> weights;
  for (const int64_t size : sizes) {
    const auto counted = static_cast<double>(most > 0 ? std::min(size, most) : size);
    // Not every pow(x, 1) is x.
    weights.push_back(exponent == 1 ? counted : std::pow(counted, exponent));
  }
  return shares_of(weights);
}

std::vector<uint16_t> order_of(std::span<const double> shares, int64_t n_samples) {
  std::vector<uint16_t> order(static_cast<size_t>(n_samples));
  std::vector<double> taken(shares.size(), 0);
  for (size_t n = 0; n < order.size(); ++n) {
    const auto due = static_cast<double>(std::max<size_t>(n, 1));
    size_t best = 0;
    double most = shares[0] * due - taken[0];
    for (size_t i = 1; i < shares.size(); ++i)
      if (const double missing = shares[i] * due - taken[i]; missing > most) {
        best = i;
        most = missing;
      }
    ++taken[best];
    order[n] = static_cast<uint16_t>(best);
  }
  return order;
}

}  // namespace plait::data::blend
