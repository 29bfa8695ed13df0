#include "engine/program/rematerialize.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "engine/program/op_def.hpp"

namespace plait::program {
namespace {

// More instructions than one element-wise op can hold would need a second op and memory between the
// two, which is no longer cheap.
constexpr size_t kMaxOps = 64;

const Op* producer_of(const Graph& g, ValueId v) {
  const int32_t producer = g.value(v).producer;
  return producer < 0 ? nullptr : &g.ops()[static_cast<size_t>(producer)];
}

// The cheap ops, and the memory that is kept in any case.
class Survey {
 public:
  explicit Survey(const Graph& g) : g_(g), written_(g.n_values(), -1), kept_(g.n_values(), 0) {
    for (size_t i = 0; i < g.ops().size(); ++i)
      if (!g.ops()[i].def->is_view)
        for (ValueId v : g.ops()[i].out) written_[g.storage_of(v)] = static_cast<int32_t>(i);
    for (const Op& op : g.ops())
      for (ValueId v : op.in)
        if (keeps(op, v)) keep(v);
  }
  bool cheap(size_t i) const {
    const Op& op = g_.ops()[i];
    if (!op.def->is_map || op.backward || op.out.size() != 1) return false;
    const Value& out = g_.value(op.out[0]);
    if (!is_float(out.shape.dtype) || out.alias_of || out.role != Role::kTransient ||
        elements(out.shape) <= 1)
      return false;
    // A value that is overwritten later cannot be read again.
    return std::all_of(op.in.begin(), op.in.end(), [&](ValueId v) {
      return written_[g_.storage_of(v)] < static_cast<int32_t>(i);
    });
  }
  // The bytes needed to keep the value for the backward pass.
  uint64_t cost(ValueId v) const {
    const ValueId storage = g_.storage_of(v);
    const Value& memory = g_.value(storage);
    const bool outside = memory.role == Role::kPersistent || memory.producer < 0;
    return outside || kept_[storage] || elements(memory.shape) <= 1 ? 0 : bytes(memory.shape);
  }
  void keep(ValueId v) { kept_[g_.storage_of(v)] = 1; }

 private:
  // Values that cross stages lie in memory that outlives the pass.
  bool keeps(const Op& reader, ValueId v) const {
    const Op* maker = producer_of(g_, v);
    if (!maker || maker->backward) return false;
    if (maker->stage != reader.stage) return true;
    return reader.backward && (!reader.def->is_map || maker->scope != reader.scope);
  }

  const Graph& g_;
  std::vector<int32_t> written_;  // by root: the last op that writes there
  std::vector<char> kept_;        // by root
};

// A connected set of cheap ops of one layer, ascending.
using Region = std::vector<size_t>;

std::vector<Region> regions_of(const Graph& g, const Survey& survey) {
  const size_t n = g.ops().size();
  std::vector<size_t> first(n);  // union-find: parents lead to the first op of the region
  std::iota(first.begin(), first.end(), size_t{0});
  const auto find = [&](size_t i) {
    while (first[i] != i) i = first[i] = first[first[i]];
    return i;
  };
  std::vector<char> cheap(n, 0);
  for (size_t i = 0; i < n; ++i) {
    cheap[i] = survey.cheap(i);
    if (!cheap[i]) continue;
    const Op& op = g.ops()[i];
    for (ValueId v : op.in) {
      const Op* maker = producer_of(g, v);
      if (!maker || maker->scope != op.scope || maker->stage != op.stage) continue;
      const auto p = static_cast<size_t>(g.value(v).producer);
      if (!cheap[p]) continue;
      const size_t a = find(i), b = find(p);
      first[std::max(a, b)] = std::min(a, b);
    }
  }
  std::map<size_t, Region> by_first;
  for (size_t i = 0; i < n; ++i)
    if (cheap[i]) by_first[find(i)].push_back(i);
  std::vector<Region> all;
  for (auto& [f, region] : by_first)
    if (region.size() <= kMaxOps) all.push_back(std::move(region));
  return all;
}

// Maximum flow by shortest augmenting paths (Edmonds and Karp 1972). Regions are small.
class Flow {
 public:
  static constexpr uint64_t kInfinite = std::numeric_limits<uint64_t>::max() / 4;
  explicit Flow(size_t nodes) : edges_of_(nodes) {}
  void connect(size_t from, size_t to, uint64_t capacity) {
    edges_of_[from].push_back(edges_.size());
    edges_.push_back({from, to, capacity});
    edges_of_[to].push_back(edges_.size());
    edges_.push_back({to, from, 0});
  }
  void run(size_t source, size_t sink) {
    while (augment(source, sink)) {
    }
  }
  // The nodes from which more could flow to the sink: they lie beyond the cut closest to it.
  std::vector<char> beyond(size_t sink) const {
    std::vector<char> reached(edges_of_.size(), 0);
    std::vector<size_t> open{sink};
    reached[sink] = 1;
    while (!open.empty()) {
      const size_t node = open.back();
      open.pop_back();
      for (const size_t e : edges_of_[node]) {
        const Edge& back = edges_[e ^ 1];  // comes in
        if (back.left == 0 || reached[back.from]) continue;
        reached[back.from] = 1;
        open.push_back(back.from);
      }
    }
    return reached;
  }

