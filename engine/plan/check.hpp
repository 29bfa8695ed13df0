// What is wrong with an experiment that only its plan shows: as problems, each at the key that is to be changed.
#pragma once

#include <vector>

#include "engine/plan/plan.hpp"
#include "engine/plan/trace.hpp"
#include "engine/topology/topology_error.hpp"

namespace plait::plan {

// Adds the faults of a topology or a batch. False: there are some.
bool add_topology_errors(const config::Experiment& experiment,
                         const std::vector<topology::TopologyError>& errors,
                         config::Problems& problems);

// Opens a dataset. Null after problems, which stand at the path that leads nowhere or that the plugin's text names.
std::shared_ptr<Dataset> open_dataset(const config::DatasetConfig& config,
                                      const plugin::Registry& registry,
                                      const config::PathResolver& resolver,
                                      config::Problems& problems);

// Patterns that match no parameter, parameters of two groups, models with nothing to train. `tracer`: of the training program.
void check_parameters(const Plan& plan, const Tracer& tracer, config::Problems& problems);

// A failure of planning. Throws it again where it has no place in the file.
void add_failure(const config::Experiment& experiment, const Error& error,
                 config::Problems& problems);

// Keys that have no effect in this topology, or without [data.eval].
void warn_ignored(const config::Experiment& experiment, Log* log);

}  // namespace plait::plan
