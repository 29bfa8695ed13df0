// A plan: everything decided before any memory is touched. Made from an experiment and the loaded
// plugins; pure data after that.
//   B samples of a micro-batch, N elements of a flat group
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/log.hpp"
#include "engine/config/experiment.hpp"
#include "engine/data/data_loader.hpp"
#include "engine/plan/dataset.hpp"
#include "engine/plan/precision.hpp"
#include "engine/plan/storage.hpp"
#include "engine/plugin/registry.hpp"
#include "engine/program/graph.hpp"
#include "engine/program/op_registry.hpp"
#include "engine/topology/box.hpp"
#include "engine/topology/grid.hpp"
#include "engine/topology/simulate.hpp"

namespace plait::plan {

using program::BufferRef;

// One logical parameter. Its name identifies it for ever.
struct Parameter {
  std::string name;  // "model.linear1.weight"
  std::string model;
  plait_shape shape{};
  uint32_t init = 0;
  double init_a = 0, init_b = 0;
  int32_t shard_dim = -1;
  bool frozen = false;
  int32_t setting = -1;  // which of its optimizer's groups; -1: the default
  std::vector<int32_t>
      holders;                  // pipeline ranks that have it, ascending; more than one: it is tied
  int32_t chunk = 0;            // first stage of this rank that reads it
  int32_t group = -1;           // index into Plan::groups, -1: frozen
  topology::Box box;            // what this rank has, of the global tensor
  bool sharded = false;         // tensor ranks have a shard each, along `shard_dim`
  int64_t stored_elements = 0;  // elements that it takes: padding behind the box included
  int32_t bucket = 0;           // of the group, that it lies in
  int64_t flat_offset = 0;      // where that begins in its group, in elements
  BufferRef value, gradient;    // without a place where ZeRO leaves no whole one
  BufferRef squares;            // Σ g², where the forward_backward program leaves it
  bool held_by(int32_t pipeline) const {
    return std::find(holders.begin(), holders.end(), pipeline) != holders.end();
  }
};

// An optimizer's state tensor of a group: one flat segment.
struct State {
  std::string name;
  double initial = 0;
  FlatBuffer values;
};

// A run of a group's flat memory whose gradients the replicas reduce in one go, with ZeRO also what
// they share: each updates its own elements. Starts and ends between parameters. In elements, of
// whatever type.
struct Bucket {
  int64_t begin = 0, elements = 0;              // of the group; padding included
  int64_t shard_begin = 0, shard_elements = 0;  // this rank's; all of them without ZeRO
  int64_t state_begin = 0;                      // of the own ones in the state segments
  int32_t gradient_collective = -1;             // collective of its gradients; -1: none
  int32_t chunk = 0;                            // stage of this rank that makes the last of them
};

// Parameters that share an optimizer's settings, laid out one after the other: parameter and
// gradient at the same offsets.
struct ParameterGroup {
  std::string name;      // "model.default", "model.groups[0]"
  bool sharded = false;  // of parameters that the tensor ranks share: a group of its own beside
                         // that of the others
  std::vector<int32_t> tied;  // pipeline ranks that all have these parameters; empty: each its own
  int32_t model = 0;
  double learning_rate = 0, weight_decay = 0;
  const config::ItemConfig* schedule = nullptr;  // of the experiment; nullptr: constant
  int64_t elements = 0;                          // N, padding included
  int64_t shard_elements = 0;                    // whose states are here: the sum over buckets
  std::vector<Bucket> buckets;
  std::string last_layer;  // whose parameter was placed last
  FlatBuffer parameters, gradients;
  std::vector<State> states;
  BufferRef learning_rate_at, schedule_factor_at;  // in Plan::scalars, written before each step
};

// What a model leaves behind each step. Scalars in Plan::results.
struct Model {
  std::string name;
  bool trained = false;
  BufferRef loss_sum, weight_sum;  // sums over the step's micro-batches, and over all replicas
  BufferRef loss, norm, finite;    // after the update program; finite is 1 or 0
  FlatBuffer squares;  // Σ g² of each parameter, where the forward_backward program leaves it
  BufferRef eval_loss_sum, eval_weight_sum;
};

// Which integers of a field an op can take: what is outside of them makes its result not a number.
struct IndexRange {
  int64_t least = 0, end = 0;
  bool labels = false;  // a loss compares them; no value that a model makes depends on them
  std::string reader;   // "model.cross_entropy", whose op it is
  std::string maker;    // "model.linear3", which has `end` rows or classes
};

// A data field that a program reads: (B, sample shape).
struct Field {
  uint32_t index = 0;       // among the dataset's fields without the weight field
  uint32_t feed_index = 0;  // among the fields of the feed of all that is read
  std::string name;
  plait_shape shape{};
  BufferRef buffer;
  uint64_t sample_bytes = 0;
  std::vector<IndexRange> index_ranges = {};  // of the feed of all that is read
};

struct Metric {
  std::string name;
  const plait_metric_item* item = nullptr;
  BufferRef state;  // (n_state) of Precision::scalar, of the last evaluated batch
};

// A value that a host may ask for after an evaluation batch.
struct Output {
  std::string name;
  plait_shape shape{};
  BufferRef buffer;
  int32_t owner = 0;  // pipeline rank that makes it
};

// What the ranks of a group do together at one place of a program.
struct Collective {
  std::string name;  // "gradients of model.default, bucket 2"
  topology::Axis axis = topology::Axis::kData;
  uint32_t kind = 0, reduction = 0, dtype = 0;  // as plait/comm.h
  uint64_t n = 0;                               // elements, as plait/comm.h counts them
  uint32_t peer = 0;                            // place in the group, of the kinds that have one
  uint32_t channel = 0;  // messages of two channels do not wait for each other
  bool slotted = false;  // each slot has a call of its own
};

// One line, equal for equal collectives.
std::string text(const Collective& collective);

// One kernel to run. Operands: inputs, then outputs.
struct KernelCall {
  int32_t op = 0;                             // in graph
  const plait_kernel_item* kernel = nullptr;  // null for a collective
  int32_t collective = -1;                    // index into Plan::collectives
  std::vector<BufferRef> operands;            // segment kTransient: offset in the transient area
  uint64_t workspace_bytes = 0;
  uint64_t workspace = 0;  // offset in the transient area
  std::string detail;      // what the kernel said when it was selected
  std::string refused;     // better kernels, and why they were not taken
  double flops = 0;
};

// The flat list of kernels for one purpose. It may run on any of several slots: copies of the
// segments that have them.
struct Program {
  std::string name;
  int32_t first_slot = 0, slots = 1;  // on which it runs
  int32_t order = 0;                  // among the programs of a micro-batch, over all ranks
  std::unique_ptr<program::Graph> graph;
  std::vector<KernelCall> calls;
  uint64_t transient_bytes = 0;
  double flops = 0;
  bool empty() const { return calls.empty(); }
};

// The inputs of the programs that run one micro-batch of a dataset.
struct Feed {
  int64_t batch = 0;  // B of one rank
  std::vector<Field> fields;
  BufferRef weight;   // (B) of data::kWeightType
  BufferRef counter;  // i64 (2): step, first sample of the micro-batch
};

// One launch of a program.
struct Launch {
  int32_t program = -1;  // index into Plan::programs
  int32_t slot = 0;
  int32_t feed = -1;  // of Plan::train_feeds or eval_feeds: what is written before; -1: nothing
  int64_t micro = 0;  // micro-batch of the step; -1: before all of them, accumulation: after
};

// The pipeline as all ranks see it. S stages; one without a pipeline.
struct Pipeline {
  topology::Schedule schedule;  // no actions without a pipeline
  std::vector<std::vector<int32_t>>
      stage_of;                            // of each model's layers; its losses belong to the last
  std::vector<topology::StageCost> costs;  // (S) operations of a micro-batch
  uint64_t digest = 0;                     // of all messages, and collectives inside of stages
  int32_t stages() const { return schedule.shape.stages(); }
};

struct Plan {
  config::Experiment experiment;
  std::shared_ptr<plugin::Registry> registry;
  std::unique_ptr<program::OpRegistry> ops;
  std::string device;
  config::OptionSet device_options;
  uint32_t threads = 1;
  topology::Grid grid;
  int32_t rank = 0;
  topology::Coordinates at;  // of the rank
  Pipeline pipeline;
  int64_t zero = 0;     // ZeRO stage; 0 where there is one replica
  std::string backend;  // communication backend that was asked for; "auto"
  config::OptionSet comm_options;
  std::vector<std::shared_ptr<Dataset>> datasets;  // as experiment.datasets

