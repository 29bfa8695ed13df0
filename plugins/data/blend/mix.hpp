// Which part gives each sample of a blend. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace plait::data::blend {

// Shares of the parts, with the sum 1, in proportion to min(size, most)^exponent (most 0: no
// limit). Sums in f64, from the first part on. sizes: at least 1 each.
std::vector<double> shares_by_size(std::span<const int64_t> sizes, double exponent, int64_t most);
// Weights divided by their sum, which is above 0.
std::vector<double> shares_of(std::span<const double> weights);

// Part of sample n, for n from 0 to n_samples - 1: the one that is furthest below its share,
// argmax over i of share_i * max(n, 1) - taken_i, the lowest i of equals (the order of Megatron's
// blended datasets). At most 65536 parts.
std::vector<uint16_t> order_of(std::span<const double> shares, int64_t n_samples);

}  // namespace plait::data::blend
