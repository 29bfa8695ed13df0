#include "engine/program/shard.hpp"

#include <plait/comm.h>

#include <algorithm>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/sharded_values.hpp"

namespace plait::program {
namespace {

// Writes the ops of the program of one rank along one axis of the mesh.
class Sharder {
 public:
  // requested: by value of `from`, whether it is needed when the program has run.
  Sharder(const Graph& from, const MeshAxis& axis, ShardedValues& values,
          std::vector<char> requested)
      : from_(from),
        axis_(axis),
        values_(values),
        to_(values.graph()),
        requested_(std::move(requested)) {}

  void run();

 private:
  void write(const Op& op);
  bool write_by_rule(const Op& op);
  bool write_partial(const Op& op);
  bool write_map_of_groups(const Op& op);
  Sharding sharding_of(const Op& op) const;
  std::vector<ValueId> write_with(const Op& op, const Sharding& sharding);
  void check_shards(const Op& op, const Sharding& sharding, const std::vector<ValueId>& made) const;
  void reduce_forward_terms();
  bool only_of_groups(ValueId v) const;

  const Graph& from_;
  const MeshAxis& axis_;
  ShardedValues& values_;
  Graph& to_;
  std::vector<char> requested_;
};

// Element by element each rank computes the rows of its groups.
bool Sharder::write_map_of_groups(const Op& op) {
  const auto at = std::find_if(op.in.begin(), op.in.end(),
                               [&](ValueId v) { return values_.native(v).is_in_groups(); });
  if (!op.def->is_map || at == op.in.end()) return false;
  const Placement rows = values_.native(*at);
  std::vector<Placement> as_shards;
  for (ValueId v : op.in)
    as_shards.push_back(values_.native(v) == rows ? shard_along(0) : kReplicated);
  Sharding s{std::vector<Placement>(op.in.size()), std::vector<Placement>(op.out.size())};
  if (!op.def->shard(from_, op, as_shards, axis_.ranks, s) || s.out[0] != shard_along(0))
    return false;
  bool zeros = s.keeps_zeros;
  std::vector<ValueId> in;
  for (size_t i = 0; i < op.in.size(); ++i) {
    const bool own = as_shards[i].is_shard();
    zeros = zeros && (!s.in[i].is_shard() || (own && values_.has_zeros(op.in[i])));
    in.push_back(own ? values_.rows_in_groups(op.in[i], false)
                     : values_.converted(op.in[i], kReplicated));
  }
  Op copy = op;
  copy.in = std::move(in);
  copy.out.clear();
  const ValueId made = to_.append(std::move(copy), {from_.shape(op.out[0])})[0];
  values_.set(op.out[0], rows, made, zeros);
  return true;
}

Sharding Sharder::sharding_of(const Op& op) const {
  Sharding whole{std::vector<Placement>(op.in.size()), std::vector<Placement>(op.out.size())};
  const std::vector<Placement> lie = values_.have(op);
  if (!op.def->shard ||
      std::all_of(lie.begin(), lie.end(), [](Placement p) { return p.is_replicated(); }))
    return whole;
  Sharding sharded = whole;
  if (!op.def->shard(from_, op, lie, axis_.ranks, sharded)) return whole;
  bool pads = false;
  for (size_t i = 0; i < op.in.size(); ++i) {
    if (!values_.padded(op.in[i], sharded.in[i])) continue;
    pads = true;
    // A whole value is not cut up for the sake of padding.
    if (lie[i] != sharded.in[i] && !values_.can_make_part(op.in[i], sharded.in[i].dim))
      return whole;
  }
  for (size_t i = 0; i < op.out.size(); ++i)
    pads = pads || values_.padded(op.out[i], sharded.out[i]);
  return pads && !sharded.keeps_zeros ? whole : sharded;
}

// An op whose sharded form is not the same op over shards.
bool Sharder::write_by_rule(const Op& op) {
  if (!op.def->write_sharded) return false;
  const std::vector<Placement> lie = values_.have(op);
  if (std::all_of(lie.begin(), lie.end(), [](Placement p) { return p.is_replicated(); }))
    return false;
  ShardContext context = values_.context_of(op, lie);
  if (!op.def->write_sharded(context)) return false;
  for (size_t i = 0; i < op.out.size(); ++i) {
    const Placement& p = context.out_placement[i];
    values_.set(op.out[i], p, context.out[i], p.is_in_groups());
  }
  return true;
}

// A linear op on partial sums alone makes a partial sum: one collective for all of them. Not where
// another reader has the terms reduced, nor across stages, which exchange complete values.
bool Sharder::write_partial(const Op& op) {
  if (!op.def->is_linear || !op.def->is_linear(op)) return false;
  for (ValueId v : op.in) {
    const Placement p = values_.native(v);
    if (!p.is_partial() || p.reduction != PLAIT_COMM_SUM || requested_[v] || p.is_in_groups() ||
        values_.terms_are_reduced(v) || from_.readers(v).size() != 1)
      return false;
    const Op& producer = values_.producer(v);
    if (producer.stage != op.stage || producer.backward != op.backward) return false;
  }
  Op copy = op;
  copy.in.clear();
  copy.out.clear();
  for (ValueId v : op.in) copy.in.push_back(values_.read_terms(v));
  const ValueId made = to_.append(std::move(copy), {from_.shape(op.out[0])})[0];
  values_.set(op.out[0], partial(PLAIT_COMM_SUM), made);
  return true;
}

std::vector<ValueId> Sharder::write_with(const Op& op, const Sharding& sharding) {
  std::vector<ValueId> in;
  for (size_t i = 0; i < op.in.size(); ++i)
    in.push_back(values_.converted(op.in[i], sharding.in[i]));
  to_.scope = op.scope;
  const plait_shape shard = values_.local(from_.shape(op.out[0]), sharding.out[0]);
  if (op.def->is_map) {
    Op copy = op;
    copy.in = std::move(in);
    copy.out.clear();
    return to_.append(std::move(copy), {shard});
  }
  Attrs attrs = op.def->attrs_of_part ? op.def->attrs_of_part(op, shard) : op.attrs;
  // A collective along an axis that was taken before may work in place.
  const bool in_place = !op.def->is_view && from_.value(op.out[0]).alias_of != 0;
  std::vector<ValueId> made;
  if (in_place)
    made = {to_.apply_in_place(op.name, std::move(in), std::move(attrs))};
  else
    made = to_.apply(op.name, std::move(in), std::move(attrs));
  check_shards(op, sharding, made);
  return made;
}

// The shapes that the op itself gives of its shards must be what its sharding rule has said.
void Sharder::check_shards(const Op& op, const Sharding& sharding,
                           const std::vector<ValueId>& made) const {
  for (size_t i = 0; i < op.out.size(); ++i) {
    const plait_shape expected = values_.local(from_.shape(op.out[i]), sharding.out[i]);
    if (values_.is_reduced(made[i])) continue;  // an equal product's term, which is f32 since then
    if (same(to_.shape(made[i]), expected)) continue;
    fail(op.def->item ? PLAIT_ERR_PLUGIN : PLAIT_ERR_INTERNAL,
         "[" + op.scope + "] " + op.name + owner_of(*op.def) + ": shard() makes result " +
             std::to_string(i) + " " + text(expected) + " on each of " +
             std::to_string(axis_.ranks) + " ranks, infer() gives " + text(to_.shape(made[i])) +
             "; tell its author");
  }
}

void Sharder::write(const Op& op) {
  to_.write_like(op);
  if (write_map_of_groups(op) || write_partial(op) || write_by_rule(op)) return;
  const Sharding sharding = sharding_of(op);
  // A bias is added once, to the sum.
  Op without;
  const size_t addend =
      sharding.out[0].is_partial() && op.def->addend ? op.def->addend(op, without) : 0;
  const std::vector<ValueId> made = write_with(addend ? without : op, sharding);
  for (size_t i = 0; i < op.out.size(); ++i) values_.set(op.out[i], sharding.out[i], made[i]);
  if (!addend) return;
  const ValueId y = op.out[0];
  values_.reduce(y, values_.preferred(y, sharding.out[0].reduction));
  // To the sum as f32, as one rank's product adds it.
  const ShardedValues::Reduced sum = values_.sum_of(y);
  const ValueId all = binary(to_, "add", sum.wide, values_.converted(op.in[addend], kReplicated));
  values_.set(y, sum.placement, to_.as_type(all, to_.shape(sum.value).dtype));
}

// Whether no reader of rows in groups needs the rows of all ranks.
bool Sharder::only_of_groups(ValueId v) const {
  const std::vector<int32_t>& readers = from_.readers(v);
  return values_.native(v).is_in_groups() && !requested_[v] &&
         std::all_of(readers.begin(), readers.end(), [&](int32_t r) {
           const OpDef& def = *from_.ops()[static_cast<size_t>(r)].def;
           return def.is_map || def.grouping != Grouping::kNone;
         });
}

// The backward pass begins: what it reads of the forward pass is complete.
void Sharder::reduce_forward_terms() {
  for (ValueId v : values_.take_forward_terms())
    if (values_.native(v).is_partial() && (requested_[v] || !from_.readers(v).empty()) &&
        !only_of_groups(v))
      values_.reduce(v, values_.have(v));
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
    ShardedValues values(*from, mesh[a], a, along, collectives);
    Sharder(*from, mesh[a], values, std::move(needed)).run();
    for (size_t i = 0; i < made.size(); ++i)
      if (made[i]) made[i] = values.requested(made[i], requested[i].placements.at(a));
    std::map<ValueId, Placements> next;
    for (const auto& [v, p] : placements) next[values.persistent(v)] = p;
    placements = std::move(next);
    current = values.take();
    current->write_like({});
    drop_unread(*current, made);
    from = current.get();
  }
  if (!current) return std::make_unique<Graph>(g);
  register_collectives(*current, collectives, add);
  return current;
}

}  // namespace plait::program
