// A plan: everything that is decided before any memory is touched. It is made from an experiment
// and the loaded plugins by a PlanBuilder (plan_builder.hpp), and is immutable data afterwards.
//   B samples of a micro-batch
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/log.hpp"
#include "engine/config/experiment.hpp"
#include "engine/data/data_loader.hpp"
#include "engine/plan/collective.hpp"
#include "engine/plan/dataset.hpp"
#include "engine/plan/entry_point.hpp"
#include "engine/plan/generation.hpp"
#include "engine/plan/normalization.hpp"
#include "engine/plan/parameter.hpp"
#include "engine/plan/precision.hpp"
#include "engine/plan/program.hpp"
#include "engine/plan/statistics.hpp"
#include "engine/plan/storage.hpp"
#include "engine/plugin/registry.hpp"
#include "engine/program/op_registry.hpp"
#include "engine/topology/grid.hpp"
#include "engine/topology/simulate.hpp"

namespace plait::plan {

// Gradients of a model that have a norm, by which they are clipped: all of them; where samples
// choose their adapter, those of one adapter, and those of parameters that belong to none.
struct GradientNorm {
  std::string adapter;  // "": of no adapter, or of all
  FlatBuffer squares;   // Σ g² of each parameter, where the forward_backward program leaves it
  BufferRef norm;       // result of a step
  // Of an adapter whose losses are divided by their own weights: which weights of the model those
  // are. A step in which all of them are 0 has no sample of the adapter, and changes nothing of it.
  std::vector<int64_t> weights;
  BufferRef active;  // result of a step, with `weights`: 1 or 0
  int64_t step = 0;  // in Plan::step: its number of updates
};

// The results of a model for each step: scalars in Plan::results.
struct Model {
  std::string name;
  bool trained = false;
  BufferRef loss_sum, weight_sum;  // sums over the step's micro-batches, and over all replicas
  // Of several different weights that its losses count, of which weight_sum is then the largest:
  // see loss_weights.hpp. Else n_weights is 0.
  int64_t first_weight = 0, n_weights = 0;  // a range of Plan::loss_weights
  BufferRef loss, norm, finite;             // after the update program; finite is 1 or 0
  std::vector<GradientNorm> norms;          // `norm` is the one of all of them
  // Where samples choose their adapter, (2 n_means): of each loss its sum over all samples and the
  // weights that it counts. `loss` is then their mean, while loss_sum is what the step minimises.
  BufferRef mean_sums;
  int64_t n_means = 0;
  BufferRef eval_loss_sum, eval_weight_sum;
  // Its loss is the negative log-likelihood of tokens in nats, so that its exp is a perplexity.
  bool has_perplexity = false;
};

// What the models compute for a sample in a training step: the products of the forward pass, and
// twice that for the backward pass of those that train, once for products with a frozen weight.
// Recomputed values do not count.
struct ModelFlops {
  double masked = 0;  // of attention the pairs that its mask lets through
  double full = 0;    // all pairs
};

// A layer as it was traced for one replica, before sharding.
struct Layer {
  std::string name;  // "model.h.0"
  std::string type;
  plait_shape output{};  // the first one, of a micro-batch
  double flops = 0;      // of its products in a forward pass
};

// A metric, or one of several losses: "loss.NAME", whose value is its sum divided by the weights of
// its model, or by its own where the losses of the model count different ones. Where samples choose
// their adapter, each is there for the samples of each adapter, too: "accuracy.ADAPTER",
// "loss.ADAPTER", of several losses "loss.NAME.ADAPTER".
struct Metric {
  std::string name;
  const plait_metric_item* item = nullptr;  // null: a loss
  size_t model = 0;
  BufferRef state;           // (n_state) of Precision::scalar
  bool has_weights = false;  // of a loss: its state is its sum, and the weights that it counts
  double factor = 1;         // of a loss: `weight` in the file
  std::string adapter = {};  // of whose samples; "": of all
  int64_t n_state() const { return item ? item->n_state : has_weights ? 2 : 1; }
};

// A value that a host may ask for after an evaluation batch.
struct Output {
  std::string name;
  plait_shape shape{};
  BufferRef buffer;
  int32_t owner = 0;  // pipeline rank that computes it
};

// What programs of adapters do to parameters: see adapter_programs.hpp.
struct AdapterPrograms {
  struct Merge {
    std::string model, adapter;   // ""s: all adapters of all models
    std::string entry_point;      // without launches where this rank has nothing to merge
    std::string refused = {};     // why they cannot be merged; "": they can
    std::vector<size_t> changed;  // parameters of models that merging changes
  };
  std::vector<Merge> merges;
  struct Start {
    std::string model, adapter;
    std::string entry_point;  // none of this name where this rank has nothing of the adapter
  };
  std::vector<Start> starts;  // of adapters with initial values that depend on weights
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

// May be copied: copies share datasets and the graphs of programs, which are constant.
struct Plan {
  config::Experiment experiment;
  std::shared_ptr<plugin::Registry> registry;
  std::shared_ptr<const program::OpRegistry> ops;
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
  std::vector<std::shared_ptr<const Dataset>> datasets;  // as experiment.datasets

