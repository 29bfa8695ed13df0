// The tokenizers that made the ids of datasets, as far as these know, beside [tokenizer]: with
// another one an id is another text, and a model trains on nonsense without any error.
#pragma once

#include <memory>
#include <vector>

#include "engine/base/log.hpp"
#include "engine/config/experiment.hpp"
#include "engine/config/problem.hpp"
#include "engine/plan/dataset.hpp"

namespace plait::plan {

// Adds a problem for each dataset with ids of another tokenizer than [tokenizer] or, without one,
// than the ids of the first dataset that knows. Opens [tokenizer] only if a dataset knows; one that
// cannot be opened is not compared, which a line of `log` (or nullptr) says. [blocks: on files]
void check_tokenizers(const config::Experiment& experiment,
                      const std::vector<std::shared_ptr<const Dataset>>& datasets,
                      const std::shared_ptr<const plugin::Registry>& registry, Log* log,
                      config::Problems& problems);

}  // namespace plait::plan