 private:
  struct Edge {
    size_t from, to;
    uint64_t left;  // capacity; the edge at the index with the last bit flipped is its reverse
  };
  bool augment(size_t source, size_t sink) {
    std::vector<size_t> by(edges_of_.size(), SIZE_MAX), open{source};
    for (size_t k = 0; k < open.size() && by[sink] == SIZE_MAX; ++k)
      for (const size_t e : edges_of_[open[k]]) {
        const size_t to = edges_[e].to;
        if (edges_[e].left == 0 || to == source || by[to] != SIZE_MAX) continue;
        by[to] = e;
        open.push_back(to);
      }
    if (by[sink] == SIZE_MAX) return false;
    uint64_t most = kInfinite;
    for (size_t node = sink; node != source; node = edges_[by[node]].from)
      most = std::min(most, edges_[by[node]].left);
    for (size_t node = sink; node != source; node = edges_[by[node]].from) {
      edges_[by[node]].left -= most;
      edges_[by[node] ^ 1].left += most;
    }
    return true;
  }

  std::vector<Edge> edges_;
  std::vector<std::vector<size_t>> edges_of_;
};

// Element-wise backward ops of the region's layer that read a value.
std::vector<size_t> later_readers(const Graph& g, ValueId v, const Op& of) {
  std::vector<size_t> all;
  for (const int32_t r : g.readers(v)) {
    const Op& op = g.ops()[static_cast<size_t>(r)];
    if (op.backward && op.def->is_map && op.scope == of.scope && op.stage == of.stage)
      all.push_back(static_cast<size_t>(r));
  }
  return all;
}

// One region: chooses the values to keep and copies the other ops for the backward pass.
class Rewriter {
 public:
  Rewriter(Graph& g, Survey& survey) : g_(g), survey_(survey), n_(g.ops().size()) {}
  void rewrite(const Region& region);
  void finish();

 private:
  std::map<ValueId, char> cut(const Region& region);
  void copy(const Region& region, const std::map<ValueId, char>& made_again);

