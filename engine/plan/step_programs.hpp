// The programs of a micro-batch and of an evaluation, written from what a tracer found: first as a
// whole, then what each leaves behind.
#pragma once

#include <functional>
#include <memory>

#include "engine/plan/plan.hpp"
#include "engine/plan/trace.hpp"
#include "engine/program/split_stages.hpp"

namespace plait::plan {

// What a program makes again in its backward pass: see TopologyConfig::recompute.
struct RecomputeOptions {
  std::string mode = "none";
  size_t n_cheapest =
      0;  // of mode "budget": how many values, those first that cost the least for their size
  size_t candidates = 0;  // set by write_training(): how many there are
};

// A parameter as the ops of one stage of the pipeline read it.
struct ParameterUse {
  Parameter* parameter = nullptr;
  int32_t stage = 0;
  ValueId value = 0;
  ValueId gradient = 0;  // 0: frozen, or no loss depends on it
};

// A message that a program sent and nobody waited for so far: whoever ends the step does.
struct PendingSend {
  int32_t collective = -1;
  int32_t slots = 1;
  plait_shape shape{};
  BufferRef buffer;
};
void wait_pending_sends(program::Graph& g, const std::vector<PendingSend>& pending);

// A traced program as this tensor rank computes it, of all stages; nothing has a place yet.
struct TracedStep {
  std::unique_ptr<program::Graph> graph;
  std::vector<Tracer::Result> results;
  std::vector<Tracer::MetricState> states;
  std::vector<std::pair<std::string, ValueId>> outputs;
  std::vector<ParameterUse> parameter_uses;
};

// Makes a collective known; returns the id that the program's ops know it by.
using AddCollective = std::function<int32_t(Collective)>;

// Forward and backward pass. `traced` is left as it is: several programs are written from it.
TracedStep write_training(Plan& plan, const Tracer& traced, RecomputeOptions& recompute,
                          const AddCollective& add);
TracedStep write_evaluation(Plan& plan, const Tracer& traced, const AddCollective& add);

// One program made of what was written: all of it, or the program of one stage.
struct StageView {
  program::Graph& graph;
  // What is to be delivered, if this program does that; `stage` wants it. Else 0.
  std::function<ValueId(ValueId v, int32_t stage)> live_out;
  // What the program reads of a parameter, or 0.
  std::function<ValueId(const ParameterUse& use)> read;
  int32_t chunk = 0;  // of the stage, among the chunks of this rank
  bool last = false;  // of a step's micro-batches: what replicas share leaves from here on
};
// Sets where losses and gradients go; with ZeRO where parameters come from.
void bind_training_outputs(Plan& plan, const TracedStep& written, const StageView& view);
// The same for figures and named values.
void bind_evaluation_outputs(Plan& plan, const TracedStep& written, const StageView& view);
// Gives what an evaluation makes its places. Once for a plan, before bind_evaluation_outputs().
void allocate_evaluation_results(Plan& plan, const TracedStep& written);

// The stage that makes a value; 0 for what comes from outside.
int32_t stage_of(const program::Graph& g, ValueId v);
// What was written, with who wants it.
std::vector<program::LiveOut> live_outs_of(const TracedStep& written);

// All-reduces what lies there; nothing where the axis has one rank. For persistent values.
void sum_over(program::Graph& g, Plan& plan, topology::Axis axis, const std::string& name,
              program::ValueId v);
// Sums Plan::metric_sums over the replicas, and the wish to stop over all ranks.
std::unique_ptr<program::Graph> write_reduce_metrics(Plan& plan,
                                                     const std::vector<PendingSend>& pending);
// Brings Plan::outputs to all pipeline ranks.
std::unique_ptr<program::Graph> write_broadcast_outputs(Plan& plan);

// A run of a buffer as one vector: n elements from `first` on.
program::ValueId flat(program::Graph& g, const std::string& name, const FlatBuffer& buffer,
                      int64_t first, int64_t n);

}  // namespace plait::plan
