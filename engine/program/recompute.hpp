// Recomputation (activation checkpointing; Chen et al. 2016): what the backward pass reads of the forward pass is made again in
// place of being kept. The values are the same bits: the same ops run on the same inputs, and random numbers are counted.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/program/graph.hpp"

namespace plait::program {

// A value that the forward pass makes and the backward pass reads.
struct SavedValue {
  ValueId value = 0;
  uint64_t bytes = 0;
  double flops = 0;          // to make it again from the other saved values
  bool layer_local = false;  // nobody in another layer reads it
};

// Those that can be made again, in the order of the program. What comes from other ranks can't: it would be sent twice.
std::vector<SavedValue> saved_values(const Graph& g);

// Makes the values again before the backward pass first reads them. within_layers: only from what other layers made; else from any
// value that is still kept.
void recompute(Graph& g, const std::vector<ValueId>& dropped, bool within_layers);

}  // namespace plait::program
