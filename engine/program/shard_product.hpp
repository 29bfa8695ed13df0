// How products of matrices lie on the ranks along one axis of the mesh.
#pragma once

#include "engine/program/graph.hpp"
#include "engine/program/shard.hpp"

namespace plait::program {

struct ProductInputs {
  bool transpose_a = false, transpose_b = false;
  ValueId b = 0;    // what input 1 was made of, or input 1
  size_t bias = 0;  // which input it is; 0: none
};

// y[.., m, n] = op(a)[.., m, k] op(b)[.., k, n] (+ bias[n]) of inputs 0 and 1: sets how they, the
// bias and y lie. False: a and b must be replicated.
bool shard_product(const Graph& g, const Op& op, const ProductInputs& p,
                   const std::vector<Placement>& have, Sharding& s);

}  // namespace plait::program