  Precision precision;
  Storage storage;
  std::vector<Normalization> normalizations;  // of fields by columns; others are constants
  std::vector<Parameter> parameters;
  std::vector<ParameterGroup> groups;
  // With ZeRO 3, the flat memory of frozen parameters, of which each replica holds a shard: one for
  // each model and type. Only name, sharding and parameters of a group mean something here.
  std::vector<ParameterGroup> frozen_groups;
  std::vector<Model> models;
  std::vector<Layer> layers;          // of all models, for reports
  std::vector<Metric> metrics;        // their states are those of the last evaluated batch
  std::vector<Metric> train_metrics;  // in Plan::results, summed as losses are
  std::vector<Output> outputs;
  std::vector<Output> outputs_left_out;  // evaluate.outputs: no memory
  FlatBuffer scalars;                    // inputs of a step: learning rates
  FlatBuffer results;  // results of a step: first `step_sums`, then the others of n_step_sums()
  FlatBuffer step;     // f64: number of updates so far, exact up to 2^53; counted by the update
                       // program. Behind it those of adapters, see GradientNorm
  FlatBuffer loss_weights;  // see loss_weights.hpp; exists only where losses of a model count
                            // different weights
  FlatBuffer scaler;        // see loss_scale.hpp; exists only where losses are scaled
  BufferRef scaler_after;   // in `results`: the same behind the step
  double loss_rows = 1;     // a power of two near the number of losses that a step adds up
  // (kStepSums): samples of the step, ranks that want to stop, ranks for which it is time to save;
  // sums over all replicas.
  BufferRef step_sums;
  static constexpr int64_t kStepSums = 3;
  // Behind them, of each rank: the seconds that it computed in the step before, or 0. 0: they are
  // not told.
  int64_t busy_ranks = 0;
  int64_t n_counts() const { return kStepSums + busy_ranks; }
  FlatBuffer metric_sums;  // f64: sums of an evaluation; over all replicas after `reduce_metrics`

  Statistics statistics;
  Generation generation;
  AdapterPrograms adapters;

  ModelFlops flops_per_sample;
  int64_t tokens_per_sample = 0;  // of the longest input that is looked up in a table; 0: none
  int64_t accumulation = 1;
  int64_t total_steps = 0;      // 0: the host decides
  int64_t steps_per_epoch = 0;  // 0: there is no [data.train]
  std::deque<Program> programs;
  std::vector<EntryPoint> entry_points;
  std::vector<Collective> collectives;  // of all programs
  uint64_t transient_bytes = 0;         // the largest of the programs
  // What the log was told while it was made, from run.log_level on: a run's log file begins so.
  std::vector<LogLine> log_lines;

  // By name; nullptr: there is none.
  const Dataset* dataset(const std::string& name) const;
  const Parameter* parameter(const std::string& name) const;
  const Program* program(const std::string& name) const;
  const EntryPoint* find_entry_point(std::string_view name) const;
  // One that every plan has that can train; an empty one in a plan that only generates.
  const EntryPoint& entry_point(std::string_view name) const;
  // Several programs, or several launches of one, add to the sums of a step.
  bool accumulates() const { return accumulation > 1 || grid.pipeline() > 1; }
  // Number of elements, from `step_sums` on, that ranks sum in one collective: n_counts(), the
  // loss sums of trained models, their weight sums unless they are known before (loss_weights.hpp),
  // their mean_sums, and the states of their metrics.
  int64_t n_step_sums() const;
  // A hash of the parameters and groups, which must agree between runs that share checkpoints.
  uint64_t hash() const;
};

// The batches of a dataset that this rank reads. training: global batches without end, in the order
// that the experiment sets; otherwise the batches of an evaluation.
data::DataLoaderConfig loader_config(const Plan& plan, const std::string& dataset, bool training);

}  // namespace plait::plan
