#include "engine/program/shard.hpp"

#include <plait/comm.h>

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/program/op_def.hpp"

namespace plait::program {
namespace {

class Sharder {
 public:
  Sharder(const Graph& from, const std::map<ValueId, int32_t>& sharded,
          const TensorGroup& tensor_group)
      : from_(from),
        tensor_group_(tensor_group),
        to_(std::make_unique<Graph>(from.registry(), from.float_type())),
        placements_(from.n_values()) {
    for (ValueId v = 1; v < from.n_values(); ++v) {
      const Value& value = from.value(v);
      if (value.producer >= 0) continue;
      const auto at = sharded.find(v);
      const int32_t dim = at == sharded.end() ? kReplicated : at->second;
      set(v, dim, to_->persistent(value.name, local(value.shape, dim), value.buffer));
    }
  }

  void run() {
    for (const Op& op : from_.ops()) write(op);
  }
  // The value in the form asked for, made where the value is made.
  ValueId requested(const RequestedValue& w);
  std::unique_ptr<Graph> take() { return std::move(to_); }

 private:
  ValueId converted(ValueId v, int32_t dim);
  // A value of the old program in the new one: all of it, a part of it, or both.
  struct Placement {
    ValueId replicated = 0, shard = 0;
    int32_t dim = kReplicated;  // of the part
    bool native_shard = false;
    int32_t converted_in = 0;  // stage that made the form which is not natural
  };

  plait_shape local(plait_shape s, int32_t dim) const {
    if (dim >= 0) s.dims[dim] = (s.dims[dim] + tensor_group_.ranks - 1) / tensor_group_.ranks;
    return s;
  }
  void set(ValueId v, int32_t dim, ValueId made) {
    Placement& f = placements_[v];
    if (dim < 0) {
      f.replicated = made;
    } else {
      f.shard = made;
      f.dim = dim;
      f.native_shard = true;
    }
  }
  bool padded(ValueId v, int32_t dim) const {
    return dim >= 0 && from_.shape(v).dims[dim] % tensor_group_.ranks != 0;
  }
  int32_t native_dim(ValueId v) const {
    return placements_[v].native_shard ? placements_[v].dim : kReplicated;
  }

  Sharding sharding_of(const Op& op) const;
  void write(const Op& op);
  bool write_by_rule(const Op& op);
  ShardContext use_of(const Op& op, const std::vector<int32_t>& have);
  std::vector<ValueId> write_with(const Op& op, const Sharding& sharding);
  void check_parts(const Op& op, const Sharding& sharding, const std::vector<ValueId>& made) const;
  ValueId run_collective(ValueId v, uint32_t kind, uint32_t reduction, const char* what);
  ValueId all_reduced(ValueId partial, uint32_t reduction);
  bool can_produce_shard(ValueId v, int32_t dim) const;
  ValueId produce_shard(ValueId v, int32_t dim);
  ValueId sliced(ValueId full, const plait_shape& shape, int32_t dim);
  ValueId all_gathered(ValueId shard, const plait_shape& full, int32_t dim);

