// A plan: everything decided before any memory is touched. Made from an experiment and the loaded plugins; pure data after that.
//   B samples of a micro-batch, N elements of a flat group
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/log.hpp"
#include "engine/config/experiment.hpp"
#include "engine/plan/dataset.hpp"
#include "engine/plan/storage.hpp"
#include "engine/plugin/registry.hpp"
#include "engine/program/graph.hpp"
#include "engine/program/rules.hpp"

namespace plait::plan {

using program::Place;

// One logical parameter. Its name identifies it for ever.
struct Parameter {
  std::string name;  // "model.linear1.weight"
  std::string model;
  plait_shape shape{};
  uint32_t init = 0;
  double init_a = 0, init_b = 0;
  int32_t partition = -1;
  int32_t group = -1;  // index into Plan::groups, -1: frozen
  Place value, gradient;
};

// An optimizer's state tensor of a group: one flat segment of N f32.
struct State {
  std::string name;
  double initial = 0;
  int32_t segment = -1;
};

// Parameters that share an optimizer's settings, laid out one after the other: parameter and gradient at the same offsets.
struct Group {
  std::string name;  // "model.default", "model.groups[0]"
  int32_t model = 0;
  double rate = 0, decay = 0;
  const config::ItemConfig* schedule = nullptr;  // of the experiment; nullptr: constant
  int64_t elements = 0;                          // N, padding included
  int32_t parameters = -1, gradients = -1;       // segments
  std::vector<State> states;
  Place rate_at, factor_at;  // scalars f32, written before each step
};

// What a model leaves behind each step. Scalars, f32.
struct Model {
  std::string name;
  bool trained = false;
  Place loss_sum, weight_sum;  // sums over the step's micro-batches
  Place loss, norm, finite;    // after the update program; finite is 1 or 0
  int32_t squares = -1;  // segment: Σ g² of each parameter, where the micro program leaves it
  Place eval_loss_sum, eval_weight_sum;
};

// A data field that a program reads: (B, sample shape).
struct Field {
  uint32_t index = 0;  // among the dataset's fields without the weight field
  std::string name;
  plait_shape shape{};
  Place place;
  uint64_t sample_bytes = 0;
};

struct Metric {
  std::string name;
  const plait_metric_item* item = nullptr;
  Place state;  // (n_state) f32 of the last evaluated batch
};

// A value that a host may ask for after an evaluation batch.
struct Named {
  std::string name;
  plait_shape shape{};
  Place place;
};

// One kernel to run. Operands: inputs, then outputs.
struct Call {
  int32_t op = 0;  // in graph
  const plait_kernel_item* kernel = nullptr;
  std::vector<Place> operands;  // segment kTransient: offset in the transient area
  uint64_t workspace_bytes = 0;
  uint64_t workspace = 0;  // offset in the transient area
  std::string detail;      // what the kernel said when it was selected
  std::string refused;     // better kernels, and why they were not taken
  double flops = 0;
};

// The flat list of kernels for one purpose.
struct Program {
  std::string name;
  std::unique_ptr<program::Graph> graph;
  std::vector<Call> calls;
  uint64_t transient_bytes = 0;
  double flops = 0;
  bool empty() const { return calls.empty(); }
};

// The inputs of the programs that run one micro-batch of a dataset.
struct Feed {
  int64_t batch = 0;  // B
  std::vector<Field> fields;
  Place weight;  // (B) f32
};

struct Plan {
  config::Experiment experiment;
  std::shared_ptr<plugin::Registry> registry;
  std::unique_ptr<program::RuleBook> rules;
  std::string device;
  config::OptionSet device_options;
  uint32_t threads = 1;
  std::vector<std::shared_ptr<Dataset>> datasets;  // as experiment.datasets

  Storage storage;
  std::vector<Parameter> parameters;
  std::vector<Group> groups;
  std::vector<Model> models;
  std::vector<Metric> metrics;
  std::vector<Named> outputs;
  Place counter;  // i64 (2): step, first sample of the micro-batch
  Place step;     // f32: updates made, counting this one

  Feed train_feed, eval_feed;
  int64_t accumulation = 1;
  int64_t total_steps = 0;                 // 0: the host decides
  Program begin, micro, update, evaluate;  // begin: empty unless accumulation > 1
  uint64_t transient_bytes = 0;            // the largest of the programs

  const Dataset* dataset(const std::string& name) const;
  const Parameter* parameter(const std::string& name) const;
  uint64_t hash()
      const;  // of what must agree between runs that share checkpoints: parameters and groups
};

struct Context {
  std::shared_ptr<plugin::Registry> registry;
  Log* log = nullptr;
  config::PathResolver resolver;
};

// Makes the plan. Defects of the experiment that only tracing shows are added to `problems`; null when there are any.
std::unique_ptr<Plan> make_plan(const config::Experiment& experiment, const Context& context,
                                config::Problems& problems);

// JSON for `plait plan`.
std::string describe(const Plan& plan);

}  // namespace plait::plan
