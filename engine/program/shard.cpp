#include "engine/program/shard.hpp"

#include <plait/comm.h>

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/program/op_def.hpp"

namespace plait::program {
namespace {

// A collective that is written but not yet known to the plan: its size is final only when all axes
// have been taken. The op's attribute `id` is -1 - the index among these until then.
struct PendingCollective {
  size_t axis = 0;
  std::string name;
  uint32_t kind = 0, reduction = 0;
};

class Sharder {
 public:
  Sharder(const Graph& from, const MeshAxis& axis, size_t axis_index,
          const std::map<ValueId, Placement>& sharded, std::vector<char> requested,
          std::vector<PendingCollective>& collectives)
      : from_(from),
        axis_(axis),
        axis_index_(axis_index),
        to_(std::make_unique<Graph>(from.registry(), from.float_type())),
        forms_(from.n_values()),
        requested_(std::move(requested)),
        collectives_(collectives) {
    for (ValueId v = 1; v < from.n_values(); ++v) {
      const Value& value = from.value(v);
      if (value.producer >= 0) continue;
      const auto at = sharded.find(v);
      const Placement p = at == sharded.end() ? kReplicated : at->second;
      set(v, p, to_->persistent(value.name, local(value.shape, p), value.buffer));
    }
  }

  void run();
  // The value in the form asked for, made where the value is made.
  ValueId requested(ValueId v, Placement p);
  // A value from outside the program.
  ValueId persistent(ValueId v) const {
    return forms_[v].native.is_shard() ? forms_[v].shard : forms_[v].replicated;
  }
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
    // Of rows in groups: whether rows of other ranks' groups are 0 here.
    bool zeros = false;
    Where converted;  // the form that is not the native one
  };
  struct Reduced {
    Placement placement;
    ValueId value = 0;
    ValueId wide = 0;  // the same before it is rounded to 16 bits
  };

  plait_shape local(plait_shape s, Placement p) const {
    if (p.is_shard()) s.dims[p.dim] = (s.dims[p.dim] + axis_.ranks - 1) / axis_.ranks;
    return s;
  }
  void set(ValueId v, Placement p, ValueId made);
  bool padded(ValueId v, Placement p) const {
    return p.is_shard() && from_.shape(v).dims[p.dim] % axis_.ranks != 0;
  }
  const Op& producer(ValueId v) const {
    return from_.ops()[static_cast<size_t>(from_.value(v).producer)];
  }
  // How a rule sees a value: a partial sum as what it becomes where its reader takes both forms.
  Placement have(ValueId v) const {
    const Placement p = forms_[v].native;
    return p.is_partial() ? preferred(v, p.reduction) : p;
  }
  std::vector<Placement> have(const Op& op) const {
    std::vector<Placement> all;
    for (ValueId v : op.in) {
      const bool as_rows = op.def->grouping != Grouping::kNone && forms_[v].native.is_in_groups();
      all.push_back(as_rows ? forms_[v].native : have(v));
    }
    return all;
  }
  Placement preferred(ValueId v, uint32_t reduction) const;

  void write(const Op& op);
  bool write_by_rule(const Op& op);
  bool write_partial(const Op& op);
  bool write_map_of_groups(const Op& op);
  ValueId rows_in_groups(ValueId v, bool zeros);
  Sharding sharding_of(const Op& op) const;
  ShardContext context_of(const Op& op, const std::vector<Placement>& have);
  std::vector<ValueId> write_with(const Op& op, const Sharding& sharding);
  void check_shards(const Op& op, const Sharding& sharding, const std::vector<ValueId>& made) const;
  void reduce_forward_terms();
  bool only_of_groups(ValueId v) const;

  ValueId widened(ValueId term);
  ValueId run_collective(ValueId v, uint32_t kind, uint32_t reduction, const char* what);
  ValueId all_reduced(ValueId term, uint32_t reduction);
  ValueId reduce_scattered(ValueId term, int32_t dim);
  ValueId all_gathered(ValueId shard, const plait_shape& full, int32_t dim);
  Reduced reduced(ValueId v, Placement wanted);
  void reduce(ValueId v, Placement wanted);
  ValueId converted(ValueId v, Placement wanted);
  ValueId replicated(ValueId v);
  ValueId sliced(ValueId full, const plait_shape& shape, int32_t dim);
  bool can_make_part(ValueId v, int32_t dim) const;
  ValueId make_part(ValueId v, int32_t dim);