  Graph& g_;
  Survey& survey_;
  const size_t n_;                                 // ops before anything was copied
  std::vector<std::pair<size_t, size_t>> copies_;  // before which op, which op
};

// The values of a region and its inputs; 1: recomputed where the backward pass reads them, 0:
// not.
std::map<ValueId, char> Rewriter::cut(const Region& region) {
  std::map<ValueId, size_t> index;
  std::vector<ValueId> values;
  const auto node = [&](ValueId v) {
    const auto [at, fresh] = index.try_emplace(v, values.size());
    if (fresh) values.push_back(v);
    return at->second;
  };
  for (const size_t i : region) node(g_.ops()[i].out[0]);
  for (const size_t i : region)
    for (ValueId v : g_.ops()[i].in) node(v);
  // Value k is an edge from node 2k to node 2k + 1 with the bytes needed to keep it as capacity.
  const size_t source = 2 * values.size(), sink = source + 1;
  Flow flow(sink + 1);
  for (size_t k = 0; k < values.size(); ++k) {
    flow.connect(2 * k, 2 * k + 1, survey_.cost(values[k]));
    if (k >= region.size()) flow.connect(source, 2 * k, Flow::kInfinite);
    if (!later_readers(g_, values[k], g_.ops()[region[0]]).empty())
      flow.connect(2 * k + 1, sink, Flow::kInfinite);
  }
  for (size_t k = 0; k < region.size(); ++k)
    for (ValueId v : g_.ops()[region[k]].in) flow.connect(2 * node(v) + 1, 2 * k, Flow::kInfinite);
  flow.run(source, sink);
  const std::vector<char> beyond = flow.beyond(sink);
  std::map<ValueId, char> made_again;
  for (size_t k = 0; k < values.size(); ++k) {
    made_again[values[k]] = k < region.size() && beyond[2 * k];
    if (!beyond[2 * k] && beyond[2 * k + 1]) survey_.keep(values[k]);
  }
  return made_again;
}

void Rewriter::rewrite(const Region& region) {
  const Op& any = g_.ops()[region[0]];
  if (std::none_of(region.begin(), region.end(),
                   [&](size_t i) { return !later_readers(g_, g_.ops()[i].out[0], any).empty(); }))
    return;
  copy(region, cut(region));
}

// Inserts the copies before the first op that reads one of them.
void Rewriter::copy(const Region& region, const std::map<ValueId, char>& made_again) {
  const Op layer = g_.ops()[region[0]];
  std::map<ValueId, std::vector<size_t>> readers;
  std::vector<char> needed(region.size(), 0);
  std::map<ValueId, size_t> maker;  // index into the region
  size_t first_reader = SIZE_MAX;
  for (size_t k = 0; k < region.size(); ++k) {
    const ValueId v = g_.ops()[region[k]].out[0];
    maker[v] = k;
    if (!made_again.at(v)) continue;
    readers[v] = later_readers(g_, v, layer);
    needed[k] = !readers[v].empty();
    if (needed[k]) first_reader = std::min(first_reader, readers[v].front());
  }
  if (first_reader == SIZE_MAX) return;
  for (size_t k = region.size(); k-- > 0;)
    if (needed[k])
      for (ValueId v : g_.ops()[region[k]].in)
        if (made_again.at(v)) needed[maker.at(v)] = 1;
  g_.scope = layer.scope;
  g_.stage = layer.stage;
  g_.backward = true;
  g_.not_deferred = false;
  std::map<ValueId, ValueId> copied;
  for (size_t k = 0; k < region.size(); ++k) {
    if (!needed[k]) continue;
    Op op = g_.ops()[region[k]];
    const ValueId old = op.out[0];
    op.out.clear();
    for (ValueId& v : op.in)
      if (const auto at = copied.find(v); at != copied.end()) v = at->second;
    copied[old] = g_.append(std::move(op), {g_.shape(old)})[0];
    copies_.emplace_back(first_reader, g_.ops().size() - 1);
    for (const size_t reader : readers[old])
      for (size_t input = 0; input < g_.ops()[reader].in.size(); ++input)
        if (g_.ops()[reader].in[input] == old) g_.set_input(reader, input, copied[old]);
  }
  g_.backward = false;
  g_.stage = 0;
}

void Rewriter::finish() {
  if (copies_.empty()) return;
  std::stable_sort(copies_.begin(), copies_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<size_t> order;
  size_t next = 0;
  for (size_t i = 0; i < n_; ++i) {
    for (; next < copies_.size() && copies_[next].first == i; ++next)
      order.push_back(copies_[next].second);
    order.push_back(i);
  }
  g_.reorder(order);
}

}  // namespace

void rematerialize(Graph& g) {
  Survey survey(g);
  const std::vector<Region> regions = regions_of(g, survey);
  Rewriter rewriter(g, survey);
  for (const Region& region : regions) rewriter.rewrite(region);
  rewriter.finish();
}

}  // namespace plait::program
