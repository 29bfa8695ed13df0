// Cutting a program into stage programs that run at different times, on different ranks: a pipeline (Huang et al. 2019). Every op belongs
// to a stage and to a phase; the ops of one stage and phase are a stage program. What one stage program leaves to another lies in memory outside of
// them; between neighbouring stages it travels, and stages between maker and reader hand it on.
//
// Written as pure functions of the whole program, so that every rank finds the same messages without asking anybody.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "engine/program/graph.hpp"

namespace plait::program {

// Forward; backward; the part of the backward pass that only gradients of parameters need, where that is to run on its own.
enum class Phase : uint8_t { kForward, kBackward, kBackwardWeight };

struct StageProgram {
  int32_t stage = 0;
  Phase phase = Phase::kForward;
  bool operator==(const StageProgram&) const = default;
};

// A value that is wanted of the program, and the stage that delivers it.
struct LiveOut {
  ValueId value = 0;
  int32_t stage = 0;
};

// Memory of values is known by the value that owns it, Graph::root(): the keys below.
class StagePartition {
 public:
  // split_weights: make Phase::kBackwardWeight stage programs. `whole` is borrowed. live_outs: the values that the program must provide, and on which stage.
  StagePartition(const Graph& whole, int32_t stages, bool split_weights,
                 const std::vector<LiveOut>& live_outs);

  // The stage program an op belongs to.
  const StageProgram& of(size_t op) const { return program_of_op_[op]; }
  // The stage program that delivers a value: the one that makes it, if that is of `stage`, else the stage's last one.
  StageProgram program_of_live_out(ValueId v, int32_t stage) const;

  // What arrives before a stage program runs, and what is handed on behind it, to or from its neighbour; in the order of travel.
  std::vector<ValueId> recv(const StageProgram& program) const;
  std::vector<ValueId> send(const StageProgram& program) const;
  // What must have a place on a stage, as it outlives the stage program that makes it or comes from elsewhere.
  const std::vector<ValueId>& saved(int32_t stage) const {
    return saved_[static_cast<size_t>(stage)];
  }

 private:
  struct ValueTransfer {
    int32_t from = 0, to = 0;  // stages; equal: it stays
    bool backward = false;
  };
  void assign_phases(const std::vector<LiveOut>& live_outs);
  void note_reader(ValueId v, const StageProgram& reader);

  const Graph& whole_;
  bool split_, backward_ = false;
  std::vector<StageProgram> program_of_op_;     // by op
  std::map<ValueId, ValueTransfer> transfers_;  // storages that leave their stage program
  std::vector<std::vector<ValueId>> saved_;
};

// What `v`, made elsewhere, is in the copy; asked once for each value.
using ImportValue = std::function<ValueId(Graph& to, ValueId v)>;
// Appends a copy of a stage program's ops to a program. made: what values are in the copy, those that are known already included.
// Constants are made again.
void copy_stage_program(const Graph& whole, const StagePartition& partition,
                        const StageProgram& program, const ImportValue& import_value, Graph& to,
                        std::map<ValueId, ValueId>& made);
// The same for a value that is needed behind the ops.
ValueId copy_value(const Graph& whole, ValueId v, const ImportValue& import_value, Graph& to,
                   std::map<ValueId, ValueId>& made);

// Gives every stage that reads one of `parameters` (values from outside) a value of its own, so that its gradient does not leave the
// stage. Returns them by parameter and stage. Runs before the program is differentiated.
std::map<std::pair<ValueId, int32_t>, ValueId> split_parameter_uses(
    Graph& g, const std::vector<ValueId>& parameters);

}  // namespace plait::program
