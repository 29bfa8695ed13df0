// Products of 8-bit floats as a rewrite: chosen products of a layer with a weight, and the two that
// are their gradients, multiply e4m3 or e5m2 in place of wider floats. Layers know nothing of it.
//
// mark_products() notes which products these are before differentiate(), which passes the mark on
// to the gradients; multiply_f8() then writes, for each operand, its greatest magnitude, its
// numbers with their scale, and the product of the two (kit/ops/float8.hpp). It comes behind
// chunk_rows(): a chunk of rows is a tensor of its own, as a micro-batch is; and before
// shard_graph(): where a tensor is sharded, the greatest magnitude is that of all shards, so that
// the scale is the same on all ranks. Rows lie along the dimension that the product sums over: the
// scale of a row is one factor of a row or a column of the result.
#pragma once

#include <set>

#include "engine/program/graph.hpp"

namespace plait::program {

// What the operands a and b of a product are: the layer's input, its weight, the gradient of its
// result. The numbers are those of the choices of matmul's attribute `operands`.
enum class ProductOf : uint8_t {
  kAny,
  kInputWeight,     // the forward product
  kGradientWeight,  // gradient of the input
  kWeightGradient,
  kInputGradient,  // gradient of the weight
  kGradientInput,
};
Attr mark(ProductOf operands);
bool is_marked(const Op& op);

// The types of the operands of one product, in the order of its name: of the input and the weight,
// of the gradient and the weight, of the input and the gradient. 0: it stays as it is.
struct Float8Formats {
  uint32_t first = 0, second = 0;  // PLAIT_F8E4M3, PLAIT_F8E5M2
};
struct Float8Rules {
  Float8Formats forward, grad_input, grad_weight;
  bool by_rows = false;  // a scale for each row along the sum; else for each tensor
};

// Marks the products in which one of these values, or a cast or a view of it, is the second
// operand. Returns the values that have such products.
std::set<ValueId> mark_products(Graph& g, const std::set<ValueId>& weights);

// Rewrites the marked products for which there are formats, and removes the marks of the others.
void multiply_f8(Graph& g, const Float8Rules& rules);

}  // namespace plait::program
