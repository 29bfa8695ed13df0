#include "engine/program/with_cache.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/program/op_def.hpp"

namespace plait::program {
namespace {

class CacheWriter {
 public:
  CacheWriter(const Graph& from, const CacheSource& source, const CacheInputs& inputs)
      : from_(from),
        source_(source),
        inputs_(inputs),
        to_(std::make_unique<Graph>(from.registry(), from.float_type())),
        forms_(from.n_values()) {
    const int64_t samples = from.shape(source.tokens).dims[0];
    const auto input = [&](const char* name, BufferRef at, bool per_token) {
      return to_->persistent(name,
                             per_token ? make_shape(PLAIT_I32, {samples, inputs.tokens})
                                       : make_shape(PLAIT_I32, {samples}),
                             at);
    };
    forms_[source.tokens] = {input("tokens", inputs.ids, true), kTokenDim};
    at_ = input("at", inputs.at, true);
    positions_ = input("positions", inputs.positions, true);
    slot_ = input("slot", inputs.slot, false);
    if (source.numbers) forms_[source.numbers] = {input("numbers", inputs.numbers, false)};
    if (source.positions) forms_[source.positions] = {positions_, kTokenDim};
  }

  CachedProgram run() {
    find_live();
    for (size_t i = 0; i < from_.ops().size(); ++i)
      if (live_[i]) write(from_.ops()[i]);
    CachedProgram made;
    if (!inputs_.writes_only) {
      const Form& f = forms_[source_.output];
      if (f.dim != kTokenDim)
        fail_config("[generate] the output of the model is " + text(from_.shape(source_.output)) +
                    ", expected numbers for each token, (samples, tokens, vocabulary)");
      made.output = f.value;
    }
    for (const ValueId v : source_.constants) made.constants.push_back(forms_[v].value);
    made.length_limits = std::move(length_limits_);
    made.graph = std::move(to_);
    return made;
  }

 private:
  static constexpr int32_t kTokenDim = 1;
  // A value in the new program: for the tokens of a launch, along `dim`, or as it was.
  struct Form {
    ValueId value = 0;
    int32_t dim = -1;
    bool grouped = false;  // rows of the tokens of a launch, sorted into groups, or about these
    bool rows() const { return dim >= 0; }
  };

  [[noreturn]] static void refuse(const Op& op, const std::string& what) {
    fail_config("[generate] '" + op.scope + "' " + what +
                ", so the model cannot be generated token by token");
  }
  static bool is_cached(const Op& op) { return op.def->write_cached != nullptr; }

  // The ops that `wanted` depends on. keys: attention depends on keys and values alone where nobody
  // reads its results.
  std::vector<char> ops_behind(std::vector<char> wanted, const std::vector<char>& keys) const {
    std::vector<char> live(from_.ops().size(), 0);
    for (size_t i = from_.ops().size(); i-- > 0;) {
      const Op& op = from_.ops()[i];
      const bool read =
          std::any_of(op.out.begin(), op.out.end(), [&](ValueId v) { return wanted[v] != 0; });
      if (!read && !keys[i]) continue;
      live[i] = 1;
      for (size_t k = 0; k < op.in.size(); ++k) {
        if (is_cached(op) && (k > kValues || (k == kQueries && !read))) continue;
        wanted[op.in[k]] = 1;
      }
    }
    return live;
  }
  void find_live() {
    std::vector<char> wanted(from_.n_values(), 0);
    wanted[source_.output] = 1;
    live_ = ops_behind(wanted, std::vector<char>(from_.ops().size(), 0));
    std::vector<char> keys(from_.ops().size(), 0);
    for (size_t i = 0; i < keys.size(); ++i) keys[i] = live_[i] && is_cached(from_.ops()[i]);
    if (inputs_.writes_only) {
      wanted.assign(from_.n_values(), 0);
      live_ = ops_behind(wanted, keys);
    }
    for (size_t i = 0; i < live_.size(); ++i)
      if (live_[i])
        for (const ValueId v : from_.ops()[i].in) read_.insert(v);
    if (!inputs_.writes_only) read_.insert(source_.output);
  }

  // A value as it is in the whole program: a parameter, or computed from parameters alone.
  const Form& form(const Op& reader, ValueId v) {
    Form& f = forms_[v];
    if (f.value) return f;
    const Value& value = from_.value(v);
    if (value.producer >= 0 || !source_.constants.contains(v))
      refuse(reader, "reads '" + value.name +
                         "', which generation cannot give: it feeds token ids and positions");
    f.value = to_->persistent(value.name, value.shape, value.buffer);
    return f;
  }

