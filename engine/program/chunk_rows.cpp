#include "engine/program/chunk_rows.hpp"

#include <plait/comm.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "engine/program/op_def.hpp"
#include "engine/program/shard.hpp"

namespace plait::program {
namespace {

// The ops around some large values, which are connected by them.
struct Region {
  std::vector<size_t> ops;   // indices, ascending
  std::vector<char> inside;  // by op
  std::vector<ValueId> large;
};

bool is_large(const Graph& g, ValueId v, const ChunkLimits& limits) {
  const Value& value = g.value(v);
  return value.role == Role::kTransient && value.producer >= 0 && value.shape.ndim >= 2 &&
         bytes(value.shape) > limits.bytes;
}

int64_t rows_of(const plait_shape& s) {
  return elements(s) / std::max<int64_t>(s.dims[s.ndim - 1], 1);
}

// All ops that make or read a large value of as many rows which is connected with `first`. The
// gradient of a weight is large, too, but has other rows.
Region region_of(const Graph& g, ValueId first, const ChunkLimits& limits) {
  Region r;
  r.inside.assign(g.ops().size(), 0);
  std::vector<ValueId> open{first};
  std::vector<char> seen(g.n_values(), 0);
  seen[first] = 1;
  while (!open.empty()) {
    const ValueId v = open.back();
    open.pop_back();
    r.large.push_back(v);
    std::vector<int32_t> around = g.readers(v);
    around.push_back(g.value(v).producer);
    for (const int32_t at : around) {
      const auto i = static_cast<size_t>(at);
      if (std::exchange(r.inside[i], char{1})) continue;
      r.ops.push_back(i);
      const Op& op = g.ops()[i];
      for (const auto* values : {&op.in, &op.out})
        for (const ValueId w : *values)
          if (is_large(g, w, limits) && rows_of(g.shape(w)) == rows_of(g.shape(first)) &&
              !std::exchange(seen[w], char{1}))
            open.push_back(w);
    }
  }
  std::sort(r.ops.begin(), r.ops.end());
  return r;
}

// Adds the ops through which a result of the region comes back to it: then all of it can run as a
// whole.
void close(const Graph& g, Region& r) {
  const auto& ops = g.ops();
  std::vector<char> behind(g.n_values(), 0), before(g.n_values(), 0);  // by value
  const auto any = [](const std::vector<ValueId>& values, const std::vector<char>& marked) {
    return std::any_of(values.begin(), values.end(), [&](ValueId v) { return marked[v] != 0; });
  };
  for (size_t i = r.ops.front(); i <= r.ops.back(); ++i)
    if (r.inside[i] || any(ops[i].in, behind))
      for (const ValueId v : ops[i].out) behind[v] = 1;
  for (size_t i = r.ops.back() + 1; i-- > r.ops.front();) {
    if (!r.inside[i] && !any(ops[i].out, before)) continue;
    for (const ValueId v : ops[i].in) before[v] = 1;
    if (r.inside[i] || !any(ops[i].in, behind)) continue;
    r.inside[i] = 1;
    r.ops.push_back(i);
  }
  std::sort(r.ops.begin(), r.ops.end());
}

// The pass that a region becomes a part of: the forward pass if it has forward ops, but in a
// pipeline the backward pass if it has backward ops.
enum class Pass : uint8_t { kForward, kBackward, kMovedToBackward };
Pass pass_of(const Graph& g, const Region& r) {
  const auto& ops = g.ops();
  if (ops[r.ops.front()].backward) return Pass::kBackward;
  const bool pipeline = std::any_of(
      ops.begin(), ops.end(), [&](const Op& op) { return op.stage != ops[r.ops.front()].stage; });
  return pipeline && ops[r.ops.back()].backward ? Pass::kMovedToBackward : Pass::kForward;
}

// The forward ops behind a region, which read what it makes.
std::vector<size_t> forward_behind(const Graph& g, const Region& r) {
  std::vector<char> behind(g.n_values(), 0);
  std::vector<size_t> found;
  for (size_t i = r.ops.front(); i < g.ops().size(); ++i) {
    const Op& op = g.ops()[i];
    if (!r.inside[i] &&
        std::none_of(op.in.begin(), op.in.end(), [&](ValueId v) { return behind[v] != 0; }))
      continue;
    for (const ValueId v : op.out) behind[v] = 1;
    if (!r.inside[i] && !op.backward) found.push_back(i);
  }
  return found;
}

// Whether all ops are of one stage, have a sharding rule, draw no random numbers and communicate
// nothing. What follows a region into the backward pass must be of its stage, too.
bool can_stand_together(const Graph& g, const Region& r) {
  const int32_t stage = g.ops()[r.ops.front()].stage;
  if (pass_of(g, r) == Pass::kMovedToBackward)
    for (const size_t i : forward_behind(g, r))
      if (g.ops()[i].stage != stage) return false;
  return std::all_of(r.ops.begin(), r.ops.end(), [&](size_t i) {
    const Op& op = g.ops()[i];
    return op.stage == stage && !op.def->draws_random && op.def->shard &&
           op.def->collective == CollectiveOp::kNone;
  });
}

// How the values of a region lie on K "ranks", the chunks; found op by op with the sharding rules.
class Layout {
 public:
  Layout(const Graph& g, const Region& r, int64_t chunks, int32_t dim)
      : g_(g), region_(r), chunks_(chunks), dim_(dim) {}