  const Graph& from_;
  const MeshAxis& axis_;
  size_t axis_index_;
  std::unique_ptr<Graph> to_;
  std::vector<Forms> forms_;
  std::vector<char> requested_;  // by value: needed when the program has run
  std::vector<PendingCollective>& collectives_;
  std::map<ValueId, Reduced> reduced_;  // terms in the new program -> what they became
  std::vector<char> read_as_terms_;     // by value of the new program: a linear op reads the terms
  std::vector<ValueId> forward_terms_;  // partial values of the forward pass
};

void Sharder::set(ValueId v, Placement p, ValueId made) {
  Forms& f = forms_[v];
  f.native = p;
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
Placement Sharder::preferred(ValueId v, uint32_t reduction) const {
  if (!axis_.sequence || reduction != PLAIT_COMM_SUM) return kReplicated;
  const plait_shape& s = from_.shape(v);
  for (int32_t d = 0; d + 1 < static_cast<int32_t>(s.ndim); ++d)
    if (s.dims[d] > 0 && s.dims[d] % axis_.ranks == 0) return shard_along(d);
  return kReplicated;
}

// Starts a collective and waits for it. An all-reduce works in place: its operand has no other
// reader.
ValueId Sharder::run_collective(ValueId v, uint32_t kind, uint32_t reduction, const char* what) {
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

// Element by element each rank computes the rows of its groups.
bool Sharder::write_map_of_groups(const Op& op) {
  const auto at = std::find_if(op.in.begin(), op.in.end(),
                               [&](ValueId v) { return forms_[v].native.is_in_groups(); });
  if (!op.def->is_map || at == op.in.end()) return false;
  const Placement rows = forms_[*at].native;
  std::vector<Placement> as_shards;
  for (ValueId v : op.in)
    as_shards.push_back(forms_[v].native == rows ? shard_along(0) : kReplicated);
  Sharding s{std::vector<Placement>(op.in.size()), std::vector<Placement>(op.out.size())};
  if (!op.def->shard(from_, op, as_shards, axis_.ranks, s) || s.out[0] != shard_along(0))
    return false;
  bool zeros = s.keeps_zeros;
  std::vector<ValueId> in;
  for (size_t i = 0; i < op.in.size(); ++i) {
    const bool own = as_shards[i].is_shard();
    zeros = zeros && (!s.in[i].is_shard() || (own && forms_[op.in[i]].zeros));
    in.push_back(own ? rows_in_groups(op.in[i], false) : converted(op.in[i], kReplicated));
  }
  Op copy = op;
  copy.in = std::move(in);
  copy.out.clear();
  set(op.out[0], rows, to_->append(std::move(copy), {from_.shape(op.out[0])})[0]);
  forms_[op.out[0]].zeros = zeros;
  return true;
}

// The rows of this rank's groups; with zeros in all other rows if asked for.
ValueId Sharder::rows_in_groups(ValueId v, bool zeros) {
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
  if (read_as_terms_.size() <= term) read_as_terms_.resize(term + 1);
  read_as_terms_[term] = 1;
  return term;
}

// The sum or greatest of all ranks' terms.
ValueId Sharder::all_reduced(ValueId term, uint32_t reduction) {
  return run_collective(term, PLAIT_COMM_ALL_REDUCE, reduction,
                        reduction == PLAIT_COMM_SUM ? "summed" : "compared");
}

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

// This rank's shard of the sum of all ranks' terms; the ranks divide the dimension. A collective
// deals out whole rows: another dimension than the first is cut and brought to the front.
ValueId Sharder::reduce_scattered(ValueId term, int32_t dim) {
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
ValueId Sharder::all_gathered(ValueId shard, const plait_shape& full, int32_t dim) {
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

// A 16-bit term as f32. A product or a map writes it so, and is not rounded before the sum of the
// ranks. Then a product's sum differs from one rank's by the order of its terms.
ValueId Sharder::widened(ValueId term) {
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
Sharder::Reduced Sharder::reduced(ValueId v, Placement wanted) {
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

// Makes a partial value a replicated one or a shard, as `wanted` where that can be.
void Sharder::reduce(ValueId v, Placement wanted) {
  if (!forms_[v].native.is_partial()) return;
  // Where it is made: a value for another stage of a pipeline is sent when it is complete.
  const Op before = to_->context();
  to_->write_like(producer(v));
  const Reduced r = reduced(v, wanted);
  set(v, r.placement, r.value);
  to_->write_like(before);
}

ValueId Sharder::replicated(ValueId v) {
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

ValueId Sharder::converted(ValueId v, Placement wanted) {
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
ValueId Sharder::sliced(ValueId full, const plait_shape& shape, int32_t dim) {
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
bool Sharder::can_make_part(ValueId v, int32_t dim) const {
  if (from_.value(v).producer < 0) return false;
  const Op& op = producer(v);
  if (!op.def->can_make_part) return false;
  return op.def->can_make_part(
      {from_, op, axis_.ranks, dim, padded(v, shard_along(dim)), [this, &op](size_t i, int32_t d) {
         return have(op.in[i]).is_replicated() && can_make_part(op.in[i], d);
       }});
}

ValueId Sharder::make_part(ValueId v, int32_t dim) {
  const Op& op = producer(v);
  const std::vector<Placement> replicated(op.in.size());
  ShardContext context = context_of(op, replicated);
  return op.def->make_part(context, dim, local(from_.shape(v), shard_along(dim)));
}

ShardContext Sharder::context_of(const Op& op, const std::vector<Placement>& have) {
  return {from_,
          op,
          *to_,
          have,
          axis_.ranks,
          axis_.rank,
          [this, &op](size_t i, Placement p) { return converted(op.in[i], p); },
          [this, &op](size_t i, bool zeros) { return rows_in_groups(op.in[i], zeros); },
          [this](ValueId term, uint32_t reduction) {
            // Equal terms of two ops are one value, which is summed in place once.
            Reduced& known = reduced_[term];
            if (!known.value) {
              const ValueId all = all_reduced(term, reduction);
              known = {kReplicated, all, all};
            }
            return known.value;
          },
          {},
          {}};
}

ValueId Sharder::requested(ValueId v, Placement p) {
  if (from_.value(v).producer >= 0) to_->write_like(producer(v));
  return converted(v, p);
}

Sharding Sharder::sharding_of(const Op& op) const {
  Sharding whole{std::vector<Placement>(op.in.size()), std::vector<Placement>(op.out.size())};
  const std::vector<Placement> lie = have(op);
  if (!op.def->shard ||
      std::all_of(lie.begin(), lie.end(), [](Placement p) { return p.is_replicated(); }))
    return whole;
  Sharding sharded = whole;
  if (!op.def->shard(from_, op, lie, axis_.ranks, sharded)) return whole;
  bool pads = false;
  for (size_t i = 0; i < op.in.size(); ++i) {
    if (!padded(op.in[i], sharded.in[i])) continue;
    pads = true;
    // A whole value is not cut up for the sake of padding.
    if (lie[i] != sharded.in[i] && !can_make_part(op.in[i], sharded.in[i].dim)) return whole;
  }
  for (size_t i = 0; i < op.out.size(); ++i) pads = pads || padded(op.out[i], sharded.out[i]);
  return pads && !sharded.keeps_zeros ? whole : sharded;
}

// An op whose sharded form is not the same op over shards.
bool Sharder::write_by_rule(const Op& op) {
  if (!op.def->write_sharded) return false;
  const std::vector<Placement> lie = have(op);
  if (std::all_of(lie.begin(), lie.end(), [](Placement p) { return p.is_replicated(); }))
    return false;
  ShardContext context = context_of(op, lie);
  if (!op.def->write_sharded(context)) return false;
  for (size_t i = 0; i < op.out.size(); ++i) {
    set(op.out[i], context.out_placement[i], context.out[i]);
    forms_[op.out[i]].zeros = context.out_placement[i].is_in_groups();
  }
  return true;
}

// A linear op on partial sums alone makes a partial sum: one collective for all of them. Not where
// another reader has the terms reduced, nor across stages, which exchange complete values.
bool Sharder::write_partial(const Op& op) {
  if (!op.def->is_linear || !op.def->is_linear(op)) return false;
  std::vector<ValueId> in;
  for (ValueId v : op.in) {
    const Forms& f = forms_[v];
    if (!f.native.is_partial() || f.native.reduction != PLAIT_COMM_SUM || requested_[v] ||
        f.native.is_in_groups() || reduced_.contains(f.partial) || from_.readers(v).size() != 1 ||
        producer(v).stage != op.stage || producer(v).backward != op.backward)
      return false;
    in.push_back(f.partial);
  }
  for (ValueId v : in) {
    if (read_as_terms_.size() <= v) read_as_terms_.resize(v + 1);
    read_as_terms_[v] = 1;
  }
  Op copy = op;
  copy.in = std::move(in);
  copy.out.clear();
  const ValueId made = to_->append(std::move(copy), {from_.shape(op.out[0])})[0];
  set(op.out[0], partial(PLAIT_COMM_SUM), made);
  return true;
}

std::vector<ValueId> Sharder::write_with(const Op& op, const Sharding& sharding) {
  std::vector<ValueId> in;
  for (size_t i = 0; i < op.in.size(); ++i) in.push_back(converted(op.in[i], sharding.in[i]));
  to_->scope = op.scope;
  const plait_shape shard = local(from_.shape(op.out[0]), sharding.out[0]);
  if (op.def->is_map) {
    Op copy = op;
    copy.in = std::move(in);
    copy.out.clear();
    return to_->append(std::move(copy), {shard});
  }
  Attrs attrs = op.def->attrs_of_part ? op.def->attrs_of_part(op, shard) : op.attrs;
  // A collective along an axis that was taken before may work in place.
  const bool in_place = !op.def->is_view && from_.value(op.out[0]).alias_of != 0;
  std::vector<ValueId> made;
  if (in_place)
    made = {to_->apply_in_place(op.name, std::move(in), std::move(attrs))};
  else
    made = to_->apply(op.name, std::move(in), std::move(attrs));
  check_shards(op, sharding, made);
  return made;
}

// The shapes that the op itself gives of its shards must be what its sharding rule has said.
void Sharder::check_shards(const Op& op, const Sharding& sharding,
                           const std::vector<ValueId>& made) const {
  for (size_t i = 0; i < op.out.size(); ++i) {
    const plait_shape expected = local(from_.shape(op.out[i]), sharding.out[i]);
    if (reduced_.contains(made[i])) continue;  // an equal product's term, which is f32 since then
    if (same(to_->shape(made[i]), expected)) continue;
    fail(op.def->item ? PLAIT_ERR_PLUGIN : PLAIT_ERR_INTERNAL,
         "[" + op.scope + "] " + op.name + owner_of(*op.def) + ": shard() makes result " +
             std::to_string(i) + " " + text(expected) + " on each of " +
             std::to_string(axis_.ranks) + " ranks, infer() gives " + text(to_->shape(made[i])) +
             "; tell its author");
  }
}

void Sharder::write(const Op& op) {
  to_->write_like(op);
  if (write_map_of_groups(op) || write_partial(op) || write_by_rule(op)) return;
  const Sharding sharding = sharding_of(op);
  // A bias is added once, to the sum.
  Op without;
  const size_t addend =
      sharding.out[0].is_partial() && op.def->addend ? op.def->addend(op, without) : 0;
  const std::vector<ValueId> made = write_with(addend ? without : op, sharding);
  for (size_t i = 0; i < op.out.size(); ++i) set(op.out[i], sharding.out[i], made[i]);
  if (!addend) return;
  const ValueId y = op.out[0];
  reduce(y, preferred(y, sharding.out[0].reduction));
  // To the sum as f32, as one rank's product adds it.
  const Reduced sum = reduced_.at(forms_[y].partial);
  const ValueId all = binary(*to_, "add", sum.wide, converted(op.in[addend], kReplicated));
  set(y, sum.placement, to_->as_type(all, to_->shape(sum.value).dtype));
}

// Whether no reader of rows in groups needs the rows of all ranks.
bool Sharder::only_of_groups(ValueId v) const {
  const std::vector<int32_t>& readers = from_.readers(v);
  return forms_[v].native.is_in_groups() && !requested_[v] &&
         std::all_of(readers.begin(), readers.end(), [&](int32_t r) {
           const OpDef& def = *from_.ops()[static_cast<size_t>(r)].def;
           return def.is_map || def.grouping != Grouping::kNone;
         });
}

// The backward pass begins: what it reads of the forward pass is complete.
void Sharder::reduce_forward_terms() {
  for (ValueId v : forward_terms_)
    if (forms_[v].native.is_partial() && (requested_[v] || !from_.readers(v).empty()) &&
        !only_of_groups(v))
      reduce(v, have(v));
  forward_terms_.clear();
}

void Sharder::run() {
  bool backward = false;
  for (const Op& op : from_.ops()) {
    if (op.backward && !backward) reduce_forward_terms();
    backward = op.backward;
    write(op);
  }
}

// Drops what nobody needs: a whole value whose readers took parts that were made alone.
void drop_unread(Graph& g, const std::vector<ValueId>& needed_at_end) {
  std::vector<char> needed(g.n_values(), 0);
  for (ValueId v : needed_at_end) needed[v] = 1;
  needed[0] = 0;
  std::vector<size_t> live;
  for (size_t i = g.ops().size(); i-- > 0;) {
    const Op& op = g.ops()[i];
    if (!op.def->is_cache &&
        std::none_of(op.out.begin(), op.out.end(), [&](ValueId v) { return needed[v]; }))
      continue;
    live.push_back(i);
    for (ValueId v : op.in) needed[v] = 1;
  }
  std::reverse(live.begin(), live.end());
  g.reorder(live);
}

// Makes all collectives known, in the order of the program.
void register_collectives(Graph& g, const std::vector<PendingCollective>& pending,
                          const AddShardCollective& add) {
  std::vector<int64_t> id_of(pending.size(), -1);
  for (size_t i = 0; i < g.ops().size(); ++i) {
    const Op& op = g.ops()[i];
    if (op.def->collective == CollectiveOp::kNone) continue;
    const auto at = static_cast<size_t>(-1 - op.attrs.integer("id", 0));
    if (op.def->collective == CollectiveOp::kStart) {
      const PendingCollective& c = pending.at(at);
      const plait_shape &in = g.shape(op.in[0]), &out = g.shape(op.out[0]);
      id_of[at] = add(c.axis, c.name, c.kind, c.reduction, in.dtype,
                      static_cast<uint64_t>(std::min(elements(in), elements(out))));
    }
    g.set_attr(i, attr("id", id_of.at(at)));
  }
}

}  // namespace

Attrs attrs_of_rank(const ShardContext& u, int64_t vocabulary) {
  Attrs attrs = u.op.attrs;
  attrs.set(attr("first", u.rank * ((vocabulary + u.ranks - 1) / u.ranks)));
  attrs.set(attr("total", vocabulary));
  return attrs;
}

std::unique_ptr<Graph> shard_graph(const Graph& g, const std::vector<MeshAxis>& mesh,
                                   const std::map<ValueId, Placements>& sharded,
                                   const std::vector<RequestedValue>& requested,
                                   const AddShardCollective& add, std::vector<ValueId>& made) {
  const Graph* from = &g;
  std::unique_ptr<Graph> current;
  std::map<ValueId, Placements> placements = sharded;
  std::vector<PendingCollective> collectives;
  made.clear();
  for (const RequestedValue& r : requested) made.push_back(r.value);
  for (size_t a = 0; a < mesh.size(); ++a) {
    std::map<ValueId, Placement> along;
    for (const auto& [v, p] : placements) along[v] = p.at(a);
    std::vector<char> needed(from->n_values(), 0);
    for (ValueId v : made) needed[v] = 1;
    Sharder sharder(*from, mesh[a], a, along, std::move(needed), collectives);
    sharder.run();
    for (size_t i = 0; i < made.size(); ++i)
      if (made[i]) made[i] = sharder.requested(made[i], requested[i].placements.at(a));
    std::map<ValueId, Placements> next;
    for (const auto& [v, p] : placements) next[sharder.persistent(v)] = p;
    placements = std::move(next);
    current = sharder.take();
    current->write_like({});
    drop_unread(*current, made);
    from = current.get();
  }
  if (!current) return std::make_unique<Graph>(g);
  register_collectives(*current, collectives, add);
  return current;
}

}  // namespace plait::program