  Precision precision;
  Storage storage;
  std::vector<Parameter> parameters;
  std::vector<ParameterGroup> groups;
  std::vector<Model> models;
  std::vector<Metric> metrics;
  std::vector<Output> outputs;
  FlatBuffer scalars;  // what a step is told: learning rates
  FlatBuffer
      results;     // what a step leaves behind: first `step_sums`, then what n_step_sums() counts
  BufferRef step;  // updates made; the update program counts, so that the host need not know
  BufferRef step_sums;  // (2): samples of the step, ranks that want to stop; sums over all replicas
  int32_t step_sums_collective =
      -1;  // which reduces these sums together with loss and weight sums; -1: none
  FlatBuffer
      metric_sums;  // f64: what an evaluation counts; sums over all replicas after `reduce_metrics`

  Feed train_feed, eval_feed;                 // all that is read
  std::vector<Feed> train_feeds, eval_feeds;  // of each stage that is here: what it reads
  int64_t accumulation = 1;
  int64_t total_steps = 0;  // 0: the host decides
  std::deque<Program> programs;
  // What runs in a step, and for a batch of an evaluation, in order.
  std::vector<Launch> step_launches, evaluation_launches;
  int32_t reduce_metrics_program =
      -1;  // program: sums an evaluation over the ranks; -1: there is one rank
  int32_t broadcast_outputs_program =
      -1;  // brings the named values to all pipeline ranks; -1: they are there
  std::vector<Collective> collectives;  // of all programs
  uint64_t transient_bytes = 0;         // the largest of the programs

