#include "engine/program/recompute.hpp"

#include <algorithm>
#include <map>
#include <string_view>

#include "engine/program/op_def.hpp"

namespace plait::program {
namespace {

// The layer that an op belongs to, or the named block of layers: "model.fc"; "model.h0" for layer
// "model.h0.attn".
std::string_view layer_of(const std::string& scope) {
  const size_t first = scope.find('.'), last = scope.rfind('.');
  return first == last ? std::string_view(scope) : std::string_view(scope).substr(0, last);
}

// Readers and producers of values.
struct ReaderFlags {
  explicit ReaderFlags(const Graph& g) : backward(g.n_values(), 0), elsewhere(g.n_values(), 0) {
    for (const Op& op : g.ops())
      for (ValueId v : op.in) {
        if (op.backward)
          backward[v] = 1;
        else if (const Op* maker = producer_of(g, v);
                 maker && layer_of(maker->scope) != layer_of(op.scope))
          elsewhere[v] = 1;
      }
  }
  static const Op* producer_of(const Graph& g, ValueId v) {
    const int32_t producer = g.value(v).producer;
    return producer < 0 ? nullptr : &g.ops()[static_cast<size_t>(producer)];
  }
  std::vector<char> backward;   // a backward op reads it
  std::vector<char> elsewhere;  // a forward op of another layer reads it
};

bool can_recompute(const Graph& g, ValueId v) {
  const Op* op = ReaderFlags::producer_of(g, v);
  return op && !op->backward && op->def->collective == CollectiveOp::kNone;
}

// The FLOPs to compute a value from values that are saved anyway.
class Work {
 public:
  Work(const Graph& g, const ReaderFlags& readers)
      : g_(g), readers_(readers), seen_(g.n_values(), 0) {}
  double of(ValueId v) {
    std::vector<ValueId> open{v};
    double sum = 0;
    while (!open.empty()) {
      const ValueId u = open.back();
      open.pop_back();
      if (seen_[u] == v || !can_recompute(g_, u)) continue;
      seen_[u] = v;
      const Op& op = *ReaderFlags::producer_of(g_, u);
      sum += flops_of(g_, op);
      for (ValueId w : op.in)
        if (!readers_.backward[w]) open.push_back(w);
    }
    return sum;
  }

 private:
  const Graph& g_;
  const ReaderFlags& readers_;
  std::vector<ValueId> seen_;  // the last requested value that needs this one
};

// Copies of forward ops, each before its first reader.
class Rematerializer {
 public:
  Rematerializer(Graph& g, const std::vector<ValueId>& dropped, bool within_layers)
      : g_(g), readers_(g), dropped_(g.n_values(), 0), within_layers_(within_layers) {
    for (ValueId v : dropped) dropped_[v] = 1;
  }
  void run();

 private:
  // For ops of this scope and stage.
  bool is_saved(ValueId v, const std::string& scope, int32_t stage) const {
    if (!can_recompute(g_, v)) return true;
    const Op& maker = *ReaderFlags::producer_of(g_, v);
    if (maker.stage != stage || (within_layers_ && layer_of(maker.scope) != layer_of(scope)))
      return true;
    return readers_.backward[v] && !dropped_[v];
  }
  ValueId rematerialize(ValueId v, size_t reader);
  // The first input of v's maker that must be made again before it; 0: none.
  ValueId missing_input(ValueId v) const;
  void copy_maker(ValueId v, size_t reader);

  Graph& g_;
  const ReaderFlags readers_;
  std::vector<char> dropped_;
  const bool within_layers_;
  std::map<ValueId, ValueId> made_;
  std::vector<std::pair<size_t, size_t>> copies_;  // before which op, which op
};

ValueId Rematerializer::missing_input(ValueId v) const {
  const Op& maker = *ReaderFlags::producer_of(g_, v);
  const auto missing = std::find_if(maker.in.begin(), maker.in.end(), [&](ValueId u) {
    return !is_saved(u, maker.scope, maker.stage) && !made_.contains(u);
  });
  return missing == maker.in.end() ? 0 : *missing;
}

void Rematerializer::copy_maker(ValueId v, size_t reader) {
  Op copy = *ReaderFlags::producer_of(g_, v);
  std::vector<plait_shape> shapes;
  for (ValueId o : copy.out) shapes.push_back(g_.shape(o));
  for (ValueId& u : copy.in)
    if (!is_saved(u, copy.scope, copy.stage)) u = made_.at(u);
  const std::vector<ValueId> old = copy.out;
  copy.out.clear();
  const std::string scope = copy.scope;
  g_.scope = scope;
  g_.stage = copy.stage;
  g_.backward = true;
  g_.not_deferred = false;
  const std::vector<ValueId> fresh = g_.append(std::move(copy), shapes);
  g_.backward = false;
  copies_.emplace_back(reader, g_.ops().size() - 1);
  for (size_t i = 0; i < old.size(); ++i) made_[old[i]] = fresh[i];
}

// Inputs before the op that reads them. A loop: the chain is as long as a stage.
ValueId Rematerializer::rematerialize(ValueId v, size_t reader) {
  std::vector<ValueId> open{v};
  while (!open.empty()) {
    const ValueId u = open.back();
    if (!made_.contains(u)) {
      if (const ValueId input = missing_input(u)) {
        open.push_back(input);
        continue;
      }
      copy_maker(u, reader);
    }
    open.pop_back();
  }
  return made_.at(v);
}

void Rematerializer::run() {
  const size_t n = g_.ops().size();
  for (size_t i = 0; i < n; ++i) {
    if (!g_.ops()[i].backward) continue;
    for (size_t k = 0; k < g_.ops()[i].in.size(); ++k) {
      const ValueId v = g_.ops()[i].in[k];
      if (v >= dropped_.size() || !dropped_[v]) continue;
      // A value from an earlier stage cannot be recomputed here.
      if (ReaderFlags::producer_of(g_, v)->stage != g_.ops()[i].stage) continue;
      g_.set_input(i, k, rematerialize(v, i));
    }
  }
  std::vector<size_t> order;
  size_t next = 0;  // copies come in the order of their readers
  for (size_t i = 0; i < n; ++i) {
    for (; next < copies_.size() && copies_[next].first == i; ++next)
      order.push_back(copies_[next].second);
    order.push_back(i);
  }
  // Removes no op: outputs of the program may not be bound yet.
  g_.reorder(order);
}

}  // namespace

std::vector<SavedValue> saved_values(const Graph& g) {
  const ReaderFlags readers(g);
  Work work(g, readers);
  std::vector<SavedValue> all;
  for (ValueId v = 1; v < g.n_values(); ++v) {
    if (!readers.backward[v] || !can_recompute(g, v)) continue;
    const bool view = ReaderFlags::producer_of(g, v)->def->is_view;
    all.push_back({v, view ? 0 : bytes(g.shape(v)), work.of(v), !readers.elsewhere[v]});
  }
  return all;
}

void recompute(Graph& g, const std::vector<ValueId>& dropped, bool within_layers) {
  if (!dropped.empty()) Rematerializer(g, dropped, within_layers).run();
}

}  // namespace plait::program