  // False: a large value would have to be whole.
  bool find() {
    for (const size_t i : region_.ops) {
      std::optional<Sharding> s = of(g_.ops()[i]);
      if (!s || !fits(g_.ops()[i], *s)) return false;
      for (size_t k = 0; k < s->out.size(); ++k) placed_[g_.ops()[i].out[k]] = s->out[k];
      shardings_[i] = std::move(*s);
    }
    return true;
  }
  const Sharding& of(size_t op) const { return shardings_.at(op); }
  Placement of_value(ValueId v) const { return placed_.at(v); }

 private:
  // The rows as an op sees them: dimension and extents up to it, of an input that lies in chunks
  // or, where there is none yet, of the result.
  struct Rows {
    int32_t dim;
    Dims extents;
  };
  Rows rows_of(const Op& op) const {
    for (const ValueId v : op.in) {
      const auto at = placed_.find(v);
      if (at != placed_.end() && at->second.is_shard())
        return {at->second.dim, leading(v, at->second.dim)};
    }
    return {dim_, leading(op.out[0], dim_)};
  }
  Dims leading(ValueId v, int32_t dim) const {
    const plait_shape& s = g_.shape(v);
    return Dims(s.dims, s.dims + std::min<int32_t>(dim + 1, static_cast<int32_t>(s.ndim)));
  }
  bool is_weight(ValueId v) const {
    return g_.value(v).role == Role::kPersistent && g_.value(v).requires_grad;
  }
  // Values from outside come in whatever form a rule asks for; they are offered by rows.
  std::optional<Sharding> of(const Op& op) const {
    const Rows rows = rows_of(op);
    std::vector<Placement> have;
    for (const ValueId v : op.in) {
      const auto at = placed_.find(v);
      if (at != placed_.end())
        have.push_back(at->second);
      else
        have.push_back(!is_weight(v) && leading(v, rows.dim) == rows.extents ? shard_along(rows.dim)
                                                                             : kReplicated);
      if (have.back().is_partial()) return std::nullopt;
    }
    if (!first_shard(have).is_shard()) return std::nullopt;
    Sharding s{std::vector<Placement>(op.in.size()), std::vector<Placement>(op.out.size()), false};
    if (!op.def->shard(g_, op, have, chunks_, s)) return std::nullopt;
    return s;
  }
  // Inputs from inside lie as the rule wants them, results in equal chunks or as a sum; a bias that
  // would be added to a sum is added once, which is left to others.
  bool fits(const Op& op, const Sharding& s) const {
    for (size_t i = 0; i < op.in.size(); ++i) {
      const auto at = placed_.find(op.in[i]);
      if (at != placed_.end() ? !(at->second == s.in[i]) : !divides(op.in[i], s.in[i]))
        return false;
    }
    for (size_t i = 0; i < op.out.size(); ++i) {
      const Placement p = s.out[i];
      if (p.is_replicated() || !divides(op.out[i], p)) return false;
      if (!p.is_partial()) continue;
      Op without;
      if (p.reduction != PLAIT_COMM_SUM || (op.def->addend && op.def->addend(op, without) != 0))
        return false;
    }
    return true;
  }
  bool divides(ValueId v, Placement p) const {
    return !p.is_shard() || g_.shape(v).dims[p.dim] % chunks_ == 0;
  }

