// A plan while it is made. Functions that take a PlanDraft add to it; those that take a Plan read.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/log.hpp"
#include "engine/plan/plan.hpp"

namespace plait::plan {

class Tracer;

// A message that a program sent without waiting for it; a later program waits.
struct PendingSend {
  int32_t collective = -1;
  int32_t slots = 1;
  plait_shape shape{};
  BufferRef buffer;
};

// The models as they train and as they are evaluated, in the stages that the plan has chosen.
// Programs are written from copies of their graphs.
struct TracedModels {
  std::shared_ptr<const Tracer> train, evaluate;
  std::shared_ptr<const Tracer> prefill = {}, decode = {};  // null in a plan that generates nothing
  std::shared_ptr<const Tracer> observed = {};  // null without statistics of activations
};

// A parameter that a PEFT method has requested.
struct MethodParameter {
  std::string entry;             // key_of() of its adapter (trace.hpp)
  std::string target;            // for which it was requested first
  std::string own_name;          // "a"
  uint32_t optimizer_scope = 0;  // PLAIT_SCOPE_* of its optimizer's rule
  int64_t n_scores = 0;          // that its method gives of each target; 0: none
};

// Copies share nothing that changes, so a copy taken before an attempt undoes it.
struct PlanDraft : Plan {
  // All fields that training and evaluation read. In a pipeline each stage has inputs of its own;
  // these then are templates without memory.
  Feed train_feed, evaluation_feed;
  // Fields of a model that generates; templates without memory: the host writes
  // GenerationInputs.
  GenerationFields generation_fields;
  Feed prefill_feed, decode_feed;
  int32_t normalization_segment = -1;  // of `normalizations`; -1: there are none
  // Reduces the sums of a step together with loss and weight sums; -1: none.
  int32_t step_sums_collective = -1;
  // How many targets an adapter has that adds terms to the loss, by key_of() (trace.hpp); known
  // when it was traced once.
  std::map<std::string, uint32_t> targets_of_adapter;
  std::map<std::string, MethodParameter> of_methods;  // by name
  // Messages of a batch of an evaluation that its programs do not wait for.
  std::vector<PendingSend> evaluation_sends;

  // Adds it; returns its index.
  int32_t add(Program program);
  int32_t add(Collective collective);
};

// What the programs of an entry point are written from: a draft whose parameters are laid out.
struct EntryPointSource {
  PlanDraft& plan;
  const TracedModels& traced;
  Log* log = nullptr;  // for warnings; may be null
};
// Adds the programs of an entry point to the draft, and returns the entry point.
using WriteEntryPoint = std::function<EntryPoint(const EntryPointSource& from)>;

}  // namespace plait::plan
