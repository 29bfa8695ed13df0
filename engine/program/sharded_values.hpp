// How the values of a program lie on the ranks along one axis of the mesh while the program of one
// rank is written (shard.cpp), and the ops that bring them into another form: collectives, slices,
// parts that are made alone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/program/graph.hpp"
#include "engine/program/placement.hpp"
#include "engine/program/shard.hpp"

namespace plait::program {

// A collective that is written but not yet known to the plan: its size is final only when all axes
// have been taken. The op's attribute `id` is -1 - the index among these until then.
struct PendingCollective {
  size_t axis = 0;
  std::string name;
  uint32_t kind = 0, reduction = 0;
};

class ShardedValues {
 public:
  // A partial sum that has been reduced.
  struct Reduced {
    Placement placement;
    ValueId value = 0;
    ValueId wide = 0;  // the same before it is rounded to 16 bits
  };

  // `from` and `axis` must outlive this. sharded: persistent values; all others are replicated.
  ShardedValues(const Graph& from, const MeshAxis& axis, size_t axis_index,
                const std::map<ValueId, Placement>& sharded,
                std::vector<PendingCollective>& collectives);

  // Where values lie. Ids are of the program of whole values.
  Placement native(ValueId v) const { return forms_[v].native; }
  // How a rule sees a value: a partial sum as what it becomes where its reader takes both forms.
  Placement have(ValueId v) const;
  std::vector<Placement> have(const Op& op) const;
  // What a partial sum becomes where its reader takes both forms.
  Placement preferred(ValueId v, uint32_t reduction) const;
  plait_shape local(plait_shape s, Placement p) const;
  bool padded(ValueId v, Placement p) const;
  const Op& producer(ValueId v) const;
  // Of rows in groups: whether rows of other ranks' groups are 0 here.
  bool has_zeros(ValueId v) const { return forms_[v].zeros; }
  bool can_make_part(ValueId v, int32_t dim) const;

  // zeros: see has_zeros().
  void set(ValueId v, Placement p, ValueId made, bool zeros = false);

  // The value in the form asked for, at the place of the op that is written.
  ValueId converted(ValueId v, Placement wanted);
  // The rows of this rank's groups; with zeros in all other rows if asked for.
  ValueId rows_in_groups(ValueId v, bool zeros);
  // Makes a partial value a replicated one or a shard, as `wanted` where that can be.
  void reduce(ValueId v, Placement wanted);
  // This rank's terms of a partial sum, for a reader that leaves them as they are.
  ValueId read_terms(ValueId v);
  // Of a value of the new program: whether it was a rank's terms, which have been reduced.
  bool is_reduced(ValueId term) const { return reduced_.contains(term); }
  bool terms_are_reduced(ValueId v) const { return is_reduced(forms_[v].partial); }
  // What the terms of v became.
  const Reduced& sum_of(ValueId v) const { return reduced_.at(forms_[v].partial); }
  // The partial sums of the forward pass that were set since the last call.
  std::vector<ValueId> take_forward_terms() { return std::exchange(forward_terms_, {}); }
  // For the definition of an op that writes its own sharded form. have: must outlive it.
  ShardContext context_of(const Op& op, const std::vector<Placement>& have);

  // The value in the form asked for, made where the value is made.
  ValueId requested(ValueId v, Placement p);
  // A value from outside the program.
  ValueId persistent(ValueId v) const;
  Graph& graph() { return *to_; }
  std::unique_ptr<Graph> take() { return std::move(to_); }

 private:
  // Where a form was written that is not the native one.
  struct Where {
    int32_t stage = -1;
    bool backward = false;
  };
  // A value of the whole program in the new one, in each form that exists so far.
  struct Forms {
    Placement native;
    ValueId replicated = 0, shard = 0, partial = 0;
    int32_t dim = -1;  // of `shard`
    bool zeros = false;
    Where converted;  // the form that is not the native one
  };

  ValueId run_collective(ValueId v, uint32_t kind, uint32_t reduction, const char* what);
  ValueId all_reduced(ValueId term, uint32_t reduction);
  ValueId all_reduced_once(ValueId term, uint32_t reduction);
  ValueId reduce_scattered(ValueId term, int32_t dim);
  ValueId all_gathered(ValueId shard, const plait_shape& full, int32_t dim);
  ValueId widened(ValueId term);
  Reduced reduced(ValueId v, Placement wanted);
  ValueId replicated(ValueId v);
  ValueId sliced(ValueId full, const plait_shape& shape, int32_t dim);
  ValueId make_part(ValueId v, int32_t dim);

  const Graph& from_;
  const MeshAxis& axis_;
  size_t axis_index_;
  std::unique_ptr<Graph> to_;
  std::vector<Forms> forms_;
  std::vector<PendingCollective>& collectives_;
  std::map<ValueId, Reduced> reduced_;  // terms in the new program -> what they became
  std::vector<char> read_as_terms_;     // by value of the new program: a linear op reads the terms
  std::vector<ValueId> forward_terms_;  // partial values of the forward pass
};

}  // namespace plait::program
