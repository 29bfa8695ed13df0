// The programs of a pipeline rank: its stages' pieces of the training and of the evaluation program, with messages at the cuts.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/plan/plan.hpp"
#include "engine/plan/steps.hpp"
#include "engine/program/cut.hpp"

namespace plait::plan {

// One stage of this rank, of the training or of the evaluation program. Borrows all it is given.
class StageWriter {
 public:
  // inputs: all that the whole program is fed. slots: micro-batches that may be under way. exchanges: those that the whole program knows its own by, see local_id().
  StageWriter(Plan& plan, const Written& whole, const program::Pieces& pieces,
              const std::vector<Exchange>& exchanges, const Feed& inputs, int32_t chunk,
              int32_t slots);

  // The piece's program, without what it delivers. Then deliver(), then finish().
  void begin(program::Pass pass);
  Here here(bool last);
  std::unique_ptr<program::Graph> finish();

  const Feed& feed() const { return feed_; }
  std::vector<Pending> pending() const;

  // In the whole program exchanges have ids of their own; each piece makes new ones of them.
  static int32_t local_id(size_t index) { return kLocal + static_cast<int32_t>(index); }

 private:
  static constexpr int32_t kLocal = 1 << 30;
  struct Message {
    int32_t exchange = -1;
    plait_shape shape{};
  };
  program::ValueId import(program::Graph& to, program::ValueId v);
  Place home(program::ValueId root);
  Place own_place(Place at);
  int32_t message(program::ValueId root, bool send);
  void number_exchanges();

  Plan& plan_;
  const Written& whole_;
  const program::Pieces& pieces_;
  const std::vector<Exchange>& exchanges_;
  const Feed& inputs_;
  const int32_t stage_, chunk_, slots_;
  int32_t kept_segment_ = -1, inputs_segment_ = -1;
  std::map<program::ValueId, Place> homes_;
  std::map<std::pair<program::ValueId, bool>, int32_t>
      messages_;  // by root, and whether it is sent
  Feed feed_;
  // Of the program that is being written.
  program::Piece piece_;
  std::unique_ptr<program::Graph> graph_;
  std::map<program::ValueId, program::ValueId> made_;     // from the whole program's values
  std::map<program::ValueId, program::ValueId> arrived_;  // by root
};

// Writes the programs of a step, but for its beginning and end, and their turns. Returns the bytes of values inside and between them.
uint64_t write_training_stages(Plan& plan, const Written& whole,
                               const std::vector<Exchange>& exchanges,
                               std::vector<Pending>& pending);
// The same for a batch of an evaluation.
void write_evaluation_stages(Plan& plan, const Written& whole,
                             const std::vector<Exchange>& exchanges, std::vector<Pending>& pending);

}  // namespace plait::plan
