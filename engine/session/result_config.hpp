// What of an experiment decides a run's result, as a checkpoint keeps it: whoever goes on with it is told what is different now.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/plan/plan.hpp"

namespace plait::session {

using ResultConfig = std::map<std::string, std::string>;

// Keys and values: seed, batch, what the models are made of, optimizers, the training data and a hash of its content. Not what a
// run may change without another result: ranks, micro-batches, its length where no schedule depends on it, paths.
ResultConfig result_config(const plan::Plan& plan);

// A line for each difference: "model.optimizer.learning_rate was 0.01, is 0.1".
std::vector<std::string> differences(const ResultConfig& then, const ResultConfig& now);

}  // namespace plait::session
