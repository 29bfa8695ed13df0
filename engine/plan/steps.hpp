// The programs of a micro-batch and of an evaluation, written from what a tracer found: first as a whole, then what each leaves
// behind.
#pragma once

#include <functional>
#include <memory>

#include "engine/plan/plan.hpp"
#include "engine/plan/trace.hpp"
#include "engine/program/cut.hpp"

namespace plait::plan {

// What a program makes again in its backward pass: see TopologyConfig::recompute.
struct Recompute {
  std::string mode = "none";
  size_t cheapest =
      0;  // of mode "budget": how many values, those first that cost the least for their size
  size_t candidates = 0;  // set by write_training(): how many there are
};

// A parameter as the ops of one stage of the pipeline read it.
struct Leaf {
  Parameter* parameter = nullptr;
  int32_t stage = 0;
  ValueId value = 0;
  ValueId gradient = 0;  // 0: frozen, or no loss depends on it
};

// A message that a program sent and nobody waited for so far: whoever ends the step does.
struct Pending {
  int32_t exchange = -1;
  int32_t slots = 1;
  plait_shape shape{};
  Place place;
};
void wait_for_pending(program::Graph& g, const std::vector<Pending>& pending);

// A traced program as this tensor rank computes it, of all stages; nothing has a place yet.
struct Written {
  std::unique_ptr<program::Graph> graph;
  std::vector<Tracer::Result> results;
  std::vector<Tracer::MetricState> states;
  std::vector<std::pair<std::string, ValueId>> outputs;
  std::vector<Leaf> leaves;
};

// Makes an exchange known; returns the id that the program's ops know it by.
using AddExchange = std::function<int32_t(Exchange)>;

// Forward and backward pass.
Written write_training(Plan& plan, Tracer& traced, Recompute& recompute, const AddExchange& add);
Written write_evaluation(Plan& plan, Tracer& traced, const AddExchange& add);

// One program made of what was written: all of it, or the piece of one stage.
struct Here {
  program::Graph& graph;
  // What is to be delivered, if this program does that; `stage` wants it. Else 0.
  std::function<ValueId(ValueId v, int32_t stage)> delivered;
  // What the program reads of a leaf, or 0.
  std::function<ValueId(const Leaf& leaf)> read;
  int32_t chunk = 0;  // of the stage, among those of this rank
  bool last = false;  // of a step's micro-batches: what replicas share leaves from here on
};
// Sets where losses and gradients go; with ZeRO where parameters come from.
void deliver_training(Plan& plan, const Written& written, const Here& here);
// The same for figures and named values.
void deliver_evaluation(Plan& plan, const Written& written, const Here& here);
// Gives what an evaluation makes its places. Once for a plan, before deliver_evaluation().
void place_evaluation(Plan& plan, const Written& written);

// The stage that makes a value; 0 for what comes from outside.
int32_t stage_of(const program::Graph& g, ValueId v);
// What was written, with who wants it.
std::vector<program::Delivery> deliveries_of(const Written& written);

// All-reduces what lies there; nothing where the axis has one rank. For persistent values.
void sum_over(program::Graph& g, Plan& plan, topology::Axis axis, const std::string& name,
              program::ValueId v);
// Sums Plan::totals over the replicas, and the wish to stop over all ranks.
std::unique_ptr<program::Graph> write_total(Plan& plan, const std::vector<Pending>& pending);
// Brings Plan::outputs to all pipeline ranks.
std::unique_ptr<program::Graph> write_outputs(Plan& plan);

// A run of a segment as one vector: n elements of f32 from `first` on.
program::ValueId flat(program::Graph& g, const std::string& name, int32_t segment, int64_t first,
                      int64_t n);

}  // namespace plait::plan
