// Terms of the loss that layers and PEFT methods add (plait_build_table.add_loss). They become
// losses of the model, each of the terms of one name; what belongs to earlier stages of a pipeline
// comes to the last one as any value does.
#include <algorithm>
#include <set>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/plan/trace.hpp"
#include "engine/program/op_def.hpp"

namespace plait::plan {

using program::attr;
using program::Op;

namespace {

bool are_alike(const plait_map_instr& a, const plait_map_instr& b) {
  return a.op == b.op && a.a == b.a && a.b == b.b && a.c == b.c && a.value == b.value;
}

// Whether two ops compute the same of equal inputs.
bool are_alike(const Op& a, const Op& b) {
  return a.name == b.name && a.in.size() == b.in.size() && a.attrs.key() == b.attrs.key() &&
         a.map.outputs == b.map.outputs &&
         std::equal(a.map.instrs.begin(), a.map.instrs.end(), b.map.instrs.begin(),
                    b.map.instrs.end(),
                    [](const auto& x, const auto& y) { return are_alike(x, y); });
}

// v, computed of `now` in place of `before`. Ops that follow from neither are shared.
ValueId with_replaced(Graph& g, ValueId v, ValueId before, ValueId now) {
  const int32_t last = g.value(v).producer;
  if (v == before || last < 0) return v == before ? now : v;
  std::vector<char> needed(static_cast<size_t>(last) + 1, 0);
  needed.back() = 1;
  for (auto i = static_cast<size_t>(last) + 1; i-- > 0;)
    if (needed[i])
      for (const ValueId in : g.ops()[i].in)
        if (const int32_t p = g.value(in).producer; p >= 0) needed[static_cast<size_t>(p)] = 1;
  const Op here = g.context();
  std::map<ValueId, ValueId> made{{before, now}};
  for (size_t i = 0; i < needed.size(); ++i) {
    const std::vector<ValueId>& in = g.ops()[i].in;
    if (!needed[i] ||
        std::none_of(in.begin(), in.end(), [&](ValueId one) { return made.contains(one); }))
      continue;
    Op copy = g.ops()[i];
    const std::vector<ValueId> old = std::exchange(copy.out, {});
    std::vector<plait_shape> shapes;
    for (ValueId& one : copy.in)
      if (const auto at = made.find(one); at != made.end()) one = at->second;
    for (const ValueId one : old) shapes.push_back(g.shape(one));
    g.write_like(copy);
    const std::vector<ValueId> fresh = g.append(std::move(copy), shapes);
    for (size_t k = 0; k < old.size(); ++k) made[old[k]] = fresh[k];
  }
  g.write_like(here);
  const auto at = made.find(v);
  return at == made.end() ? v : at->second;
}

int32_t stage_of_value(const Graph& g, ValueId v) {
  const int32_t producer = g.value(v).producer;
  return producer < 0 ? 0 : g.ops()[static_cast<size_t>(producer)].stage;
}

}  // namespace

void Tracer::note_term(LossTerm term) {
  term.scope = graph_->scope;
  const auto note = [&](const config::AdapterConfig& adapter) {
    with_terms_.insert(key_of(adapter));
    counted_late_ = counted_late_ || !plan_.targets_of_adapter.contains(key_of(adapter));
  };
  if (adapter_ && term.group.empty()) note(*adapter_);
  for (const config::AdapterConfig* one : term.group) note(*one);
  terms_.push_back(std::move(term));
}

void Tracer::note_target_counts() {
  for (const std::string& key : with_terms_) plan_.targets_of_adapter[key] = n_targets_[key];
}

// Whether two values are the same, perhaps computed in two stages.
bool Tracer::are_equal(ValueId a, ValueId b) const {
  std::vector<std::pair<ValueId, ValueId>> left{{a, b}};
  std::set<std::pair<ValueId, ValueId>> seen;
  while (!left.empty()) {
    const auto pair = left.back();
    left.pop_back();
    const auto& [x, y] = pair;
    if (x == y || !seen.insert(pair).second) continue;
    const int32_t p = graph_->value(x).producer, q = graph_->value(y).producer;
    if (p < 0 || q < 0 || !program::same(graph_->shape(x), graph_->shape(y))) return false;
    const Op &one = graph_->ops()[static_cast<size_t>(p)],
             &other = graph_->ops()[static_cast<size_t>(q)];
    const auto place = [](const Op& op, ValueId v) {
      return std::find(op.out.begin(), op.out.end(), v) - op.out.begin();
    };
    if (!are_alike(one, other) || place(one, x) != place(other, y)) return false;
    for (size_t i = 0; i < one.in.size(); ++i) left.emplace_back(one.in[i], other.in[i]);
  }
  return true;
}

// The value among these that is the same; else `weights`.
ValueId Tracer::known_weights(const std::vector<ValueId>& among, ValueId weights) const {
  const auto at = std::find_if(among.begin(), among.end(),
                               [&](ValueId known) { return are_equal(known, weights); });
  return at == among.end() ? weights : *at;
}

// The sums run along the stages, so that one number of all terms is sent from each to the next: an
// op belongs to the last stage of its inputs.
void Tracer::add_term(size_t m, std::vector<LossSums>& to, const LossTerm& term, ValueId sum,
                      ValueId weights, const std::string& adapter) {
  const auto known = std::find_if(to.begin(), to.end(), [&](const LossSums& one) {
    return one.name == term.name && one.adapter == adapter;
  });
  if (known == to.end()) check_term_name(m, term);
  const int32_t stage = std::exchange(graph_->stage, 0);
  const uint32_t type = plan_.precision.scalar;
  sum = graph_->as_type(sum, type);
  weights = graph_->as_type(weights, type);
  const ValueId scaled = term.factor == 1 ? sum : program::scaled(*graph_, sum, term.factor);
  if (known == to.end()) {
    to.push_back({term.entry, term.name, 1, sum, weights, false, adapter, true, scaled});
  } else if (!are_equal(known->weights, weights)) {
    graph_->stage = stage;
    fail(PLAIT_ERR_PLUGIN, "[" + term.scope + "] adds a term '" + term.name +
                               "' to the loss that counts other weights than one of " +
                               known->entry->path +
                               ", expected the same of all terms of a name; tell its author");
  } else {
    known->sum = program::binary(*graph_, "add", known->sum, sum);
    known->scaled = program::binary(*graph_, "add", known->scaled, scaled);
  }
  graph_->stage = stage;
}

// It is reported as a metric.
void Tracer::check_term_name(size_t m, const LossTerm& term) const {
  const auto& metrics = plan_.experiment.models[m].metrics;
  const auto same = std::find_if(metrics.begin(), metrics.end(),
                                 [&](const auto& metric) { return metric.name == term.name; });
  if (same != metrics.end())
    fail_config("the term '" + term.name +
                "' that it adds to the loss is reported under the name "
                "of the metric at " +
                same->origin.text() + "; give that metric another `name`");
}

// The scalar of one adapter: its own of a stack, for the samples that take it.
ValueId Tracer::of_adapter(ValueId scalar, ValueId stack, size_t member, ValueId own_weights) {
  if (stack) {
    const auto at = static_cast<int64_t>(member);
    scalar = program::reshaped(
        *graph_,
        graph_->apply1("slice", {stack},
                       {attr("axis", int64_t{0}), attr("start", at), attr("stop", at + 1)}),
        {});
  }
  return with_replaced(*graph_, scalar, values_.at("weight"), own_weights);
}

void Tracer::add_terms_by_sample(size_t m, std::vector<LossSums>& to, const LossTerm& term) {
  const config::ModelConfig& model = plan_.experiment.models[m];
  const std::vector<std::string> names = adapter_names(model);
  for (size_t k = 0; k < names.size(); ++k) {
    const auto member =
        std::find_if(term.group.begin(), term.group.end(),
                     [&](const config::AdapterConfig* one) { return one->name == names[k]; });
    if (!term.group.empty() && member == term.group.end()) continue;
    const auto at = static_cast<size_t>(member - term.group.begin());
    const program::Op here = graph_->context();
    graph_->scope = term.scope;
    graph_->stage = stage_of_value(*graph_, term.sums ? term.sums : term.sum);
    const ValueId own = graph_->apply1("select", {takes(model, {static_cast<int64_t>(k)}),
                                                  values_.at("weight"), graph_->constant(0)});
    const ValueId sum = of_adapter(term.sum, term.sums, at, own),
                  weights = of_adapter(term.weights, term.all_weights, at, own);
    graph_->write_like(here);
    add_term(m, to, term, sum, weights, names[k]);
  }
}

// {sum, weights} of terms by name, over the samples of all adapters.
std::map<std::string, std::array<ValueId, 2>> Tracer::over_adapters(
    const std::vector<LossSums>& terms) {
  std::map<std::string, std::array<ValueId, 2>> all;
  for (const LossSums& one : terms) {
    const auto [at, is_new] = all.try_emplace(one.name, std::array{one.scaled, one.weights});
    if (is_new) continue;
    at->second[0] = program::binary(*graph_, "add", at->second[0], one.scaled);
    at->second[1] = program::binary(*graph_, "add", at->second[1], one.weights);
  }
  return all;
}

// The terms of the model, of each name; where samples choose their adapter, of each adapter.
std::vector<Tracer::LossSums> Tracer::terms_of(size_t m) {
  const config::ModelConfig& model = plan_.experiment.models[m];
  const bool by_sample = !model.adapter_field.empty();
  if (by_sample && problems_ && problems_->touch(model.path + ".adapter_field")) return {};
  std::vector<LossSums> all;
  for (const LossTerm& term : terms_)
    trace_entry(*term.entry, [&] {
      graph_->scope = term.scope;
      if (by_sample)
        add_terms_by_sample(m, all, term);
      else
        add_term(m, all, term, term.sum, term.weights, "");
    });
  return all;
}

}  // namespace plait::plan
