// Rematerialization: what is cheap to make again from values that are kept anyway is made again in
// the backward pass, in place of being kept for it.
//
// A minimum cut between what the forward pass must make and what the backward pass reads, as
// AOTAutograd does it (He and Yu 2023, "Transcending Runtime-Memory Tradeoffs in Checkpointing by
// being Fusion Aware"; min_cut_rematerialization_partition of PyTorch): the weight of a value is
// its bytes, and the cut with the fewest bytes that lies closest to the backward pass is kept.
// Cheap are element-wise ops, casts and broadcasts among them; a view costs nothing, it is kept
// with the memory it looks at. A value that a backward op other than an element-wise one reads must
// be in memory, so it is kept and costs nothing more.
//
// The cut is made for the connected cheap ops of one layer at a time. What is made again is then
// short, fits into the element-wise op that reads it and lives only there. Without this bound a
// stack of element-wise layers would be made again as a whole when the backward pass begins, and
// nothing would be saved. So a value that the backward pass of another layer reads is kept, too.
#pragma once

#include "engine/program/graph.hpp"

namespace plait::program {

// Runs on a differentiated program, before fuse_maps() and before recompute(), which drops what is
// still kept. The values are the same bits: the same ops run on the same inputs. Deterministic, so
// every rank of a pipeline changes the whole program alike.
void rematerialize(Graph& g);

}  // namespace plait::program
