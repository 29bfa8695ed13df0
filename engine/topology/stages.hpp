// Assigns layers to the stages of the pipeline.
//
// L layers, P ranks along the pipeline, V chunks on each, S = P * V stages. Stage s is chunk s / P
// of rank s % P, so that data leaving the last rank returns to the first one with the next chunk
// (Narayanan et al. 2021, section 2.2.2). Every stage has at least one layer; its layers are
// adjacent.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/topology/extent_split.hpp"

namespace plait::topology {

struct PipelineShape {
  int32_t ranks = 1;   // P
  int32_t chunks = 1;  // V
  int32_t stages() const { return ranks * chunks; }
  int32_t stage(int32_t rank, int32_t chunk) const { return chunk * ranks + rank; }
  int32_t rank_of(int32_t stage) const { return stage % ranks; }
  int32_t chunk_of(int32_t stage) const { return stage / ranks; }
  bool operator==(const PipelineShape&) const = default;
};

// The layers [begin, end) of each stage, in order. Errors of all: PLAIT_ERR_CONFIG with the keys
// and the nearest valid choice.

// Equal numbers; if P * V does not divide L, the first stages have one more.
std::vector<Range> stages_by_count(int64_t layers, const PipelineShape& shape);
// Minimises the cost of the heaviest stage (exact, in O(S L^2)); among such partitions chooses the
// smallest sum of squares, then the one whose first stages are shorter. Costs: one per layer, in
// any unit, finite and not negative.
std::vector<Range> stages_by_cost(const std::vector<double>& costs, const PipelineShape& shape);
// As set by the user: the number of layers of each stage.
std::vector<Range> stages_explicit(const std::vector<int64_t>& layers_of_stage, int64_t layers,
                                   const PipelineShape& shape);

// The cost of the heaviest stage.
double max_stage_cost(const std::vector<double>& costs, const std::vector<Range>& stages);

}  // namespace plait::topology
