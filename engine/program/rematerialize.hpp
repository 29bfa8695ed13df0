// Rematerialization: values that are cheap to compute from values that are saved anyway are
// recomputed in the backward pass instead of saved.
//
// A minimum cut between the results of the forward pass and the inputs of the backward pass, as
// AOTAutograd does it (He and Yu 2023, "Transcending Runtime-Memory Tradeoffs in Checkpointing by
// being Fusion Aware"; min_cut_rematerialization_partition of PyTorch): the weight of a value is
// its bytes, and the cut with the fewest bytes that lies closest to the backward pass is kept.
// Element-wise ops, casts and broadcasts are cheap; a view costs nothing, because it is kept with
// the memory that it shows. A value that a backward op other than an element-wise one reads must be
// in memory anyway, so keeping it costs nothing more.
//
// The cut is computed for the connected cheap ops of one layer at a time. The recomputed part is
// then short and fuses into the element-wise op that reads it. Without this bound a stack of
// element-wise layers would be recomputed as a whole when the backward pass begins, and no memory
// would be saved. So a value that the backward pass of another layer reads is kept, too.
#pragma once

#include "engine/program/graph.hpp"

namespace plait::program {

// Runs on a differentiated program, before fuse_maps() and before recompute(), which drops more of
// the saved values. Results of f32 and f64 are bit-identical: the same ops run on the same inputs.
// Of 16 bits they differ by rounding: what stays within a fused op is not rounded.
// Deterministic, so every rank of a pipeline rewrites the whole program in the same way.
void rematerialize(Graph& g);

}  // namespace plait::program