  const Graph& g_;
  const Region& region_;
  const int64_t chunks_;
  const int32_t dim_;
  std::map<ValueId, Placement> placed_;
  std::map<size_t, Sharding> shardings_;
};

struct Choice {
  int32_t dim = 0;
  int64_t chunks = 1;
};

// The fewest chunks that are small enough, of at least `rows` rows; the most of that size if none
// is small enough. Along the first dimension that can be divided.
Choice choose(const plait_shape& s, const ChunkLimits& limits) {
  const int64_t rows = rows_of(s);
  for (int32_t d = 0; d + 1 < static_cast<int32_t>(s.ndim); ++d) {
    Choice best{d, 1};
    for (int64_t k = 2; k <= s.dims[d] && rows / k >= limits.rows; ++k) {
      if (s.dims[d] % k != 0) continue;
      best.chunks = k;
      if (bytes(s) / static_cast<uint64_t>(k) <= limits.bytes) break;
    }
    if (best.chunks > 1) return best;
    if (s.dims[d] > 1) break;  // rows further in are not contiguous
  }
  return {};
}

// Writes a region chunk by chunk behind the program, then puts it where the region was.
class Chunker {
 public:
  Chunker(Graph& g, const Region& r, const Layout& layout, int64_t chunks,
          const std::vector<ValueId>& needed)
      : g_(g),
        region_(r),
        layout_(layout),
        chunks_(chunks),
        pass_(pass_of(g, r)),
        old_ops_(g.ops().size()),
        begin_(begin_of(g, r, pass_)) {
    for (const size_t i : r.ops)
      for (const ValueId v : g.ops()[i].out)
        if (is_read_outside(v) || std::find(needed.begin(), needed.end(), v) != needed.end())
          results_.push_back(v);
  }
  // Whether a large value would be joined again.
  bool joins_large(const ChunkLimits& limits) const {
    return std::any_of(results_.begin(), results_.end(), [&](ValueId v) {
      return layout_.of_value(v).is_shard() && bytes(g_.shape(v)) > limits.bytes;
    });
  }
  void run() {
    const std::vector<size_t> behind =
        pass_ == Pass::kMovedToBackward ? forward_behind(g_, region_) : std::vector<size_t>();
    for (int64_t c = 0; c < chunks_; ++c) write_chunk(c);
    const std::vector<size_t> moved = moved_before();
    for (const ValueId v : results_) take_place_of(v);
    for (const size_t i : region_.ops) g_.remove(i);
    for (const size_t i : behind) set_backward(i, true);
    place(moved, behind);
  }

 private:
  // The op before which the region stands.
  static size_t begin_of(const Graph& g, const Region& r, Pass pass) {
    size_t at = r.ops.front();
    if (pass == Pass::kMovedToBackward)
      while (!g.ops()[at].backward) ++at;
    return at;
  }
  void set_backward(size_t i, bool backward) {
    Op op = g_.ops()[i];
    op.backward = backward;
    op.not_deferred = backward;
    g_.replace(i, std::move(op));
  }
  bool is_read_outside(ValueId v) const {
    return std::any_of(g_.readers(v).begin(), g_.readers(v).end(),
                       [&](int32_t i) { return !region_.inside[static_cast<size_t>(i)]; });
  }
  ValueId rows(ValueId v, int32_t dim, int64_t c) {
    const int64_t n = g_.shape(v).dims[dim] / chunks_;
    return g_.apply1(
        "slice", {v},
        {attr("axis", static_cast<int64_t>(dim)), attr("start", c * n), attr("stop", (c + 1) * n)});
  }
  void begin_like(const Op& op) {
    g_.write_like(op);
    g_.backward = pass_ != Pass::kForward;
    g_.not_deferred = g_.backward;
  }

  void write_chunk(int64_t c) {
    std::map<ValueId, ValueId> part;  // of this chunk, for values of the region
    for (const size_t i : region_.ops) {
      const Op op = g_.ops()[i];  // a copy: the list grows
      const Sharding& s = layout_.of(i);
      begin_like(op);
      std::vector<ValueId> in;
      for (size_t k = 0; k < op.in.size(); ++k) {
        const ValueId v = op.in[k];
        if (const auto own = part.find(v); own != part.end())
          in.push_back(own->second);
        else
          in.push_back(s.in[k].is_shard() ? rows(v, s.in[k].dim, c) : v);
      }
      const std::vector<ValueId> out = write(op, s, std::move(in));
      for (size_t k = 0; k < out.size(); ++k) part[op.out[k]] = out[k];
    }
    for (const ValueId v : results_) {
      const Op& maker = g_.ops()[static_cast<size_t>(g_.value(v).producer)];
      begin_like(maker);
      std::vector<ValueId>& so_far = made_[v];
      if (layout_.of_value(v).is_partial() && c > 0)
        so_far[0] = binary(g_, "add", so_far[0], part.at(v));
      else
        so_far.push_back(part.at(v));
    }
  }

