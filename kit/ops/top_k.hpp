// The k greatest numbers of a row. R rows, E numbers of a row.
#pragma once

#include "kit/op_attrs.hpp"

namespace plait::kit {

inline constexpr plait_option kTopKAttrs[] = {
    at_least(int_option("k", nullptr, "how many numbers of a row, E at most"), 1)};
inline constexpr plait_option kTopKGradAttrs[] = {
    at_least(int_option("extent", nullptr, "E: numbers of a row"), 1)};

struct TopK {
  int64_t rows = 0, extent = 0, k = 0;  // R, E, k
  std::vector<int64_t> out;             // dims of the values, or of the gradient
};
// x (.., E) -> values (.., k), index (.., k).
TopK parse_top_k(const plait_op_desc& d);
// dy (.., k), index (.., k) -> dx (.., E).
TopK parse_top_k_grad(const plait_op_desc& d);

// Whether number a at place i comes before number b at place j: the greater one does; of equals the
// first; one that is not a number before all others, so that it is seen.
template <class T>
bool comes_before(T a, int64_t i, T b, int64_t j) {
  const bool a_nan = a != a, b_nan = b != b;
  if (a_nan != b_nan) return a_nan;
  if (a_nan || a == b) return i < j;
  return a > b;
}

}  // namespace plait::kit
