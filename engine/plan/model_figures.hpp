// What reports of speed count by: FLOPs and tokens of a sample, and which losses have a perplexity.
#pragma once

#include "engine/plan/plan_draft.hpp"
#include "engine/plan/trace.hpp"

namespace plait::plan {

// Sets Plan::flops_per_sample, Plan::tokens_per_sample and Model::has_perplexity from the traced
// models: graphs of whole values before any rewrite. Tokens are the elements of an integer input
// (B, T..) whose values are looked up in a table; of several inputs the one with the most.
void note_model_figures(PlanDraft& plan, const TracedModels& traced);

}  // namespace plait::plan
