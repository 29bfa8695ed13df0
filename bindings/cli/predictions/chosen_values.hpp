// The values of a model that a command writes for each sample.
#pragma once

#include <nlohmann/json.hpp>
#include <plait/plait.hpp>
#include <string>
#include <vector>

#include "bindings/cli/predictions/fed_samples.hpp"
#include "bindings/cli/predictions/prediction_file.hpp"

namespace plait::cli {

// The values that are named, or what the last layer of each model makes. outputs: those of the
// plan. Errors: CliError (kUsage) with the names that exist.
Values chosen_values(const Json& outputs, const std::vector<std::string>& named,
                     const FedSamples& samples);

// The programs normalise as the dataset that they were planned for. Errors: CliError (kUsage) when
// the dataset to predict is normalised in another way.
void check_normalization(const Experiment& experiment, const std::string& dataset);

}  // namespace plait::cli
