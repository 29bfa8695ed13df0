// A plan: everything that is decided before any memory is touched. It is made from an experiment
// and the loaded plugins and is pure data afterwards.
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

// An optimizer's state of one parameter, which it updates as a whole (PLAIT_SCOPE_TENSOR).
struct TensorState {
  std::string name;
  double initial = 0;
  plait_shape shape{};     // global
  int32_t shard_dim = -1;  // each tensor rank holds a shard along this dimension; -1: replicated
  BufferRef at;            // unset on ranks that do not update the parameter
};

// One logical parameter, identified by its name in all plans and checkpoints.
struct Parameter {
  std::string name;  // "model.linear1.weight"
  std::string model;
  plait_shape shape{};
  uint32_t init = 0;
  double init_a = 0, init_b = 0;
  int32_t shard_dim = -1;
  bool frozen = false;
  uint32_t flags = 0;    // PLAIT_PARAMETER_*
  uint32_t scope = 0;    // PLAIT_SCOPE_* of its optimizer's rule
  int32_t setting = -1;  // index of the group in its optimizer; -1: the default
  std::vector<int32_t>
      holders;                  // pipeline ranks that hold it, ascending; more than one: it is tied
  int32_t chunk = 0;            // first stage of this rank that reads it
  int32_t group = -1;           // index into Plan::groups, -1: frozen
  topology::Box box;            // the block of the global tensor on this rank
  bool sharded = false;         // each tensor rank holds a shard along `shard_dim`
  int64_t stored_elements = 0;  // elements in memory, including padding behind the box
  int32_t bucket = 0;           // its bucket in the group
  int64_t flat_offset = 0;      // of its first element in the group, in elements
  BufferRef value, gradient;    // unset if ZeRO leaves no full tensor on this rank
  BufferRef squares;            // Σ g², where the forward_backward program leaves it
  std::vector<TensorState> states;  // of PLAIT_SCOPE_TENSOR; else its group has them
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

// A range of a group's flat memory whose gradients the replicas reduce in one collective. With ZeRO
// it is also the unit of sharding: each replica updates its own shard. Starts and ends between
// parameters. All figures count elements.
struct Bucket {
  int64_t begin = 0, elements = 0;              // of the group; padding included
  int64_t shard_begin = 0, shard_elements = 0;  // this rank's shard; the whole bucket without ZeRO
  int64_t state_begin = 0;                      // of this rank's shard, in the state segments
  int32_t gradient_collective = -1;             // collective of its gradients; -1: none
  int32_t chunk = 0;                            // stage of this rank with the last gradient
  // The replica that updates the bucket's one parameter as a whole: its shard is the bucket, those
  // of the others are empty. -1: the bucket is sharded evenly, or ZeRO is off.
  int32_t owner = -1;
};

// Parameters with the same optimizer settings, one after another; parameters and gradients have the
// same offsets.
struct ParameterGroup {
  std::string name;           // "model.default", "model.groups[0]"
  bool sharded = false;       // its parameters are sharded over the tensor ranks; the others of the
                              // same settings form a second group
  uint32_t scope = 0;         // PLAIT_SCOPE_* of all its parameters
  std::vector<int32_t> tied;  // pipeline ranks that all hold these parameters; empty: not tied
  int32_t model = 0;
  double learning_rate = 0, weight_decay = 0;
  const config::ItemConfig* schedule = nullptr;  // of the experiment; nullptr: constant
  int64_t elements = 0;                          // N, padding included
  int64_t shard_elements = 0;                    // with states on this rank: the sum over buckets
  std::vector<Bucket> buckets;
  std::string last_layer;  // layer of the parameter that was placed last
  FlatBuffer parameters, gradients;
  std::vector<State> states;
  BufferRef learning_rate_at, schedule_factor_at;  // in Plan::scalars, written before each step
};

// The results of a model for each step: scalars in Plan::results.
struct Model {
  std::string name;
  bool trained = false;
  BufferRef loss_sum, weight_sum;  // sums over the step's micro-batches, and over all replicas
  BufferRef loss, norm, finite;    // after the update program; finite is 1 or 0
  FlatBuffer squares;  // Σ g² of each parameter, where the forward_backward program leaves it
  BufferRef eval_loss_sum, eval_weight_sum;
};

// The integers [least, end) of a field that an op accepts: others make its result NaN.
struct IndexRange {
  int64_t least = 0, end = 0;
  bool labels = false;  // targets of a loss; no output of a model depends on them
  std::string reader;   // scope of the op: "model.cross_entropy"
  std::string maker;    // layer with `end` rows or classes: "model.linear3"
};

// A data field that a program reads: (B, sample shape).
struct Field {
  uint32_t index = 0;       // among the dataset's fields without the weight field
  uint32_t feed_index = 0;  // among the fields of Plan::train_feed or eval_feed
  std::string name;
  plait_shape shape{};
  BufferRef buffer;
  uint64_t sample_bytes = 0;
  std::vector<IndexRange> index_ranges = {};  // only in Plan::train_feed and eval_feed
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
  int32_t owner = 0;  // pipeline rank that computes it
};

// One collective, or one message between two ranks, at one point of a program.
struct Collective {
  std::string name;  // "gradients of model.default, bucket 2"
  topology::Axis axis = topology::Axis::kData;
  uint32_t kind = 0, reduction = 0, dtype = 0;  // as plait/comm.h
  uint64_t n = 0;                               // elements, as plait/comm.h counts them
  uint32_t peer = 0;                            // position in the group, for kinds that have one
  uint32_t channel = 0;      // messages of two channels do not wait for each other
  bool slotted = false;      // each slot has a call of its own
  bool own_replica = false;  // for what one replica updates; others have other collectives here
  bool operator==(const Collective&) const = default;
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
  std::string detail;      // text of the kernel's select()
  std::string refused;     // kernels of higher priority, and why they refused
  double flops = 0;
};

// The flat list of kernel calls for one purpose. It may run on any of several slots: the copies of
// segments with several slots.
struct Program {
  std::string name;
  int32_t first_slot = 0, slots = 1;  // the slots on which it runs
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
  int32_t feed = -1;  // of train_feeds or eval_feeds, written before the launch; -1: nothing
  int64_t micro = 0;  // micro-batch of the step; -1: before the first, accumulation: after the last
  bool operator==(const Launch&) const = default;
};

// The pipeline, equal on all ranks. S stages; S = 1 without a pipeline.
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
  int64_t zero = 0;     // ZeRO stage; 0 if there is one replica
  std::string backend;  // requested communication backend; "auto"
  config::OptionSet comm_options;
  std::vector<std::shared_ptr<Dataset>> datasets;  // as experiment.datasets

