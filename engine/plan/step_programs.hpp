// Builds the graphs of training and evaluation from the traced models, then binds their outputs to
// memory.
#pragma once

#include <functional>
#include <memory>

#include "engine/plan/plan_draft.hpp"
#include "engine/plan/trace.hpp"
#include "engine/program/split_stages.hpp"
#include "engine/program/with_cache.hpp"

namespace plait::plan {

// The activations that the backward pass recomputes: see TopologyConfig::recompute.
struct RecomputeOptions {
  std::string mode = "none";
  double flops = 0;       // mode "cheap": of products for each element
  size_t n_cheapest = 0;  // mode "budget": number of values, ordered by recomputation cost per byte
  size_t candidates = 0;  // set by write_training(): number of such values
};

// A parameter as an input of the ops of one pipeline stage.
struct ParameterUse {
  const Parameter* parameter = nullptr;
  int32_t stage = 0;
  ValueId value = 0;
  ValueId gradient = 0;  // 0: frozen, or no loss depends on it
};

// Waits for messages that other programs sent.
void wait_pending_sends(program::Graph& g, const std::vector<PendingSend>& pending);

// The sharded graph of this tensor rank, with all stages; no value is bound to memory yet.
struct TracedStep {
  std::unique_ptr<program::Graph> graph;
  std::vector<Tracer::Result> results;
  std::vector<Tracer::MetricState> states;
  std::vector<std::pair<std::string, ValueId>> outputs;
  std::vector<Output> outputs_left_out;
  std::vector<ParameterUse> parameter_uses;
};

// Registers a collective; returns the id by which the ops of the program refer to it.
using AddCollective = std::function<int32_t(Collective)>;

// Forward and backward pass. Does not change `traced`: several programs are written from it.
TracedStep write_training(const Plan& plan, const Tracer& traced, RecomputeOptions& recompute,
                          const AddCollective& add);
TracedStep write_evaluation(const PlanDraft& plan, const Tracer& traced, const AddCollective& add);
// Statistics of the outputs of layers, and of their gradients, in one micro-batch. `observed`: the
// sums and extremes of each tensor of Plan::statistics that is no parameter and no gradient of one,
// in that order.
TracedStep write_observation(const Plan& plan, const Tracer& observed, const AddCollective& add);
// A program of generation, its caches not placed yet. Its one output, if any, is "logits".
TracedStep write_generation(PlanDraft& plan, const Tracer& traced,
                            const program::CacheInputs& inputs, const AddCollective& add);

// The view of one program: the whole step, or the part of one pipeline stage.
struct StageView {
  program::Graph& graph;
  // The value in this graph that stands for the live-out v of `stage`; 0 if another program has it.
  std::function<ValueId(ValueId v, int32_t stage)> live_out;
  // The parameter as an input of this program, or 0.
  std::function<ValueId(const ParameterUse& use)> read;
  int32_t chunk = 0;  // index of the stage among the stages of this rank
  bool last = false;  // the last micro-batch of a step, whose program reduces the gradients
};
// Adds the value of a micro-batch to the sum of the step, or sets it if there is one micro-batch.
// dtype: the type of the sum in `buffer`.
ValueId bind_or_accumulate(program::Graph& g, const Plan& plan, const std::string& name, ValueId v,
                           BufferRef buffer, uint32_t dtype);
// Binds losses and gradients to memory; with ZeRO also the parameters that are read.
void bind_training_outputs(PlanDraft& plan, const TracedStep& written, const StageView& view);
// The same for metric states and named outputs.
void bind_evaluation_outputs(PlanDraft& plan, const TracedStep& written, const StageView& view);
// With ZeRO 3, gathers the parameters that the program reads.
void gather_parameter_uses(PlanDraft& plan, const TracedStep& written, const StageView& view);
// Allocates the results of an evaluation. Once per plan, before bind_evaluation_outputs().
void allocate_evaluation_results(PlanDraft& plan, const TracedStep& written);

// The stage that computes a value; 0 for inputs of the program.
int32_t stage_of(const program::Graph& g, ValueId v);
// The outputs of the program, each with the stage that provides it.
std::vector<program::LiveOut> live_outs_of(const TracedStep& written);

// All-reduces a persistent value in place; does nothing if the axis has one rank. Returns the sum,
// which lies there then.
program::ValueId sum_over(program::Graph& g, PlanDraft& plan, topology::Axis axis,
                          const std::string& name, program::ValueId v);
// Sums Plan::metric_sums over the replicas, and the requests to stop over all ranks. Waits for the
// messages of the evaluation.
std::unique_ptr<program::Graph> write_metric_sums(PlanDraft& plan);
// Sends Plan::outputs to all pipeline ranks.
std::unique_ptr<program::Graph> write_broadcast_outputs(PlanDraft& plan);

// The shape () of norms, losses and factors, in the type of scalars.
plait_shape scalar_of(const Plan& plan);

// A range of a buffer as a vector: n elements from `first` on.
program::ValueId flat(program::Graph& g, const std::string& name, const FlatBuffer& buffer,
                      int64_t first, int64_t n);

}  // namespace plait::plan