  const Graph& from_;
  const TensorGroup& tensor_group_;
  std::unique_ptr<Graph> to_;
  std::vector<Placement> placements_;
  std::map<ValueId, ValueId> all_reduced_;  // terms -> their sum, which lies in their place
};

// Starts a collective and waits for it. An all-reduce works in place: its operand has no other
// reader.
ValueId Sharder::run_collective(ValueId v, uint32_t kind, uint32_t reduction, const char* what) {
  const plait_shape& s = to_->shape(v);
  const int32_t id = tensor_group_.add(to_->scope + " " + what, kind, reduction, s.dtype,
                                       static_cast<uint64_t>(elements(s)));
  const Attrs attrs{attr("kind", static_cast<int64_t>(kind)), attr("ranks", tensor_group_.ranks),
                    attr("id", static_cast<int64_t>(id))};
  if (kind == PLAIT_COMM_ALL_REDUCE)
    return to_->apply_in_place("collective_done",
                               {to_->apply_in_place("collective_start", {v}, attrs)},
                               {attr("id", static_cast<int64_t>(id))});
  // What is sent must stay until the end: the wait reads it, too.
  return to_->apply_in_place("collective_done", {to_->apply1("collective_start", {v}, attrs), v},
                             {attr("id", static_cast<int64_t>(id))});
}

// The sum or greatest of all ranks' terms. The same terms may come again, with another bias.
ValueId Sharder::all_reduced(ValueId partial, uint32_t reduction) {
  if (const auto known = all_reduced_.find(partial); known != all_reduced_.end())
    return known->second;
  return all_reduced_[partial] =
             run_collective(partial, PLAIT_COMM_ALL_REDUCE, reduction,
                            reduction == PLAIT_COMM_SUM ? "summed" : "compared");
}

// All ranks' parts lie one behind the other when they come; along another dimension than the first
// they are moved into place.
ValueId Sharder::all_gathered(ValueId shard, const plait_shape& full, int32_t dim) {
  ValueId all = run_collective(shard, PLAIT_COMM_ALL_GATHER, 0, "gathered");
  const Dims own = dims_of(to_->shape(shard));
  const int64_t extent = own[static_cast<size_t>(dim)] * tensor_group_.ranks;
  if (dim > 0) {
    Dims stacked{tensor_group_.ranks}, joined = own;
    stacked.insert(stacked.end(), own.begin(), own.end());
    std::vector<int64_t> perm;
    for (int64_t d = 1; d <= static_cast<int64_t>(own.size()); ++d) {
      if (d - 1 == dim) perm.push_back(0);
      perm.push_back(d);
    }
    joined[static_cast<size_t>(dim)] = extent;
    all = to_->apply1("transpose", {reshaped(*to_, all, stacked)}, {attr("perm", perm)});
    all = reshaped(*to_, all, joined);
  }
  if (extent == full.dims[dim]) return all;
  return to_->apply1("slice", {all},
                     {attr("axis", static_cast<int64_t>(dim)), attr("start", int64_t{0}),
                      attr("stop", full.dims[dim])});
}

ValueId Sharder::converted(ValueId v, int32_t dim) {
  Placement& f = placements_[v];
  // Each stage of a pipeline converts for itself: what another one made may not be there in time.
  const bool here = f.converted_in == to_->stage;
  if (dim < 0) {
    if (f.native_shard && (!f.replicated || !here)) {
      f.replicated = all_gathered(f.shard, from_.shape(v), f.dim);
      f.converted_in = to_->stage;
    }
    return f.replicated;
  }
  if (f.shard && f.dim == dim && (f.native_shard || here)) return f.shard;
  if (can_produce_shard(v, dim)) return produce_shard(v, dim);
  const ValueId shard = sliced(converted(v, kReplicated), from_.shape(v), dim);
  if (!f.native_shard && (!f.shard || !here)) {
    f.shard = shard;
    f.dim = dim;
    f.converted_in = to_->stage;
  }
  return shard;
}

// This rank's part of a whole value, with zeros for padding.
ValueId Sharder::sliced(ValueId full, const plait_shape& shape, int32_t dim) {
  const int64_t extent = shape.dims[dim], n = local(shape, dim).dims[dim];
  const int64_t start = std::min(extent, tensor_group_.rank * n),
                stop = std::min(extent, start + n);
  // Also of nothing: what the ranks communicate before this must not depend on who of them needs
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
bool Sharder::can_produce_shard(ValueId v, int32_t dim) const {
  const int32_t producer = from_.value(v).producer;
  if (producer < 0) return false;
  const Op& op = from_.ops()[static_cast<size_t>(producer)];
  return op.def->can_make_part && op.def->can_make_part(op, dim, padded(v, dim));
}

ValueId Sharder::produce_shard(ValueId v, int32_t dim) {
  const Op& op = from_.ops()[static_cast<size_t>(from_.value(v).producer)];
  const std::vector<int32_t> have(op.in.size(), kReplicated);
  ShardContext use = use_of(op, have);
  return op.def->make_part(use, dim, local(from_.shape(v), dim));
}

ShardContext Sharder::use_of(const Op& op, const std::vector<int32_t>& have) {
  return {from_,
          op,
          *to_,
          have,
          tensor_group_.ranks,
          tensor_group_.rank,
          [this, &op](size_t i, int32_t dim) { return converted(op.in[i], dim); },
          [this](ValueId partial, uint32_t reduction) { return all_reduced(partial, reduction); },
          {},
          {}};
}

ValueId Sharder::requested(const RequestedValue& w) {
  if (const int32_t producer = from_.value(w.value).producer; producer >= 0) {
    const Op& op = from_.ops()[static_cast<size_t>(producer)];
    to_->stage = op.stage;
    to_->backward = op.backward;
  }
  return converted(w.value, w.dim);
}

Sharding Sharder::sharding_of(const Op& op) const {
  Sharding sharding{std::vector<int32_t>(op.in.size(), kReplicated),
                    std::vector<int32_t>(op.out.size(), kReplicated),
                    std::vector<uint32_t>(op.out.size(), 0)};
  std::vector<int32_t> have;
  bool any = false;
  for (ValueId v : op.in) {
    have.push_back(native_dim(v));
    any = any || have.back() >= 0;
  }
  if (!any || !op.def->shard) return sharding;
  Sharding sharded = sharding;
  if (!op.def->shard(from_, op, have, tensor_group_.ranks, sharded)) return sharding;
  bool pads = false;
  for (size_t i = 0; i < op.in.size(); ++i) {
    if (!padded(op.in[i], sharded.in[i])) continue;
    pads = true;
    // A whole value is not cut up for the sake of padding.
    if (have[i] != sharded.in[i] && !can_produce_shard(op.in[i], sharded.in[i])) return sharding;
  }
  for (size_t i = 0; i < op.out.size(); ++i) pads = pads || padded(op.out[i], sharded.out[i]);
  return pads && !sharded.keeps_zeros ? sharding : sharded;
}

// An op with a shared form of its own.
bool Sharder::write_by_rule(const Op& op) {
  std::vector<int32_t> have;
  for (ValueId v : op.in) have.push_back(native_dim(v));
  if (!op.def->write_sharded ||
      std::all_of(have.begin(), have.end(), [](int32_t d) { return d < 0; }))
    return false;
  ShardContext use = use_of(op, have);
  if (!op.def->write_sharded(use)) return false;
  for (size_t i = 0; i < op.out.size(); ++i) set(op.out[i], use.out_dims[i], use.out[i]);
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
  const std::vector<ValueId> made = to_->apply(op.name, std::move(in), std::move(attrs));
  check_parts(op, sharding, made);
  return made;
}

// The shapes that the op itself gives of its parts must be what its sharding rule has said.
void Sharder::check_parts(const Op& op, const Sharding& sharding,
                          const std::vector<ValueId>& made) const {
  for (size_t i = 0; i < op.out.size(); ++i) {
    const plait_shape expected = local(from_.shape(op.out[i]), sharding.out[i]);
    if (same(to_->shape(made[i]), expected)) continue;
    fail(op.def->item ? PLAIT_ERR_PLUGIN : PLAIT_ERR_INTERNAL,
         "[" + op.scope + "] " + op.name + ": shard() makes result " + std::to_string(i) + " " +
             text(expected) + " on each of " + std::to_string(tensor_group_.ranks) +
             " ranks, infer() gives " + text(to_->shape(made[i])) + "; tell its author");
  }
}

void Sharder::write(const Op& op) {
  to_->scope = op.scope;
  to_->backward = op.backward;
  to_->stage = op.stage;
  if (write_by_rule(op)) return;
  const Sharding sharding = sharding_of(op);
  // A bias is added once, to the whole sum.
  Op without;
  const size_t addend = sharding.reduce[0] && op.def->addend ? op.def->addend(op, without) : 0;
  const std::vector<ValueId> made = write_with(addend ? without : op, sharding);
  for (size_t i = 0; i < op.out.size(); ++i) {
    ValueId v = made[i];
    if (sharding.reduce[i]) v = all_reduced(v, sharding.reduce[i]);
    if (addend) v = binary(*to_, "add", v, converted(op.in[addend], kReplicated));
    set(op.out[i], sharding.out[i], v);
  }
}

}  // namespace

Attrs attrs_of_rank(const ShardContext& u, int64_t vocabulary) {
  Attrs attrs = u.op.attrs;
  attrs.set(attr("first", u.rank * ((vocabulary + u.ranks - 1) / u.ranks)));
  attrs.set(attr("total", vocabulary));
  return attrs;
}

std::unique_ptr<Graph> shard_graph(const Graph& g, const std::map<ValueId, int32_t>& sharded,
                                   const TensorGroup& tensor_group,
                                   const std::vector<RequestedValue>& requested,
                                   std::vector<ValueId>& made) {
  Sharder p(g, sharded, tensor_group);
  p.run();
  made.clear();
  for (const RequestedValue& w : requested) made.push_back(w.value ? p.requested(w) : 0);
  return p.take();
}

}  // namespace plait::program
