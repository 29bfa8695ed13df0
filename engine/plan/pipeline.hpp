// Assigns layers to pipeline stages, orders the stages' work, and finds the holders of each
// parameter.
#pragma once

#include <functional>
#include <memory>

#include "engine/plan/plan_draft.hpp"
#include "engine/plan/trace.hpp"

namespace plait::plan {

// Traces the training program with these stages.
using TraceWith = std::function<std::unique_ptr<Tracer>(const StageOf&)>;

// Sets plan.pipeline. By cost: operations of each layer in a micro-batch, forward and backward.
// Errors: topology::InvalidTopology.
void choose_stages(PlanDraft& plan, const TraceWith& trace);

// The stage assignment in the form that a tracer needs, after the stages are chosen.
StageOf stage_of(const Plan& plan);

// Records the ranks that hold each parameter: those whose stages read it in training or evaluation.
void note_holders(PlanDraft& plan, const TracedModels& models);

// The cost of each stage in operations. piece(op): phase of the op with that index.
std::vector<topology::StageCost> costs_of(
    const Graph& g, int32_t stages, const std::function<topology::ActionKind(size_t op)>& kind);

}  // namespace plait::plan
