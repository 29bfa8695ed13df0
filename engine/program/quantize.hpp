// Quantized weights as a rewrite: what reads a matrix of weights, cast or not, reads numbers and
// scales (op `quantize`) in its place: products in both directions, with the weight stored either
// way, also in a backward pass, and look-ups in a table. Before folds. Whatever computes
// a gradient of the weight must be gone: it would differ from that of the numbers.
//   R rows and C columns of a weight
#pragma once

#include <functional>
#include <set>
#include <string>

#include "engine/program/graph.hpp"

namespace plait::program {

// A weight (R, C) as `quantize` with this format gives it.
struct QuantizedRows {
  ValueId numbers = 0, scales = 0;
  std::string format = "int8";
};

// Whether look-ups count as readers, or stay as they are.
enum class Tables : bool { kStay, kQuantized };

// Lets every reader of one of these values read what rows_of() gives for it. This is asked once for
// each value that has such readers, in the order of the program.
void quantize_products(Graph& g, const std::set<ValueId>& weights,
                       const std::function<QuantizedRows(ValueId weight)>& rows_of,
                       Tables tables = Tables::kStay);

// Whether quantize_products() would leave no reader of v, which is a weight or a cast of one.
bool only_quantized(const Graph& g, ValueId v, Tables tables = Tables::kStay);

}  // namespace plait::program
