// The parts of an experiment that decide a run's result. A checkpoint stores them, and a run that
// continues it reports the differences.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/plan/plan.hpp"

namespace plait::session {

using ResultConfig = std::map<std::string, std::string>;

// Keys and values: seed, batch, models, optimizers, the training data and a hash of its content.
// Excludes settings that a run may change without another result: ranks, micro-batches, its length
// if no schedule depends on it, paths.
ResultConfig result_config(const plan::Plan& plan);
// The same for differences() from `then`, which an older engine may have stored: without the keys
// that are not in it and have their defaults.
ResultConfig result_config_beside(const ResultConfig& then, const plan::Plan& plan);

// One line per difference: "model.optimizer.learning_rate was 0.01, is 0.1".
std::vector<std::string> differences(const ResultConfig& then, const ResultConfig& now);

}  // namespace plait::session
