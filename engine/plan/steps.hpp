// The programs of a micro-batch and of an evaluation, written from what a tracer found.
#pragma once

#include <memory>

#include "engine/plan/plan.hpp"
#include "engine/plan/trace.hpp"

namespace plait::plan {

// What a program makes again in its backward pass: see TopologyConfig::recompute.
struct Recompute {
  std::string mode = "none";
  size_t cheapest =
      0;  // of mode "budget": how many values, those first that cost the least for their size
  size_t candidates = 0;  // set by write_micro(): how many there are
};

// Loss, gradients, and where they go. last: of a step's micro-batches, so that what the replicas share leaves from here on.
std::unique_ptr<program::Graph> write_micro(Plan& plan, Tracer& traced, const Context& context,
                                            bool last, Recompute& recompute);
std::unique_ptr<program::Graph> write_evaluate(Plan& plan, Tracer& traced);
// All-reduces what lies there; nothing where the axis has one rank. For persistent values.
void sum_over(program::Graph& g, Plan& plan, topology::Axis axis, const std::string& name,
              program::ValueId v);
// Sums Plan::totals over the replicas, and the wish to stop over all ranks.
std::unique_ptr<program::Graph> write_total(Plan& plan);

// A run of a segment as one vector: n elements of f32 from `first` on.
program::ValueId flat(program::Graph& g, const std::string& name, int32_t segment, int64_t first,
                      int64_t n);

}  // namespace plait::plan
