// What datasets of one experiment say of their numbers and samples, compared: a number must stand
// for the same in all of them, and no sample may be in two parts of one dataset.
#pragma once

#include <memory>
#include <vector>

#include "engine/config/experiment.hpp"
#include "engine/config/problem.hpp"
#include "engine/plan/dataset.hpp"

namespace plait::plan {

// Adds a problem for each dataset whose classes or categories contradict what [data.train] has, or
// of the first dataset, in a field that both have; and for each part that was divided otherwise
// than another part of the same samples. Datasets without such texts are not compared.
void check_texts(const config::Experiment& experiment,
                 const std::vector<std::shared_ptr<const Dataset>>& datasets,
                 config::Problems& problems);

}  // namespace plait::plan
