// The host's table "plait.datasets/1": datasets made of datasets of other plugins.
#pragma once

#include <plait/dataset.h>

namespace plait::plan {

const plait_datasets_table* datasets_table();

}  // namespace plait::plan
