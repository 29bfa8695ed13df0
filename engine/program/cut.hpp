// Cutting a program into pieces that run at different times, on different ranks: a pipeline (Huang et al. 2019). Every op belongs
// to a stage and to a pass; the ops of one stage and pass are a piece. What one piece leaves to another lies in memory outside of
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
enum class Pass : uint8_t { kForward, kBackward, kWeights };

struct Piece {
  int32_t stage = 0;
  Pass pass = Pass::kForward;
  bool operator==(const Piece&) const = default;
};

// A value that is wanted of the program, and the stage that delivers it.
struct Delivery {
  ValueId value = 0;
  int32_t stage = 0;
};

// Memory of values is known by the value that owns it, Graph::root(): the keys below.
class Pieces {
 public:
  // split_weights: make Pass::kWeights pieces. `whole` is borrowed. deliveries: what is wanted of the program, and where.
  Pieces(const Graph& whole, int32_t stages, bool split_weights,
         const std::vector<Delivery>& deliveries);

  // The piece an op belongs to.
  const Piece& of(size_t op) const { return piece_[op]; }
  // The piece that delivers a value: the one that makes it, if that is of `stage`, else the stage's last one.
  Piece delivery_of(ValueId v, int32_t stage) const;

  // What arrives before a piece runs, and what is handed on behind it, to or from its neighbour; in the order of travel.
  std::vector<ValueId> received(const Piece& piece) const;
  std::vector<ValueId> sent(const Piece& piece) const;
  // What must have a place on a stage, as it outlives the piece that makes it or comes from elsewhere.
  const std::vector<ValueId>& kept(int32_t stage) const {
    return kept_[static_cast<size_t>(stage)];
  }

 private:
  struct Travel {
    int32_t from = 0, to = 0;  // stages; equal: it stays
    bool backward = false;
  };
  void assign_passes(const std::vector<Delivery>& deliveries);
  void note_reader(ValueId v, const Piece& reader);

  const Graph& whole_;
  bool split_, backward_ = false;
  std::vector<Piece> piece_;           // by op
  std::map<ValueId, Travel> travels_;  // roots that leave their piece
  std::vector<std::vector<ValueId>> kept_;
};

// What `v`, made elsewhere, is in the copy; asked once for each value.
using Import = std::function<ValueId(Graph& to, ValueId v)>;
// Appends a copy of a piece's ops to a program. made: what values are in the copy, those that are known already included.
// Constants are made again.
void extract(const Graph& whole, const Pieces& pieces, const Piece& piece, const Import& import,
             Graph& to, std::map<ValueId, ValueId>& made);
// The same for a value that is needed behind the ops.
ValueId extracted(const Graph& whole, ValueId v, const Import& import, Graph& to,
                  std::map<ValueId, ValueId>& made);

// Gives every stage that reads one of `leaves` (values from outside) a value of its own, so that its gradient does not leave the
// stage. Returns them by leaf and stage. Runs before the program is differentiated.
std::map<std::pair<ValueId, int32_t>, ValueId> split_leaves(Graph& g,
                                                            const std::vector<ValueId>& leaves);

}  // namespace plait::program
