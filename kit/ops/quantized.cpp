#include "kit/ops/quantized.hpp"

namespace plait::kit {
namespace {

constexpr plait_option kProduct[] = {kMatmulBias,  kMatmulActivation, kMatmulAccumulate,
                                     kQuantFormat, kQuantColumns,     kMatmulQuantizedAttrs[3]};
constexpr plait_option kTable[] = {kQuantFormat, kQuantColumns, kGatherPart[0], kGatherPart[1]};

QuantFormat format_of(const AttrReader& attrs) {
  const std::string format = attrs.text("format");
  need(format == "int8" || format == "nf4", "unknown format '" + format + "'");
  return format == "nf4" ? QuantFormat::kNf4 : QuantFormat::kInt8;
}

void need_weights(const plait_shape& q, const plait_shape& scale, const Quantized& w) {
  const auto expect = [&](const plait_shape& s, uint32_t type, int64_t extent, const char* what) {
    need(s.dtype == type && s.ndim == 2 && s.dims[0] == w.rows && s.dims[1] == extent,
         std::string(what) + " is " + text(s) + ", expected " + dtype_name(type) + " (" +
             std::to_string(w.rows) + ", " + std::to_string(extent) + ") of weights (" +
             std::to_string(w.rows) + ", " + std::to_string(w.columns) + ") as " +
             (w.nf4() ? "nf4" : "int8"));
  };
  expect(q, PLAIT_U8, w.bytes(), "q");
  expect(scale, PLAIT_F32, w.floats(), "scale");
}

// q and scale are inputs `at` and at + 1. `columns`: what else is known of them, or -1.
Quantized read_weights(const AttrReader& attrs, const plait_op_desc& d, uint32_t at,
                       int64_t columns = -1) {
  const plait_shape& q = d.inputs[at];
  need(q.dtype == PLAIT_U8 && q.ndim == 2,
       "q is " + text(q) + ", expected a matrix of " + dtype_name(PLAIT_U8));
  Quantized w;
  w.format = format_of(attrs);
  w.rows = q.dims[0];
  w.columns = attrs.integer("columns");
  if (w.columns == 0) w.columns = columns >= 0 ? columns : w.nf4() ? 0 : q.dims[1];
  need(columns < 0 || columns == w.columns, "weights have " + std::to_string(w.columns) +
                                                " columns, expected " + std::to_string(columns));
  need_weights(q, d.inputs[at + 1], w);
  return w;
}

}  // namespace

Quantized parse_quantize(const plait_op_desc& d) {
  need_operands(d, 1, 2);
  const plait_shape& x = d.inputs[0];
  need_floats(x, "x");
  need(x.ndim == 2, "needs a matrix, found " + text(x));
  Quantized w;
  w.format = format_of(AttrReader(d, kQuantizeAttrs));
  w.rows = x.dims[0], w.columns = x.dims[1];
  if (has_outputs(d)) need_weights(d.outputs[0], d.outputs[1], w);
  return w;
}

Quantized parse_dequantize(const plait_op_desc& d) {
  need_operands(d, 2, 1);
  const Quantized w = read_weights(AttrReader(d, kDequantizeAttrs), d, 0);
  if (has_outputs(d)) need_n_floats(d.outputs[0], w.rows * w.columns, "y");
  return w;
}

GatherQuantized parse_gather_quantized(const plait_op_desc& d) {
  need_operands(d, 3, 1);
  const AttrReader attrs(d, kTable);
  const plait_shape& index = d.inputs[2];
  need_index(index, "index");
  GatherQuantized g;
  g.weights = read_weights(attrs, d, 0);
  g.rows = g.weights.rows, g.width = g.weights.columns;
  g.count = elements(index), g.index = index.dtype;
  g.first = attrs.integer("first"), g.total = attrs.integer("total");
  if (g.total < 0) g.total = g.rows;
  g.out.assign(index.dims, index.dims + index.ndim);
  g.out.push_back(g.width);
  if (has_outputs(d)) need_n_floats(d.outputs[0], g.count * g.width, "y");
  return g;
}

MatmulQuantized parse_matmul_quantized(const plait_op_desc& d) {
  const AttrReader attrs(d, kProduct);
  MatmulQuantized p;
  read_attrs(attrs, p);
  p.transpose_b = attrs.flag("transpose_b");
  need_operands(d, 3 + p.bias + p.accumulate, 1);
  const plait_shape& a = d.inputs[0];
  need_floats(a, "a");
  need(a.ndim >= 2, "needs rows, found " + text(a));
  const int64_t k_of_a = a.dims[a.ndim - 1];
  p.weights = read_weights(attrs, d, 1, p.transpose_b ? k_of_a : -1);
  need(p.transpose_b || p.weights.rows == k_of_a,
       "weights have " + std::to_string(p.weights.rows) + " rows, expected " +
           std::to_string(k_of_a) + ", as many as a = " + text(a) + " has columns");
  const int64_t n = p.transpose_b ? p.weights.rows : p.weights.columns,
                k = p.transpose_b ? p.weights.columns : p.weights.rows;
  read_shared_b(a, {PLAIT_F32, 2, {n, k}}, p);
  need_bias_and_y(d, p, 3, p.m);
  return p;
}

}  // namespace plait::kit
