// The programs of a pipeline rank: its stages' stage programs of the training and of the evaluation program, with messages at the cuts.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/plan/plan.hpp"
#include "engine/plan/step_programs.hpp"
#include "engine/program/split_stages.hpp"

namespace plait::plan {

// One stage of this rank, of the training or of the evaluation program. Borrows all it is given.
class StageProgramBuilder {
 public:
  // inputs: all that the whole program is fed. slots: micro-batches that may be under way. collectives: those that the whole program knows its own by, see local_id().
  StageProgramBuilder(Plan& plan, const TracedStep& whole, const program::StagePartition& partition,
                      const std::vector<Collective>& collectives, const Feed& inputs, int32_t chunk,
                      int32_t slots);

  // The stage program's program, without what it delivers. Then bind the outputs, then finish().
  void begin(program::Phase phase);
  StageView view(bool last);
  std::unique_ptr<program::Graph> finish();

  const Feed& feed() const { return feed_; }
  std::vector<PendingSend> pending() const;

  // In the whole program collectives have ids of their own; each stage program makes new ones of them.
  static int32_t local_id(size_t index) { return kLocal + static_cast<int32_t>(index); }

 private:
  static constexpr int32_t kLocal = 1 << 30;
  struct Message {
    int32_t collective = -1;
    plait_shape shape{};
  };
  program::ValueId import_value(program::Graph& to, program::ValueId v);
  BufferRef saved_buffer(program::ValueId storage);
  BufferRef stage_buffer(BufferRef at);
  int32_t message(program::ValueId storage, bool send);
  void number_collectives();

  Plan& plan_;
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
  // Of the program that is being written.
  program::StageProgram current_;
  std::unique_ptr<program::Graph> graph_;
  std::map<program::ValueId, program::ValueId> made_;      // from the whole program's values
  std::map<program::ValueId, program::ValueId> received_;  // by root
};

// Writes the programs of a step, but for its beginning and end, and their launches. Returns the bytes of values inside and between them.
uint64_t write_training_stages(Plan& plan, const TracedStep& whole,
                               const std::vector<Collective>& collectives,
                               std::vector<PendingSend>& pending);
// The same for a batch of an evaluation.
void write_evaluation_stages(Plan& plan, const TracedStep& whole,
                             const std::vector<Collective>& collectives,
                             std::vector<PendingSend>& pending);

}  // namespace plait::plan
