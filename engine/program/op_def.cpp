#include "engine/program/op_def.hpp"

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/plugin/host.hpp"

namespace plait::program {

// Written by the build: calls `visit` with the definitions of each file of ops/.
void visit_core_ops(void (*visit)(std::span<const OpDef>, std::vector<const OpDef*>&),
                    std::vector<const OpDef*>& to);

const std::vector<const OpDef*>& core_ops() {
  static const std::vector<const OpDef*> kAll = [] {
    std::vector<const OpDef*> all;
    visit_core_ops(
        [](std::span<const OpDef> family, std::vector<const OpDef*>& to) {
          for (const OpDef& def : family) to.push_back(&def);
        },
        all);
    return all;
  }();
  return kAll;
}

std::string InferContext::where() const { return "[" + scope + "] " + def.name + ":"; }

void InferContext::arity(size_t min, size_t max) const {
  if (in.size() >= min && in.size() <= max) return;
  fail_invalid(where() + (min == max
                              ? strf(" takes %zu inputs, found %zu", min, in.size())
                              : strf(" takes %zu to %zu inputs, found %zu", min, max, in.size())));
}

std::string owner_of(const OpDef& def) {
  return def.host ? " of plugin " + static_cast<const plugin::Host*>(def.host)->plugin() : "";
}

double flops_of(const Graph& g, const Op& op) {
  if (op.def->is_view) return 0;
  return op.def->flops ? op.def->flops(g, op) : static_cast<double>(elements(g.shape(op.out[0])));
}

double unmasked_flops_of(const Graph& g, const Op& op) {
  return op.def->unmasked_flops ? op.def->unmasked_flops(g, op) : flops_of(g, op);
}

ValueId binary(Graph& g, const char* name, ValueId a, ValueId b) { return g.apply1(name, {a, b}); }

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

uint32_t result_type(const InferContext& c, uint32_t otherwise) {
  const int64_t dtype = c.attrs.integer("dtype", 0);
  return dtype == 0 ? otherwise : static_cast<uint32_t>(dtype);
}

}  // namespace plait::program
