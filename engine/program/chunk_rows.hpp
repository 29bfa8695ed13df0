// Chunks of rows: large values that exist between row-wise ops only, such as the logits of a
// language model and their gradient, are computed a part of the rows at a time.
//
// The rules that shard a program among ranks say how: chunk c of K is rank c of K along the rows.
// What is read outside is joined (rows), or added up chunk by chunk (the gradient of the weight).
// The backward part of the region moves to the forward pass, so a chunk's logits, loss and
// gradient follow one another and need memory for one chunk (as Liger Kernel's fused linear cross
// entropy, Hsu et al. 2024). In a pipeline the forward part moves to the backward pass: gradients
// go from stage to stage in backward programs alone. Where gradients of parameters are computed
// later than that, the region's are not: all its chunks would have to wait for them. Nothing is
// computed twice. Sums over the rows are taken in another order.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/program/graph.hpp"

namespace plait::program {

struct ChunkLimits {
  uint64_t bytes = uint64_t{64} << 20;  // the largest value that stays whole
  int64_t rows = 256;                   // of a chunk at least: each chunk reads the whole weight
};

// Rewrites every region of g for which that is possible. needed: values that are read when the
// program has run; they keep their ids. g is a traced program, differentiated or not, not yet
// sharded; no value is bound or assigned. Returns the number of regions.
int chunk_rows(Graph& g, const ChunkLimits& limits, const std::vector<ValueId>& needed);

}  // namespace plait::program
