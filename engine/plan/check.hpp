// Faults of an experiment that appear only when it is planned, reported as problems at the key to
// be changed.
#pragma once

#include <vector>

#include "engine/plan/plan.hpp"
#include "engine/plan/trace.hpp"
#include "engine/topology/topology_error.hpp"

namespace plait::plan {

// Where a key "section.name" was set, for problems found while planning.
config::Origin origin_of(const config::Experiment& experiment, const std::string& key);

// Adds the faults of a topology or a batch. Returns false if there are any.
bool add_topology_errors(const config::Experiment& experiment,
                         const std::vector<topology::TopologyError>& errors,
                         config::Problems& problems);

// Reports precision.master = false with a type that weights cannot be kept in alone; then it is
// true.
void check_master(config::Experiment& experiment, config::Problems& problems);
// The same for precision.split_master, which needs copies of bf16.
void check_split_master(config::Experiment& experiment, config::Problems& problems);
// Reports precision.states = "bf16" with f64, which it would round away; then it is "f32".
void check_states(config::Experiment& experiment, config::Problems& problems);
// Reports precision.frozen = "int8" or "nf4" beside products of fp8; then it is "master".
void check_frozen(config::Experiment& experiment, config::Problems& problems);

// Reports precision.products = "fp8" with f64, which it would round away; then products are those
// of f64.
void check_products(config::Experiment& experiment, config::Problems& problems);

// Opens a dataset. Returns null after problems, which are reported at the missing path or at the
// path named in the plugin's text. metadata: as in Dataset.
std::shared_ptr<Dataset> open_dataset(const config::DatasetConfig& config,
                                      const plugin::Registry& registry,
                                      const config::PathResolver& resolver,
                                      config::Problems& problems, bool metadata = false);

// Reports patterns that match no parameter, of groups and of precision.fp8.except, parameters in
// two groups, and models with nothing to train. `tracer`: of the training program.
void check_parameters(const Plan& plan, const Tracer& tracer, config::Problems& problems);

// Warns about weights of experts that an adapter's `match` names beside others, if its method
// changes none of experts. `tracer`: of the training program.
void warn_left_out(const Plan& plan, const Tracer& tracer, Log* log);

// Tells which parameters every tensor rank holds in full because the ranks do not divide their
// units (plait_parameter.shard_unit). Fewer units than ranks are as expected of key heads.
void tell_replicated(const Plan& plan, Log* log);

}  // namespace plait::plan
