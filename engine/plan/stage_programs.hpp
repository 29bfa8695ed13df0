// The programs of a pipeline rank: the stage programs of its stages for training and evaluation,
// with messages at the boundaries.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/plan/plan_draft.hpp"
#include "engine/plan/step_programs.hpp"
#include "engine/program/split_stages.hpp"

namespace plait::plan {

// One stage of this rank, of the training or the evaluation program. Borrows all arguments.
class StageProgramBuilder {
 public:
  // inputs: all inputs of the whole program. slots: micro-batches that may be in flight.
  // collectives: ids under which the whole program knows its collectives, see local_id().
  StageProgramBuilder(PlanDraft& plan, const TracedStep& whole,
                      const program::StagePartition& partition,
                      const std::vector<Collective>& collectives, const Feed& inputs, int32_t chunk,
                      int32_t slots);

  // Writes the stage program without its live-outs. Then bind the outputs, then call finish().
  void begin(program::Phase phase);
  StageView view(bool last);
  std::unique_ptr<program::Graph> finish();

  const Feed& feed() const { return feed_; }
  std::vector<PendingSend> pending() const;

  // The ids of collectives in the whole program; each stage program replaces them by new ones.
  static int32_t local_id(size_t index) { return kLocal + static_cast<int32_t>(index); }

 private:
  static constexpr int32_t kLocal = 1 << 30;
  program::ValueId import_value(program::Graph& to, program::ValueId v);
  BufferRef saved_buffer(program::ValueId storage);
  BufferRef stage_buffer(BufferRef at);
  int32_t message(program::ValueId storage, bool send);
  void number_collectives();

  PlanDraft& plan_;
  const TracedStep& whole_;
  const program::StagePartition& partition_;
  const std::vector<Collective>& collectives_;
  const Feed& inputs_;
  const int32_t stage_, chunk_, slots_;
  int32_t saved_segment_ = -1, inputs_segment_ = -1;
  std::map<program::ValueId, BufferRef> saved_buffers_;
  std::map<std::pair<program::ValueId, bool>, int32_t>
      messages_;  // by root, and whether it is sent
  Feed feed_;
  // State of the program being written.
  program::StageProgram current_;
  std::unique_ptr<program::Graph> graph_;
  std::map<program::ValueId, program::ValueId> made_;      // from values of the whole program
  std::map<program::ValueId, program::ValueId> received_;  // by root
};

// Writes the programs of a step, without the first and the last (zero_grad, update), and adds their
// launches and feeds to its entry point. Returns the bytes of values inside and between the
// programs.
uint64_t write_training_stages(PlanDraft& plan, const TracedStep& whole,
                               const std::vector<Collective>& collectives, EntryPoint& entry,
                               std::vector<PendingSend>& pending);
// The same for a batch of an evaluation.
void write_evaluation_stages(PlanDraft& plan, const TracedStep& whole,
                             const std::vector<Collective>& collectives, EntryPoint& entry,
                             std::vector<PendingSend>& pending);

}  // namespace plait::plan