  std::vector<ValueId> write(const Op& op, const Sharding& s, std::vector<ValueId> in) {
    plait_shape shape = g_.shape(op.out[0]);
    if (s.out[0].is_shard()) shape.dims[s.out[0].dim] /= chunks_;
    if (op.def->is_map) {
      Op copy = op;
      copy.in = std::move(in);
      copy.out.clear();
      return g_.append(std::move(copy), {shape});
    }
    return g_.apply(op.name, std::move(in),
                    op.def->attrs_of_part ? op.def->attrs_of_part(op, shape) : op.attrs);
  }

  // The ops from the region's place on that its chunks need: they come before it. Those of the
  // backward pass, such as weights of the rows' losses, depend on no loss.
  std::vector<size_t> moved_before() const {
    std::vector<char> wanted(g_.ops().size(), 0);
    std::vector<size_t> moved;
    for (size_t i = g_.ops().size(); i-- > begin_;) {
      if (i >= old_ops_) wanted[i] = 1;
      if (!wanted[i]) continue;
      for (const ValueId v : g_.ops()[i].in)
        if (const int32_t p = g_.value(v).producer; p >= 0) wanted[static_cast<size_t>(p)] = 1;
      if (i < old_ops_) moved.push_back(i);
    }
    std::reverse(moved.begin(), moved.end());
    return moved;
  }

  // The joined chunks become the value that the region made.
  void take_place_of(ValueId v) {
    begin_like(g_.ops()[static_cast<size_t>(g_.value(v).producer)]);
    const std::vector<ValueId>& made = made_.at(v);
    const Placement p = layout_.of_value(v);
    const ValueId joined =
        p.is_partial() ? made[0]
                       : g_.apply1("concat", made, {attr("axis", static_cast<int64_t>(p.dim))});
    const auto at = static_cast<size_t>(g_.value(joined).producer);
    Op by = g_.remove(at);
    by.out = {v};
    g_.replace(at, std::move(by));
    g_.value(v).alias_of = 0;  // a view of a large value has memory of its own now
    g_.value(v).byte_offset = 0;
  }

  // behind: ops that read the region's results, but stand before `begin_` today.
  void place(const std::vector<size_t>& moved, const std::vector<size_t>& behind) {
    std::vector<char> placed(g_.ops().size(), 0), late(g_.ops().size(), 0);
    for (const size_t i : behind) late[i] = 1;
    std::vector<size_t> order;
    const auto put = [&](size_t i) {
      if (!g_.ops()[i].def || std::exchange(placed[i], char{1})) return;
      order.push_back(i);
    };
    for (size_t i = 0; i < begin_; ++i)
      if (!late[i]) put(i);
    for (const size_t i : moved) {
      if (pass_ == Pass::kForward) set_backward(i, false);
      put(i);
    }
    for (size_t i = old_ops_; i < g_.ops().size(); ++i) put(i);
    for (size_t i = 0; i < old_ops_; ++i) put(i);
    g_.reorder(order);
  }

  Graph& g_;
  const Region& region_;
  const Layout& layout_;
  const int64_t chunks_;
  const Pass pass_;
  const size_t old_ops_, begin_;
  std::vector<ValueId> results_;                  // read when the region has run
  std::map<ValueId, std::vector<ValueId>> made_;  // chunks of rows, or one sum
};

bool chunk(Graph& g, ValueId first, const ChunkLimits& limits, const std::vector<ValueId>& needed,
           std::vector<char>& tried) {
  Region r = region_of(g, first, limits);
  for (const ValueId v : r.large)
    if (v < tried.size()) tried[v] = 1;
  for (const ValueId v : r.large)
    if (std::find(needed.begin(), needed.end(), v) != needed.end()) return false;
  const Choice choice = choose(g.shape(first), limits);
  if (choice.chunks == 1) return false;
  close(g, r);
  if (!can_stand_together(g, r)) return false;
  Layout layout(g, r, choice.chunks, choice.dim);
  if (!layout.find()) return false;
  Chunker chunker(g, r, layout, choice.chunks, needed);
  if (chunker.joins_large(limits)) return false;
  const Op before = g.context();
  chunker.run();
  g.write_like(before);
  return true;
}

}  // namespace

int chunk_rows(Graph& g, const ChunkLimits& limits, const std::vector<ValueId>& needed) {
  int regions = 0;
  const size_t n = g.n_values();
  std::vector<char> tried(n, 0);
  for (ValueId v = 1; v < n; ++v)
    if (!tried[v] && is_large(g, v, limits)) regions += chunk(g, v, limits, needed, tried) ? 1 : 0;
  return regions;
}

}  // namespace plait::program