  Precision precision;
  Storage storage;
  std::vector<Parameter> parameters;
  std::vector<ParameterGroup> groups;
  std::vector<Model> models;
  std::vector<Metric> metrics;
  std::vector<Output> outputs;
  FlatBuffer scalars;   // inputs of a step: learning rates
  FlatBuffer results;   // results of a step: first `step_sums`, then the others of n_step_sums()
  BufferRef step;       // number of updates so far; counted by the update program
  BufferRef step_sums;  // (2): samples of the step, ranks that want to stop; sums over all replicas
  int32_t step_sums_collective =
      -1;                  // reduces these sums together with loss and weight sums; -1: none
  FlatBuffer metric_sums;  // f64: sums of an evaluation; over all replicas after `reduce_metrics`

  Feed train_feed, eval_feed;                 // all fields that are read
  std::vector<Feed> train_feeds, eval_feeds;  // by stage of this rank: the fields it reads
  int64_t accumulation = 1;
  int64_t total_steps = 0;  // 0: the host decides
  std::deque<Program> programs;
  // The launches of a step, and of a batch of an evaluation, in order.
  std::vector<Launch> step_launches, evaluation_launches;
  int32_t reduce_metrics_program = -1;  // sums the metric states over the ranks; -1: single rank
  int32_t broadcast_outputs_program =
      -1;                               // sends named values to all pipeline ranks; -1: no pipeline
  std::vector<Collective> collectives;  // of all programs
  uint64_t transient_bytes = 0;         // the largest of the programs

  const Dataset* dataset(const std::string& name) const;
  const Parameter* parameter(const std::string& name) const;
  // nullptr: there is none.
  const Program* program(const std::string& name) const;
  // Adds it; returns its index.
  int32_t add(Program program);
  // Several programs, or several launches of one, add to the sums of a step.
  bool accumulates() const { return accumulation > 1 || grid.pipeline() > 1; }
  // Number of elements, from `step_sums` on, that ranks sum in one collective: those two, and the
  // loss and weight sums of trained models.
  int64_t n_step_sums() const;
  // A hash of the parameters and groups, which must agree between runs that share checkpoints.
  uint64_t hash() const;
};

struct PlanContext {
  std::shared_ptr<plugin::Registry> registry;
  Log* log = nullptr;
  config::PathResolver resolver;
  int32_t rank = 0;
  int32_t world = 1;  // number of ranks; 0: as many as [topology] asks for
  // The plan of another rank of the same experiment, whose datasets and device are used again;
  // null: they are opened and chosen.
  const Plan* sibling = nullptr;
};

// Makes the plan. Adds faults of the experiment that only tracing shows to `problems`; returns null
// if there are any.
std::unique_ptr<Plan> make_plan(const config::Experiment& experiment, const PlanContext& context,
                                config::Problems& problems);

// The batches of a dataset that this rank reads. training: global batches without end, in the order
// that the experiment sets; otherwise the batches of an evaluation.
data::DataLoaderConfig loader_config(const Plan& plan, const std::string& dataset, bool training);

}  // namespace plait::plan
