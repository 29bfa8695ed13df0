// Whether weights that an experiment names have the types and shapes of the parameters that they
// are for. Their headers say it.
#pragma once

#include "engine/base/files.hpp"
#include "engine/checkpoint/weights.hpp"
#include "engine/session/weight_source.hpp"

namespace plait::session {

// Errors: PLAIT_ERR_DATA naming the tensor, its file, and the parameter.
void check_fit(const plan::Parameter& p, const checkpoint::Weights::Place& from,
               const WeightSource& source);

// All that loading the source finds without reading a tensor: the errors of require_weights(),
// Weights, Checkpoint, tensors_of() and check_fit(). [blocks: on files]
void check_weights(FileSystem& files, const plan::Plan& plan, const WeightSource& source);

}  // namespace plait::session
