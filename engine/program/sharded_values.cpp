#include "engine/program/sharded_values.hpp"

#include <plait/comm.h>

#include <algorithm>

#include "engine/program/op_def.hpp"

namespace plait::program {
namespace {

// A shard's elements before dimension `dim`, and from there on: two dimensions are enough to move
// it, whatever ndim the value has.
struct Block {
  int64_t outer = 1, inner = 1;
};
Block block_of(const Dims& shard, int32_t dim) {
  Block b;
  for (size_t d = 0; d < shard.size(); ++d)
    (static_cast<int32_t>(d) < dim ? b.outer : b.inner) *= shard[d];
  return b;
}

}  // namespace

ShardedValues::ShardedValues(const Graph& from, const MeshAxis& axis, size_t axis_index,
                             const std::map<ValueId, Placement>& sharded,
                             std::vector<PendingCollective>& collectives)
    : from_(from),
      axis_(axis),
      axis_index_(axis_index),
      to_(std::make_unique<Graph>(from.registry(), from.float_type())),
      forms_(from.n_values()),
      collectives_(collectives) {
  for (ValueId v = 1; v < from.n_values(); ++v) {
    const Value& value = from.value(v);
    if (value.producer >= 0) continue;
    const auto at = sharded.find(v);
    const Placement p = at == sharded.end() ? kReplicated : at->second;
    set(v, p, to_->persistent(value.name, local(value.shape, p), value.buffer));
  }
}

plait_shape ShardedValues::local(plait_shape s, Placement p) const {
  if (p.is_shard()) s.dims[p.dim] = (s.dims[p.dim] + axis_.ranks - 1) / axis_.ranks;
  return s;
}

bool ShardedValues::padded(ValueId v, Placement p) const {
  return p.is_shard() && from_.shape(v).dims[p.dim] % axis_.ranks != 0;
}

const Op& ShardedValues::producer(ValueId v) const {
  return from_.ops()[static_cast<size_t>(from_.value(v).producer)];
}

Placement ShardedValues::have(ValueId v) const {
  const Placement p = forms_[v].native;
  return p.is_partial() ? preferred(v, p.reduction) : p;
}

std::vector<Placement> ShardedValues::have(const Op& op) const {
  std::vector<Placement> all;
  for (ValueId v : op.in) {
    const bool as_rows = op.def->grouping != Grouping::kNone && forms_[v].native.is_in_groups();
    all.push_back(as_rows ? forms_[v].native : have(v));
  }
  return all;
}

ValueId ShardedValues::persistent(ValueId v) const {
  return forms_[v].native.is_shard() ? forms_[v].shard : forms_[v].replicated;
}

void ShardedValues::set(ValueId v, Placement p, ValueId made, bool zeros) {
  Forms& f = forms_[v];
  f.native = p;
  f.zeros = zeros;
  if (p.is_replicated()) {
    f.replicated = made;
  } else if (p.is_shard()) {
    f.shard = made;
    f.dim = p.dim;
  } else {
    f.partial = made;
    // Equal products of two ops are one value, which may have been reduced already.
    if (const auto known = reduced_.find(made); known != reduced_.end())
      return set(v, known->second.placement, known->second.value);
    if (!to_->backward) forward_terms_.push_back(v);
  }
}

// Sequence parallelism: the rows of a partial sum, all dimensions but the last, are sharded along
// the first of them that the ranks divide. Else all of it is needed.
Placement ShardedValues::preferred(ValueId v, uint32_t reduction) const {
  if (!axis_.sequence || reduction != PLAIT_COMM_SUM) return kReplicated;
  const plait_shape& s = from_.shape(v);
  for (int32_t d = 0; d + 1 < static_cast<int32_t>(s.ndim); ++d)
    if (s.dims[d] > 0 && s.dims[d] % axis_.ranks == 0) return shard_along(d);
  return kReplicated;
}

ValueId ShardedValues::rows_in_groups(ValueId v, bool zeros) {
  const Forms& f = forms_[v];
  const ValueId term = f.partial;
  if (zeros && !f.zeros) {
    const GroupShare& own = f.native.groups;
    const plait_shape s = to_->shape(term);
    const ValueId is_own = to_->apply1("grouped_matmul",
                                       {filled(*to_, make_shape(s.dtype, {s.dims[0], 1}), 1),
                                        filled(*to_, make_shape(s.dtype, {own.count, 1, 1}), 1),
                                        converted(own.offsets, kReplicated)},
                                       {attr("first", own.first)});
    return to_->apply1("select", {is_own, term, filled(*to_, make_shape(s.dtype, {}), 0)});
  }
  return read_terms(v);
}

ValueId ShardedValues::read_terms(ValueId v) {
  const ValueId term = forms_[v].partial;
  if (read_as_terms_.size() <= term) read_as_terms_.resize(term + 1);
  read_as_terms_[term] = 1;
  return term;
}

// Starts a collective and waits for it. An all-reduce works in place: its operand has no other
// reader.
ValueId ShardedValues::run_collective(ValueId v, uint32_t kind, uint32_t reduction,
                                      const char* what) {
  // Below 0: no id of the plan, by which later ops would be found equal.
  const auto id = -1 - static_cast<int64_t>(collectives_.size());
  collectives_.push_back({axis_index_, to_->scope + " " + what, kind, reduction});
  const Attrs attrs{attr("kind", static_cast<int64_t>(kind)), attr("ranks", axis_.ranks),
                    attr("id", id)};
  const Attrs done{attr("id", id)};
  if (kind == PLAIT_COMM_ALL_REDUCE)
    return to_->apply_in_place("collective_done",
                               {to_->apply_in_place("collective_start", {v}, attrs)}, done);
  // What is sent must stay until the end: the wait reads it, too.
  return to_->apply_in_place("collective_done", {to_->apply1("collective_start", {v}, attrs), v},
                             done);
}

// The sum or greatest of all ranks' terms.
ValueId ShardedValues::all_reduced(ValueId term, uint32_t reduction) {
  return run_collective(term, PLAIT_COMM_ALL_REDUCE, reduction,
                        reduction == PLAIT_COMM_SUM ? "summed" : "compared");
}

// This rank's shard of the sum of all ranks' terms; the ranks divide the dimension. A collective
// deals out whole rows: another dimension than the first is cut and brought to the front.
ValueId ShardedValues::reduce_scattered(ValueId term, int32_t dim) {
  Dims own = dims_of(to_->shape(term));
  own[static_cast<size_t>(dim)] /= axis_.ranks;
  if (dim > 0) {
    const Block b = block_of(own, dim);
    term = to_->apply1("transpose", {reshaped(*to_, term, {b.outer, axis_.ranks, b.inner})},
                       {attr("perm", Dims{1, 0, 2})});
  }
  const ValueId shard =
      run_collective(term, PLAIT_COMM_REDUCE_SCATTER, PLAIT_COMM_SUM, "summed, in shards");
  return dim > 0 ? reshaped(*to_, shard, own) : shard;
}

// All ranks' shards lie one behind the other when they come; along another dimension than the first
// they are moved into place.
ValueId ShardedValues::all_gathered(ValueId shard, const plait_shape& full, int32_t dim) {
  ValueId all = run_collective(shard, PLAIT_COMM_ALL_GATHER, 0, "gathered");
  Dims joined = dims_of(to_->shape(shard));
  const Block b = block_of(joined, dim);
  const int64_t extent = joined[static_cast<size_t>(dim)] *= axis_.ranks;
  if (dim > 0) {
    all = to_->apply1("transpose", {reshaped(*to_, all, {axis_.ranks, b.outer, b.inner})},
                      {attr("perm", Dims{1, 0, 2})});
    all = reshaped(*to_, all, joined);
  }
  if (extent == full.dims[dim]) return all;
  return to_->apply1("slice", {all},
                     {attr("axis", static_cast<int64_t>(dim)), attr("start", int64_t{0}),
                      attr("stop", full.dims[dim])});
}

// Equal terms of two ops are one value, which is summed in place once.
ValueId ShardedValues::all_reduced_once(ValueId term, uint32_t reduction) {
  Reduced& known = reduced_[term];
  if (!known.value) {
    const ValueId all = all_reduced(term, reduction);
    known = {kReplicated, all, all};
  }
  return known.value;
}

// A 16-bit term as f32. A product or a map writes it so, and is not rounded before the sum of the
// ranks. Then a product's sum differs from one rank's by the order of its terms.
ValueId ShardedValues::widened(ValueId term) {
  const auto at = static_cast<size_t>(to_->value(term).producer);
  const Op& op = to_->ops()[at];
  const bool alone = to_->readers(term).empty() && op.out[0] == term && !to_->value(term).alias_of;
  if (!alone || !(op.def->writes_any_float || (op.def->is_map && op.out.size() == 1)))
    return to_->as_type(term, PLAIT_F32);
  if (op.def->writes_any_float) to_->set_attr(at, attr("dtype", static_cast<int64_t>(PLAIT_F32)));
  to_->value(term).shape.dtype = PLAIT_F32;
  return term;
}

// What the terms of a value become for a reader that wants it in that form. Each is reduced once:
// an all-reduce overwrites the terms.
ShardedValues::Reduced ShardedValues::reduced(ValueId v, Placement wanted) {
  ValueId term = forms_[v].partial;
  if (const auto known = reduced_.find(term); known != reduced_.end()) return known->second;
  const uint32_t reduction = forms_[v].native.reduction;
  const bool scatter = wanted.is_shard() && reduction == PLAIT_COMM_SUM && !padded(v, wanted);
  Reduced r{scatter ? wanted : kReplicated, 0, 0};
  // Ranks add up 16-bit terms in f32.
  const uint32_t type = to_->shape(term).dtype;
  const bool narrow = reduction == PLAIT_COMM_SUM && dtype_bytes(type) == 2;
  const ValueId own = term;
  if (forms_[v].native.is_in_groups() && !forms_[v].zeros) term = rows_in_groups(v, true);
  if (narrow) term = widened(term);
  if (scatter) {
    r.value = reduce_scattered(term, wanted.dim);
  } else {
    const bool shared = term == own && term < read_as_terms_.size() && read_as_terms_[term];
    r.value = all_reduced(shared ? to_->apply1("copy", {term}) : term, reduction);
  }
  r.wide = r.value;
  if (narrow) r.value = to_->as_type(r.value, type);
  return reduced_[own] = r;
}

void ShardedValues::reduce(ValueId v, Placement wanted) {
  if (!forms_[v].native.is_partial()) return;
  // Where it is made: a value for another stage of a pipeline is sent when it is complete.
  const Op before = to_->context();
  to_->write_like(producer(v));
  const Reduced r = reduced(v, wanted);
  set(v, r.placement, r.value);
  to_->write_like(before);
}

ValueId ShardedValues::replicated(ValueId v) {
  Forms& f = forms_[v];
  if (!f.native.is_shard()) return f.replicated;
  // Each stage of a pipeline converts for itself: what another one made may not be there in time.
  // With sequence parallelism the backward pass gathers again: rows are not kept on all ranks.
  const bool here = f.replicated && f.converted.stage == to_->stage &&
                    (!axis_.sequence || f.converted.backward == to_->backward);
  if (!here) {
    f.replicated = all_gathered(f.shard, from_.shape(v), f.dim);
    f.converted = {to_->stage, to_->backward};
  }
  return f.replicated;
}

ValueId ShardedValues::converted(ValueId v, Placement wanted) {
  reduce(v, wanted);
  Forms& f = forms_[v];
  if (wanted.is_replicated()) return replicated(v);
  const bool here = f.native.is_shard() || f.converted.stage == to_->stage;
  if (f.shard && f.dim == wanted.dim && here) return f.shard;
  const ValueId shard = can_make_part(v, wanted.dim)
                            ? make_part(v, wanted.dim)
                            : sliced(replicated(v), from_.shape(v), wanted.dim);
  if (!f.native.is_shard()) {
    f.shard = shard;
    f.dim = wanted.dim;
    f.converted = {to_->stage, to_->backward};
  }
  return shard;
}

// This rank's shard of a replicated value, with zeros for padding.
ValueId ShardedValues::sliced(ValueId full, const plait_shape& shape, int32_t dim) {
  const int64_t extent = shape.dims[dim], n = local(shape, shard_along(dim)).dims[dim];
  const int64_t start = std::min(extent, axis_.rank * n), stop = std::min(extent, start + n);
  // Also of nothing: what the ranks communicate before this must not depend on which of them needs
  // it.
  const ValueId shard = to_->apply1(
      "slice", {full},
      {attr("axis", static_cast<int64_t>(dim)), attr("start", start), attr("stop", stop)});
  if (stop - start == n) return shard;
  return to_->apply1("pad", {shard},
                     {attr("axis", static_cast<int64_t>(dim)), attr("before", int64_t{0}),
                      attr("after", n - (stop - start))});
}

// Some values are made in part, not cut out.
bool ShardedValues::can_make_part(ValueId v, int32_t dim) const {
  if (from_.value(v).producer < 0) return false;
  const Op& op = producer(v);
  if (!op.def->can_make_part) return false;
  return op.def->can_make_part(
      {from_, op, axis_.ranks, dim, padded(v, shard_along(dim)), [this, &op](size_t i, int32_t d) {
         return have(op.in[i]).is_replicated() && can_make_part(op.in[i], d);
       }});
}

ValueId ShardedValues::make_part(ValueId v, int32_t dim) {
  const Op& op = producer(v);
  const std::vector<Placement> replicated(op.in.size());
  ShardContext context = context_of(op, replicated);
  return op.def->make_part(context, dim, local(from_.shape(v), shard_along(dim)));
}

ShardContext ShardedValues::context_of(const Op& op, const std::vector<Placement>& have) {
  return {from_,
          op,
          *to_,
          have,
          axis_.ranks,
          axis_.rank,
          [this, &op](size_t i, Placement p) { return converted(op.in[i], p); },
          [this, &op](size_t i, bool zeros) { return rows_in_groups(op.in[i], zeros); },
          [this](ValueId term, uint32_t reduction) { return all_reduced_once(term, reduction); },
          {},
          {}};
}

ValueId ShardedValues::requested(ValueId v, Placement p) {
  if (from_.value(v).producer >= 0) to_->write_like(producer(v));
  return converted(v, p);
}

}  // namespace plait::program
