#include "engine/program/float8.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/program/op_def.hpp"

namespace plait::program {
namespace {

constexpr const char* kMark = "operands";
constexpr const char* kNames[] = {
    "any",           "input_weight", "gradient_weight", "weight_gradient", "input_gradient",
    "gradient_input"};

ProductOf mark_of(const Op& op) {
  const std::string name = op.attrs.text(kMark, kNames[0]);
  const auto* at = std::find(std::begin(kNames), std::end(kNames), name);
  return static_cast<ProductOf>(at - std::begin(kNames));
}

// The persistent value that v is, perhaps cast or seen under other dims; else v.
ValueId origin_of(const Graph& g, ValueId v) {
  ValueId at = v;
  while (g.value(at).producer >= 0) {
    const Op& op = g.ops()[static_cast<size_t>(g.value(at).producer)];
    if (op.in.size() != 1 || !(op.def->is_view || op.def->is_map)) return v;
    at = op.in[0];
  }
  return at;
}

// The formats of a and b, as they lie.
Float8Formats formats_of(ProductOf operands, const Float8Rules& rules) {
  const auto swapped = [](Float8Formats f) { return Float8Formats{f.second, f.first}; };
  switch (operands) {
    case ProductOf::kInputWeight:
      return rules.forward;
    case ProductOf::kGradientWeight:
      return rules.grad_input;
    case ProductOf::kWeightGradient:
      return swapped(rules.grad_input);
    case ProductOf::kInputGradient:
      return rules.grad_weight;
    case ProductOf::kGradientInput:
      return swapped(rules.grad_weight);
    default:
      return {};
  }
}

class Rewriter {
 public:
  Rewriter(Graph& g, const Float8Rules& rules) : g_(g), rules_(rules) {}

  void run() {
    const Op before = g_.context();
    const size_t n = g_.ops().size();
    std::vector<size_t> order;
    for (size_t i = 0; i < n; ++i) {
      const size_t first = g_.ops().size();
      rewrite(i);
      for (size_t k = first; k < g_.ops().size(); ++k)
        if (g_.ops()[k].def) order.push_back(k);
      order.push_back(i);
    }
    if (order.size() > n) g_.reorder(order);
    g_.write_like(before);
  }

 private:
  struct Operand {
    ValueId numbers = 0, scale = 0;
  };

  void rewrite(size_t i) {
    if (!g_.ops()[i].def || !is_marked(g_.ops()[i])) return;
    const Op op = g_.ops()[i];  // a copy: the list grows
    const Float8Formats formats = formats_of(mark_of(op), rules_);
    if (formats.first == 0) return g_.set_attr(i, mark(ProductOf::kAny));
    g_.write_like(op);
    const bool across_a = op.attrs.integer("transpose_a", 0) != 0;
    const bool across_b = op.attrs.integer("transpose_b", 0) == 0;
    const Operand a = quantized(op.in[0], across_a, formats.first);
    const Operand b = quantized(op.in[1], across_b, formats.second);
    std::vector<ValueId> in{a.numbers, b.numbers, a.scale, b.scale};
    const bool bias = op.attrs.integer("bias", 0) != 0;
    if (bias) in.push_back(op.in[2]);
    const ValueId y = g_.apply1(
        "matmul_f8", std::move(in),
        {attr("bias", bias), attr("dtype", static_cast<int64_t>(g_.shape(op.out[0]).dtype))});
    Op by = g_.remove(static_cast<size_t>(g_.value(y).producer));
    by.out = op.out;
    g_.replace(i, std::move(by));
  }

  // across: the product sums over the columns of v, so what it reads is v transposed.
  Operand quantized(ValueId v, bool across, uint32_t format) {
    const char* of = !rules_.by_rows ? "tensor" : across ? "columns" : "rows";
    const ValueId most = g_.apply1("greatest_magnitude", {v}, {attr("of", std::string(of))});
    const std::vector<ValueId> made =
        g_.apply("quantize_f8", {v, most},
                 {attr("format", std::string(format == PLAIT_F8E5M2 ? "e5m2" : "e4m3")),
                  attr("transpose", across)});
    return {made[0], made[1]};
  }

  Graph& g_;
  const Float8Rules& rules_;
};

}  // namespace

Attr mark(ProductOf operands) {
  return attr(kMark, std::string(kNames[static_cast<size_t>(operands)]));
}

bool is_marked(const Op& op) { return mark_of(op) != ProductOf::kAny; }

std::set<ValueId> mark_products(Graph& g, const std::set<ValueId>& weights) {
  std::set<ValueId> marked;
  for (size_t i = 0; i < g.ops().size(); ++i) {
    const Op& op = g.ops()[i];
    if (!op.def || !op.def->takes_mark || g.shape(op.in[1]).ndim != 2) continue;
    if (op.def->stays_wide && op.def->stays_wide(op)) continue;
    const ValueId weight = origin_of(g, op.in[1]);
    if (!weights.contains(weight)) continue;
    marked.insert(weight);
    g.set_attr(i, mark(ProductOf::kInputWeight));
  }
  return marked;
}

void multiply_f8(Graph& g, const Float8Rules& rules) { Rewriter(g, rules).run(); }

}  // namespace plait::program
