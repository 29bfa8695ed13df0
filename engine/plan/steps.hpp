// The programs of a micro-batch and of an evaluation, written from what a tracer found.
#pragma once

#include <memory>

#include "engine/plan/plan.hpp"
#include "engine/plan/trace.hpp"

namespace plait::plan {

// Loss, gradients, and where they go. last: of a step's micro-batches, so that what the replicas share leaves from here on.
std::unique_ptr<program::Graph> write_micro(Plan& plan, Tracer& traced, const Context& context,
                                            bool last);
std::unique_ptr<program::Graph> write_evaluate(Plan& plan, Tracer& traced);
// Sums Plan::totals over the replicas.
std::unique_ptr<program::Graph> write_total(Plan& plan);

// A run of a segment as one vector: n elements of f32 from `first` on.
program::ValueId flat(program::Graph& g, const std::string& name, int32_t segment, int64_t first,
                      int64_t n);

}  // namespace plait::plan