  const Dataset* dataset(const std::string& name) const;
  const Parameter* parameter(const std::string& name) const;
  // nullptr: there is none.
  const Program* program(const std::string& name) const;
  // Adds it; returns its index.
  int32_t add(Program program);
  // Several programs, or runs of one, add to the sums of a step.
  bool accumulates() const { return accumulation > 1 || grid.pipeline() > 1; }
  // Numbers that ranks add up in one go, from `step_sums` on: those two, and loss and weight sums
  // of what is trained.
  int64_t n_step_sums() const;
  // Of what must agree between runs that share checkpoints: parameters and groups.
  uint64_t hash() const;
};

struct PlanContext {
  std::shared_ptr<plugin::Registry> registry;
  Log* log = nullptr;
  config::PathResolver resolver;
  int32_t rank = 0;
  int32_t world = 1;  // ranks that there are; 0: as many as the topology asks for
};

// Makes the plan. Defects of the experiment that only tracing shows are added to `problems`; null
// when there are any.
std::unique_ptr<Plan> make_plan(const config::Experiment& experiment, const PlanContext& context,
                                config::Problems& problems);

// What this rank reads of a dataset. training: global batches without end, in the experiment's
// order; else batches of an evaluation.
data::DataLoaderConfig loader_config(const Plan& plan, const std::string& dataset, bool training);

// JSON for `plait plan`.
std::string describe(const Plan& plan);

// The pipeline's schedule as SVG, its times in operations. Errors: PLAIT_ERR_STATE without a
// pipeline.
std::string schedule_svg(const Plan& plan);

}  // namespace plait::plan
