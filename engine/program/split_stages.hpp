// Splits a program into stage programs that run at different times and on different ranks: a
// pipeline (Huang et al. 2019). Every op belongs to a stage and a phase; the ops of one stage and
// phase form a stage program. A value that one stage program leaves for another is stored outside
// both; values crossing stages are sent to the adjacent stage, which forwards them if a later stage
// needs them.
//
// Pure functions of the whole program, so every rank derives the same messages without
// communication.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "engine/program/graph.hpp"

namespace plait::program {

// Forward; backward; the part of the backward pass that only computes gradients of parameters, if
// it runs separately. Ops that are not_deferred run in the second.
enum class Phase : uint8_t { kForward, kBackward, kBackwardWeight };

struct StageProgram {
  int32_t stage = 0;
  Phase phase = Phase::kForward;
  bool operator==(const StageProgram&) const = default;
};

// An output of the program, and the stage that provides it.
struct LiveOut {
  ValueId value = 0;
  int32_t stage = 0;
};

// Memory is identified by the value that owns it, Graph::storage_of(); these are the keys below.
class StagePartition {
 public:
  // split_weights: make Phase::kBackwardWeight stage programs. `whole` is borrowed. live_outs: the
  // values that the program must provide, each with its stage.
  StagePartition(const Graph& whole, int32_t stages, bool split_weights,
                 const std::vector<LiveOut>& live_outs);

  // The stage program of an op.
  const StageProgram& of(size_t op) const { return program_of_op_[op]; }
  // The stage program that provides a value: the one that computes it if that belongs to `stage`,
  // else the stage's last one.
  StageProgram program_of_live_out(ValueId v, int32_t stage) const;

  // The ops of a stage program, ascending.
  const std::vector<size_t>& ops(const StageProgram& program) const { return at(program).ops; }

  // Values received before a stage program runs, and values sent after it, from or to the adjacent
  // stage; in the order of the messages.
  const std::vector<ValueId>& recv(const StageProgram& program) const { return at(program).recv; }
  const std::vector<ValueId>& send(const StageProgram& program) const { return at(program).send; }
  // Whether a stage program sends the memory of a value.
  bool sends(const StageProgram& program, ValueId storage) const;
  // Values that need memory on a stage because they outlive their stage program or come from
  // another stage.
  const std::vector<ValueId>& saved(int32_t stage) const {
    return saved_[static_cast<size_t>(stage)];
  }

 private:
  struct ValueTransfer {
    int32_t from = 0, to = 0;  // stages; equal: it stays
    bool backward = false;
  };
  // What belongs to one stage program, listed once: asking for it takes no search.
  struct Contents {
    std::vector<size_t> ops;
    std::vector<ValueId> recv, send;
  };
  static constexpr size_t kPhases = 3;
  static size_t index_of(const StageProgram& program) {
    return static_cast<size_t>(program.stage) * kPhases + static_cast<size_t>(program.phase);
  }
  const Contents& at(const StageProgram& program) const { return contents_.at(index_of(program)); }
  void list_transfer(ValueId storage, const ValueTransfer& transfer);
  void assign_phases(const std::vector<LiveOut>& live_outs);
  void note_reader(ValueId v, const StageProgram& reader);

  const Graph& whole_;
  bool split_, backward_ = false;
  std::vector<StageProgram> program_of_op_;     // by op
  std::map<ValueId, ValueTransfer> transfers_;  // by storage; those that leave their stage program
  std::vector<std::vector<ValueId>> saved_;
  std::vector<Contents> contents_;  // by index_of()
};

// Maps a value `v` computed elsewhere to a value of the copy; called once per value.
using ImportValue = std::function<ValueId(Graph& to, ValueId v)>;
// Appends a copy of a stage program's ops to a program. made: the values in the copy, including
// those known before. Constants are copied.
void copy_stage_program(const Graph& whole, const StagePartition& partition,
                        const StageProgram& program, const ImportValue& import_value, Graph& to,
                        std::map<ValueId, ValueId>& made);
// The same for a value that is needed after the ops.
ValueId copy_value(const Graph& whole, ValueId v, const ImportValue& import_value, Graph& to,
                   std::map<ValueId, ValueId>& made);

// Gives every stage that reads one of `parameters` (inputs of the program) a value of its own, so
// that its gradient stays within the stage. Returns them by parameter and stage. Runs before
// differentiation.
std::map<std::pair<ValueId, int32_t>, ValueId> split_parameter_uses(
    Graph& g, const std::vector<ValueId>& parameters);

}  // namespace plait::program
