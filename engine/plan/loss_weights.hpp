// Losses of one model that count different weights: the labels that are not ignored, the samples.
// Each is the sum of its weighted losses over the global batch, divided by the sum of its own
// weights:
//   loss = sum over i of weight_i * (L_i / W_i)
// All micro-batches and replicas add to one gradient, so every W_i must be known before the first
// backward pass. A step then begins with two further programs: count_weights adds up the weights of
// each micro-batch, which depend on no parameter, and loss_factors sums them over the
// ranks and leaves
//   W = max over i of |W_i|,  factor_i = W / W_i, or 0 where nothing counts
// so that the forward pass computes sum over i of weight_i * L_i * factor_i, and the update divides
// by W, as it divides by the weights of a model whose losses all count the same.
#pragma once

#include "engine/plan/plan_draft.hpp"

namespace plait::plan {

// Plan::loss_weights: W_i of all models, then their factors.
int64_t n_loss_weights(const Plan& plan);
BufferRef loss_factor(const Plan& plan, const Model& model, size_t i);

// Makes Plan::loss_weights and the models' ranges in it. train: the traced training step.
void make_loss_weights(PlanDraft& plan, const Tracer& train);
// Adds the two programs to a step, launched from its launch `before` on; nothing where no model
// needs them.
void write_loss_weights(const EntryPointSource& from, EntryPoint& step, size_t before);

}  // namespace plait::plan
