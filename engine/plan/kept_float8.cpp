#include "engine/plan/kept_float8.hpp"

#include <algorithm>

#include "engine/program/op_def.hpp"
#include "kit/dtype.hpp"

namespace plait::plan {

using program::Graph;
using program::Op;
using program::ValueId;

namespace {

// A parameter or a copy of one: what no program of a micro-batch writes.
bool is_kept_memory(const Plan& plan, const Graph& g, ValueId v) {
  const program::Value& value = g.value(v);
  if (value.producer >= 0 || value.role != program::Role::kPersistent || value.buffer.segment < 0)
    return false;
  const Category c = plan.storage.segments().at(static_cast<size_t>(value.buffer.segment)).category;
  return c == Category::kParameters || c == Category::kLowParameters;
}

// The op that gives the magnitude for op i, if both read one weight; -1: none, or i is no such op.
int32_t magnitude_of_weight(const Plan& plan, const Graph& g, size_t i) {
  const Op& op = g.ops()[i];
  if (!op.def || !op.def->prepares_operand || !kit::is_f8(g.shape(op.out[0]).dtype) ||
      !is_kept_memory(plan, g, op.in[0]))
    return -1;
  const int32_t most = g.value(op.in[1]).producer;
  if (most < 0) return -1;
  const Op& maker = g.ops()[static_cast<size_t>(most)];
  return maker.def->prepares_operand && maker.in[0] == op.in[0] ? most : -1;
}

void read_instead(Graph& g, ValueId from, ValueId to) {
  for (const int32_t r : std::vector<int32_t>(g.readers(from))) {
    const auto reader = static_cast<size_t>(r);
    for (size_t k = 0; k < g.ops()[reader].in.size(); ++k)
      if (g.ops()[reader].in[k] == from) g.set_input(reader, k, to);
  }
}

}  // namespace

const KeptFloat8::Weight& KeptFloat8::weight_of(PlanDraft& plan, const Graph& g, size_t quantize,
                                                size_t most) {
  const Op &op = g.ops()[quantize], &maker = g.ops()[most];
  const program::Value& weight = g.value(op.in[0]);
  const std::string key = maker.attrs.key() + op.attrs.key();
  for (const Weight& w : weights_)
    if (w.from == weight.buffer && w.key == key) return w;
  if (segment_ < 0) segment_ = plan.storage.add("8-bit weights", Category::kLowParameters);
  Weight w{weight.name, weight.shape,       weight.buffer,      maker.attrs, op.attrs,
           key,         g.shape(op.out[0]), g.shape(op.out[1]), {},          {}};
  w.numbers = plan.storage.allocate(segment_, program::bytes(w.numbers_shape));
  w.scale = plan.storage.allocate(segment_, program::bytes(w.scale_shape));
  weights_.push_back(std::move(w));
  return weights_.back();
}

void KeptFloat8::read_from(PlanDraft& plan, TracedStep& step) {
  if (!plan.accumulates() || plan.zero >= 3) return;
  Graph& g = *step.graph;
  std::vector<char> gone(g.ops().size(), 0);
  for (size_t i = 0; i < gone.size(); ++i) {
    const int32_t most = magnitude_of_weight(plan, g, i);
    if (most < 0) continue;
    const Weight& w = weight_of(plan, g, i, static_cast<size_t>(most));
    const std::vector<ValueId> out = g.ops()[i].out;
    read_instead(g, out[0], g.persistent(w.name + ", 8 bits", w.numbers_shape, w.numbers));
    read_instead(g, out[1], g.persistent(w.name + ", scale", w.scale_shape, w.scale));
    gone[i] = 1;
  }
  for (size_t i = gone.size(); i-- > 0;) {
    const Op& op = g.ops()[i];
    if (!op.def || !op.def->prepares_operand || gone[i]) continue;
    gone[i] = std::all_of(op.out.begin(), op.out.end(), [&](ValueId v) {
      const std::vector<int32_t>& readers = g.readers(v);
      return std::all_of(readers.begin(), readers.end(),
                         [&](int32_t r) { return gone[static_cast<size_t>(r)] != 0; });
    });
  }
  std::vector<size_t> order;
  for (size_t i = 0; i < gone.size(); ++i)
    if (!gone[i]) order.push_back(i);
  if (order.size() < gone.size()) g.reorder(order);
}

std::unique_ptr<Graph> KeptFloat8::write(const Plan& plan) const {
  if (weights_.empty()) return nullptr;
  auto graph = std::make_unique<Graph>(plan.ops.get(), plan.precision.scalar);
  for (const Weight& w : weights_) {
    graph->scope = w.name;
    const ValueId from = graph->persistent(w.name, w.shape, w.from);
    const ValueId most = graph->apply1("greatest_magnitude", {from}, w.most);
    const std::vector<ValueId> made = graph->apply("quantize_f8", {from, most}, w.quantize);
    graph->bind(made[0], w.numbers);
    graph->bind(made[1], w.scale);
  }
  return graph;
}

}  // namespace plait::plan
