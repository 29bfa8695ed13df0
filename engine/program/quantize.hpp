// Weights of 8 bits as a rewrite: products read numbers and scales (op `quantize`) in place of a
// weight, cast or not. For programs without a backward pass,
// before folds.
//   n rows of a weight, k columns
#pragma once

#include <functional>
#include <set>

#include "engine/program/graph.hpp"

namespace plait::program {

// A weight (n, k) as numbers (n, k) u8 and scales (n, ceil(k/32)) f32.
struct QuantizedRows {
  ValueId numbers = 0, scales = 0;
};

// Lets every product that reads rows of one of these values read what rows_of() gives for it. This
// is asked once for each value that has such readers, in the order of the program.
void quantize_products(Graph& g, const std::set<ValueId>& weights,
                       const std::function<QuantizedRows(ValueId weight)>& rows_of);

// Whether quantize_products() would leave no reader of v, which is a weight or a cast of one.
bool only_quantized(const Graph& g, ValueId v);

}  // namespace plait::program
