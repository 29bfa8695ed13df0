#include "engine/program/rule.hpp"

#include <cmath>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/program/plugin_op.hpp"

namespace plait::program {

namespace {

// What a plugin says of its own op.
double plugin_flops(const Graph& g, const Op& op) {
  const plait_op_item* item = op.rule->item;
  if (item->struct_size < offsetof(plait_op_item, flops) + sizeof(item->flops) || !item->flops)
    return static_cast<double>(elements(g.shape(op.out[0])));
  const double n = call_plugin(plugin_call(*op.rule, "flops"),
                               [&] { return item->flops(OpDesc(g, op, 1).get()); });
  if (!std::isfinite(n) || n < 0)
    fail(PLAIT_ERR_PLUGIN, "[program] flops() of op '" + op.name + "' returned " + strf("%g", n) +
                               ", expected a number that is not below 0; tell its author");
  return n;
}

}  // namespace

void Application::arity(size_t min, size_t max) const {
  if (in.size() < min || in.size() > max)
    fail_invalid(where() + strf(" takes %zu to %zu inputs, found %zu", min, max, in.size()));
}

ValueId binary(Graph& g, const char* name, ValueId a, ValueId b) { return g.apply1(name, {a, b}); }

double flops_of(const Graph& g, const Op& op) {
  if (op.rule->is_view) return 0;
  if (op.rule->item) return plugin_flops(g, op);
  return op.rule->flops ? op.rule->flops(g, op) : static_cast<double>(elements(g.shape(op.out[0])));
}

ValueId scaled(Graph& g, ValueId a, double factor) {
  return g.apply1("mul", {a, g.constant(factor)});
}

ValueId reshaped(Graph& g, ValueId v, const Dims& dims) {
  if (dims_of(g.shape(v)) == dims) return v;
  return g.apply1("reshape", {v}, {attr("shape", std::vector<int64_t>(dims))});
}

ValueId sum_to(Graph& g, ValueId v, const plait_shape& shape) {
  const plait_shape& from = g.shape(v);
  if (same_dims(from, shape)) return v;
  std::vector<int64_t> axes;
  for (uint32_t i = 0; i < from.ndim; ++i) {
    const int64_t target = i + shape.ndim >= from.ndim ? shape.dims[i + shape.ndim - from.ndim] : 1;
    if (target == 1 && from.dims[i] != 1) axes.push_back(i);
  }
  if (!axes.empty())
    v = g.apply1("reduce", {v},
                 {attr("kind", std::string("sum")), attr("axes", axes), attr("keep", true)});
  return reshaped(g, v, dims_of(shape));
}

ValueId filled(Graph& g, const plait_shape& shape, double fill) {
  return g.apply1("fill", {},
                  {attr("value", fill), attr("shape", dims_of(shape)),
                   attr("dtype", static_cast<int64_t>(shape.dtype))});
}

}  // namespace plait::program
