// Which layers make which stage of the pipeline, in which order stages work, and which parameters they hold.
#pragma once

#include <functional>
#include <memory>

#include "engine/plan/plan.hpp"
#include "engine/plan/trace.hpp"

namespace plait::plan {

// Traces the training program with these stages.
using TraceWith = std::function<std::unique_ptr<Tracer>(const StageOf&)>;

// Sets plan.pipeline. By cost: the operations of each layer's ops in a micro-batch, forward and backward.
// Errors: PLAIT_ERR_CONFIG, which begin with "[topology] key: ".
void choose_stages(Plan& plan, const TraceWith& trace);

// What a tracer asks, when the stages are chosen.
StageOf stage_of(const Plan& plan);

// Who holds which parameter: those whose stages read it, in training or evaluation.
void note_holders(Plan& plan, const std::vector<const Tracer*>& programs);

// What the ops of each stage cost, in operations. piece(op): pass of the op with that index.
std::vector<topology::StageCost> costs_of(
    const Graph& g, int32_t stages, const std::function<topology::ActionKind(size_t op)>& kind);

}  // namespace plait::plan