  // Rows of a value that all samples share, at the positions of the tokens: (B, t, ..).
  ValueId rows_at(const Op& reader, ValueId v, int32_t dim) {
    ValueId& made = at_positions_[{v, dim}];
    if (made) return made;
    const int32_t producer = from_.value(v).producer;
    if (producer >= 0) {
      const Op& op = from_.ops()[static_cast<size_t>(producer)];
      TableContext u{op,
                     *to_,
                     dim,
                     [this, &op](size_t k) {
                       const Form& f = form(op, op.in[k]);
                       return f.rows() ? 0 : f.value;
                     },
                     positions_,
                     [this](int64_t most) { return lengths_up_to(most); },
                     {}};
      if (op.def->write_at) op.def->write_at(u);
      for (size_t i = 0; i < u.out.size(); ++i) at_positions_[{op.out[i], dim}] = u.out[i];
      if (made) return made;
    }
    const plait_shape& s = from_.shape(v);
    const auto leading = std::all_of(s.dims, s.dims + dim, [](int64_t d) { return d == 1; });
    if (!leading) refuse(reader, "reads rows of " + text(s) + " that lie apart");
    ValueId table = form(reader, v).value;
    if (dim > 0) table = reshaped(*to_, table, Dims(s.dims + dim, s.dims + s.ndim));
    return made = to_->apply1("gather", {table, positions_});
  }

  ValueId lengths_up_to(int64_t most) {
    length_limits_.insert(most);
    if (!lengths_) {
      const int64_t samples = from_.shape(source_.tokens).dims[0];
      lengths_ = to_->persistent("lengths", make_shape(PLAIT_I32, {samples}), inputs_.lengths);
    }
    return lengths_;
  }

  ValueId token_rows(const Op& op, size_t k) {
    const Form& f = form(op, op.in[k]);
    if (!f.rows()) refuse(op, "computes the same for all tokens");
    return f.value;
  }
  ValueId cache_of(ValueId rows) {
    const plait_shape& s = to_->shape(rows);
    if (inputs_.cache_type && s.dtype != inputs_.cache_type)
      rows = to_->as_type(rows, inputs_.cache_type);
    return to_->apply1("kv_cache", {rows, slot_, at_},
                       {attr("slots", inputs_.slots), attr("length", inputs_.length)});
  }

  void write(const Op& op) {
    to_->scope = op.scope;
    to_->stage = op.stage;
    if (is_cached(op)) return write_over_cache(op);
    if (reads_groups(op)) return write_grouped(op);
    std::vector<Placement> have;
    bool any = false;
    for (const ValueId v : op.in) {
      have.push_back(shard_along(form(op, v).dim));
      any = any || have.back().is_shard();
    }
    Sharding s{std::vector<Placement>(op.in.size()), std::vector<Placement>(op.out.size()), false};
    if (any && (!op.def->shard || !op.def->shard(from_, op, have, inputs_.length, s)))
      refuse(op, "(" + op.name + ") needs all tokens of a sample at once");
    std::vector<ValueId> in;
    for (size_t k = 0; k < op.in.size(); ++k) {
      const bool cut = s.in[k].is_shard() && !have[k].is_shard();
      if (!cut && s.in[k] != have[k])
        refuse(op, "(" + op.name + ") needs all tokens of a sample at once");
      in.push_back(cut ? rows_at(op, op.in[k], s.in[k].dim) : forms_[op.in[k]].value);
    }
    if (any)
      for (size_t k = 0; k < op.out.size(); ++k)
        check_dimension(op, from_.shape(op.out[k]), s.out[k]);
    const std::vector<ValueId> out = write_rows(op, s, std::move(in));
    for (size_t k = 0; k < op.out.size(); ++k) {
      if (any && !s.out[k].is_shard())
        refuse(op, "(" + op.name + ") sums over the tokens of a sample");
      forms_[op.out[k]] = {out[k], s.out[k].dim};
      check(op, k);
    }
  }

  // A rule may divide a dimension that has more than the tokens: (B, S, 8) as (B, S * 8).
  void check_dimension(const Op& op, const plait_shape& whole, const Placement& cut) const {
    if (!cut.is_shard() || whole.dims[cut.dim] == inputs_.length) return;
    refuse(op, "(" + op.name + ") makes " + text(whole) + " of all tokens of a sample");
  }

  std::vector<ValueId> write_rows(const Op& op, const Sharding& s, std::vector<ValueId> in) {
    plait_shape shape = from_.shape(op.out[0]);
    if (s.out[0].is_shard()) shape.dims[s.out[0].dim] = inputs_.tokens;
    if (op.def->is_map) {
      Op copy = op;
      copy.in = std::move(in);
      copy.out.clear();
      return to_->append(std::move(copy), {shape});
    }
    return to_->apply(
        op.name, std::move(in),
        op.def->attrs_of_part && s.out[0].is_shard() ? op.def->attrs_of_part(op, shape) : op.attrs);
  }

