#include "engine/program/cut.hpp"

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/program/rule.hpp"

namespace plait::program {
namespace {

const Op* maker_of(const Graph& g, ValueId v) {
  const int32_t producer = g.value(v).producer;
  return producer < 0 ? nullptr : &g.ops()[static_cast<size_t>(producer)];
}

// One number, or many alike, that nothing goes into: made wherever it is read.
bool is_constant(const Graph& g, ValueId v) {
  const Op* op = maker_of(g, v);
  return op && op->name == "map" && op->in.empty();
}

}  // namespace

Pieces::Pieces(const Graph& whole, int32_t stages, bool split_weights,
               const std::vector<Delivery>& deliveries)
    : whole_(whole),
      split_(split_weights),
      piece_(whole.ops().size()),
      kept_(static_cast<size_t>(stages)) {
  assign_passes(deliveries);
  for (size_t i = 0; i < whole.ops().size(); ++i)
    for (ValueId v : whole.ops()[i].in) note_reader(v, piece_[i]);
  for (const Delivery& d : deliveries) note_reader(d.value, delivery_of(d.value, d.stage));
  for (const auto& [root, travel] : travels_)
    for (int32_t s = std::min(travel.from, travel.to); s <= std::max(travel.from, travel.to); ++s)
      kept_.at(static_cast<size_t>(s)).push_back(root);
}

// With split weights the backward pass keeps only what an earlier stage waits for.
void Pieces::assign_passes(const std::vector<Delivery>& deliveries) {
  const auto& ops = whole_.ops();
  std::vector<char> needed(whole_.n_values(), 0);
  const auto from_later_stage = [&](ValueId v, int32_t stage) {
    const Op* maker = maker_of(whole_, v);
    return maker && maker->backward && maker->stage > stage;
  };
  for (const Delivery& d : deliveries) needed[d.value] = from_later_stage(d.value, d.stage);
  for (size_t i = ops.size(); i-- > 0;) {
    const Op& op = ops[i];
    piece_[i] = {op.stage, op.backward ? Pass::kBackward : Pass::kForward};
    backward_ = backward_ || op.backward;
    if (!op.backward || !split_) continue;
    if (std::none_of(op.out.begin(), op.out.end(), [&](ValueId v) { return needed[v] != 0; })) {
      piece_[i].pass = Pass::kWeights;
      // Whoever made what it reads on a later stage has to hand it on.
      for (ValueId v : op.in)
        if (from_later_stage(v, op.stage)) needed[v] = 1;
      continue;
    }
    for (ValueId v : op.in) needed[v] = 1;
  }
}

Piece Pieces::delivery_of(ValueId v, int32_t stage) const {
  const int32_t producer = whole_.value(v).producer;
  const Piece last{stage, !backward_ ? Pass::kForward : split_ ? Pass::kWeights : Pass::kBackward};
  if (producer < 0) return last;
  const Piece& made = piece_[static_cast<size_t>(producer)];
  return made.stage == stage ? made : last;
}

void Pieces::note_reader(ValueId v, const Piece& reader) {
  const ValueId root = whole_.root(v);
  if (whole_.value(root).producer < 0 || is_constant(whole_, root)) return;
  const Piece& made = piece_[static_cast<size_t>(whole_.value(root).producer)];
  if (made == reader) return;
  const bool backward = made.pass != Pass::kForward;
  const auto [at, fresh] = travels_.try_emplace(root, Travel{made.stage, made.stage, backward});
  Travel& travel = at->second;
  if (backward ? reader.stage > made.stage : reader.stage < made.stage)
    fail_internal("[program] a value of " + maker_of(whole_, root)->scope + " in stage " +
                  std::to_string(made.stage) + " is read in stage " + std::to_string(reader.stage) +
                  ", where it cannot come to");
  travel.to = backward ? std::min(travel.to, reader.stage) : std::max(travel.to, reader.stage);
}

std::vector<ValueId> Pieces::received(const Piece& piece) const {
  std::vector<ValueId> all;
  for (const auto& [root, t] : travels_) {
    const bool arrives =
        t.backward ? piece.pass == Pass::kBackward && t.to <= piece.stage && piece.stage < t.from
                   : piece.pass == Pass::kForward && t.from < piece.stage && piece.stage <= t.to;
    if (arrives) all.push_back(root);
  }
  return all;
}

std::vector<ValueId> Pieces::sent(const Piece& piece) const {
  Piece neighbour = piece;
  neighbour.stage += piece.pass == Pass::kForward ? 1 : -1;
  return piece.pass == Pass::kWeights ? std::vector<ValueId>{} : received(neighbour);
}

ValueId extracted(const Graph& whole, ValueId v, const Import& import, Graph& to,
                  std::map<ValueId, ValueId>& made) {
  if (const auto at = made.find(v); at != made.end()) return at->second;
  if (!is_constant(whole, whole.root(v))) return made[v] = import(to, v);
  Op copy = *maker_of(whole, v);  // the constant, or a view of it
  copy.out.clear();
  for (ValueId& in : copy.in) in = extracted(whole, in, import, to, made);
  return made[v] = to.append(std::move(copy), {whole.shape(v)})[0];
}

void extract(const Graph& whole, const Pieces& pieces, const Piece& piece, const Import& import,
             Graph& to, std::map<ValueId, ValueId>& made) {
  for (size_t i = 0; i < whole.ops().size(); ++i) {
    if (pieces.of(i) != piece) continue;
    Op copy = whole.ops()[i];
    to.scope = copy.scope;
    to.backward = copy.backward;
    to.stage = copy.stage;
    for (ValueId& v : copy.in) v = extracted(whole, v, import, to, made);
    std::vector<plait_shape> shapes;
    const std::vector<ValueId> old = std::move(copy.out);
    copy.out.clear();
    for (ValueId v : old) shapes.push_back(whole.shape(v));
    const std::vector<ValueId> fresh = to.append(std::move(copy), shapes);
    for (size_t k = 0; k < old.size(); ++k) {
      made[old[k]] = fresh[k];
      const Value& was = whole.value(old[k]);
      if (was.same_as) to.value(fresh[k]).same_as = made.at(was.same_as);
      to.value(fresh[k]).inside = was.inside;
    }
  }
  to.backward = false;
}

std::map<std::pair<ValueId, int32_t>, ValueId> split_leaves(Graph& g,
                                                            const std::vector<ValueId>& leaves) {
  std::map<std::pair<ValueId, int32_t>, ValueId> made;
  std::vector<char> is_leaf(g.n_values(), 0), taken(g.n_values(), 0);
  for (ValueId v : leaves) is_leaf[v] = 1;
  for (Op& op : g.ops())
    for (ValueId& v : op.in) {
      if (v >= is_leaf.size() || !is_leaf[v]) continue;
      const ValueId leaf = v;
      ValueId& own = made[{leaf, op.stage}];
      if (!own && !taken[leaf]) own = leaf;
      taken[leaf] = 1;
      if (!own) {
        const Value original = g.value(leaf);
        own = g.persistent(original.name, original.shape, original.place);
        g.value(own).wants_gradient = original.wants_gradient;
      }
      v = own;
      if (op.rule->is_view) g.value(op.out[0]).same_as = own;
    }
  for (ValueId v : leaves)
    if (!taken[v]) made[{v, 0}] = v;  // nobody reads it
  return made;
}

}  // namespace plait::program
