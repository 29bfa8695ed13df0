// Recomputation (activation checkpointing; Chen et al. 2016): values of the forward pass that the
// backward pass reads are recomputed instead of kept. The results of f32 and f64 are bit-identical,
// since the same ops run on the same inputs and random numbers are counter-based; of 16 bits they
// differ by rounding, where fusion does.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/program/graph.hpp"

namespace plait::program {

// A value that the forward pass writes and the backward pass reads.
struct SavedValue {
  ValueId value = 0;
  uint64_t bytes = 0;
  double flops = 0;          // to recompute it from the other saved values
  bool layer_local = false;  // not read by other layers; a named block of layers counts as one
};

// The saved values that can be recomputed, in program order. Values received from other ranks
// cannot: they would be sent twice.
std::vector<SavedValue> saved_values(const Graph& g);

// Recomputes the values before the backward pass first reads them. within_layers: only from outputs
// of other layers or named blocks; otherwise from any value that is still kept.
void recompute(Graph& g, const std::vector<ValueId>& dropped, bool within_layers);

}  // namespace plait::program