  bool reads_groups(const Op& op) {
    return op.def->grouping == Grouping::kSorts ||
           std::any_of(op.in.begin(), op.in.end(), [&](ValueId v) { return form(op, v).grouped; });
  }
  // Rows of all tokens in an order of their own: each is computed alone, and the order is undone
  // behind that. So a few tokens alone have the same rows.
  void write_grouped(const Op& op) {
    const Grouping does = op.def->grouping;
    if (does == Grouping::kNone && !op.def->is_map)
      refuse(op, "(" + op.name + ") needs the groups of all tokens of a sample at once");
    std::vector<ValueId> in;
    for (const ValueId v : op.in) {
      const Form& f = form(op, v);
      // Beside sorted rows, a map reads numbers that all rows share.
      if (does == Grouping::kNone && !f.grouped && (f.rows() || from_.shape(v).ndim > 1))
        refuse(op, "(" + op.name + ") reads rows of groups and others that are not sorted");
      if (does == Grouping::kSorts && f.dim != kTokenDim)
        refuse(op, "(" + op.name + ") groups rows that are not one for each token");
      in.push_back(f.value);
    }
    const std::vector<ValueId> out = write_of_groups(op, std::move(in));
    for (size_t k = 0; k < op.out.size(); ++k)
      forms_[op.out[k]] = {out[k], does == Grouping::kUndoes ? kTokenDim : -1,
                           does != Grouping::kUndoes};
    if (does == Grouping::kUndoes) check(op, 0);
  }
  std::vector<ValueId> write_of_groups(const Op& op, std::vector<ValueId> in) {
    if (!op.def->is_map) return to_->apply(op.name, std::move(in), op.attrs);
    plait_shape shape = from_.shape(op.out[0]);
    shape.dims[0] = shape.dims[0] / inputs_.length * inputs_.tokens;
    Op copy = op;
    copy.in = std::move(in);
    copy.out.clear();
    return to_->append(std::move(copy), {shape});
  }

  void write_over_cache(const Op& op) {
    CacheContext u{
        from_,
        op,
        *to_,
        [this, &op](size_t k) { return token_rows(op, k); },
        [this](ValueId rows) { return cache_of(rows); },
        slot_,
        at_,
        std::none_of(op.out.begin(), op.out.end(), [this](ValueId v) { return read_.contains(v); }),
        {}};
    if (!op.def->write_cached(u)) refuse(op, "is not causal: a token sees tokens behind it");
    for (size_t k = 0; k < u.out.size(); ++k) {
      if (!u.out[k]) continue;
      forms_[op.out[k]] = {u.out[k], kTokenDim};
      check(op, k);
    }
  }

  // The shape that the op gives its result must be what the rule has said.
  void check(const Op& op, size_t k) const {
    const Form& f = forms_[op.out[k]];
    plait_shape expected = from_.shape(op.out[k]);
    if (f.rows()) expected.dims[f.dim] = inputs_.tokens;
    if (!same(to_->shape(f.value), expected))
      refuse(op, "(" + op.name + ") would make " + text(to_->shape(f.value)) + " of " +
                     std::to_string(inputs_.tokens) + " tokens, expected " + text(expected));
  }

  static constexpr size_t kQueries = 0, kValues = 2;  // inputs of attention: q, k, v
  const Graph& from_;
  const CacheSource& source_;
  const CacheInputs& inputs_;
  std::unique_ptr<Graph> to_;
  std::vector<Form> forms_;
  std::map<std::pair<ValueId, int32_t>, ValueId> at_positions_;  // by value and dimension
  std::vector<char> live_;
  std::set<ValueId> read_;
  ValueId at_ = 0, positions_ = 0, slot_ = 0;
  ValueId lengths_ = 0;  // 0: nothing reads it
  std::set<int64_t> length_limits_;
};

}  // namespace

CachedProgram with_cache(const Graph& whole, const CacheSource& source, const CacheInputs& inputs) {
  return CacheWriter(whole, source, inputs).run();
}

void place_caches(Graph& g, const std::function<BufferRef(const plait_shape&)>& allocate) {
  const size_t n = g.ops().size();
  for (size_t i = 0; i < n; ++i) {
    if (!g.ops()[i].def->is_cache) continue;
    const Op op = g.ops()[i];
    const ValueId cache = op.out[0];
    const plait_shape shape = g.shape(cache);
    const ValueId memory = g.persistent(op.scope + ".cache", shape, allocate(shape));
    g.scope = op.scope;
    g.stage = op.stage;
    std::vector<ValueId> in{memory};
    in.insert(in.end(), op.in.begin(), op.in.end());
    const ValueId written = g.apply_in_place("cache_write", std::move(in), {});
    Op by = g.remove(static_cast<size_t>(g.value(written).producer));
    by.out = {cache};
    g.replace(i, std::move(by));
    g.value(cache).alias_of = memory;
  }
  std::vector<size_t> order;
  for (size_t i = 0; i < n; ++i) order.push_back(i);
  g.reorder(order);
}

}  // namespace plait::program
