// A dataset that is to train has samples.
#pragma once

#include "engine/data/data_loader.hpp"

namespace plait::data {

// n: samples that there are. Errors: PLAIT_ERR_DATA for none, naming the plugin and [data.NAME].
void require_samples(const DatasetSource& source, int64_t n);

}  // namespace plait::data
