#include "kit/ops/float8.hpp"

#include <algorithm>

namespace plait::kit {
namespace {

void read_rows(const plait_shape& x, int64_t& rows, int64_t& columns) {
  need_floats(x, "x");
  need(x.ndim >= 1, "needs rows, found " + text(x));
  columns = x.dims[x.ndim - 1];
  for (uint32_t d = 0; d + 1 < x.ndim; ++d) rows *= x.dims[d];
}

std::vector<int64_t> dims(const plait_shape& s) { return {s.dims, s.dims + s.ndim}; }

std::string text_of(uint32_t dtype, const std::vector<int64_t>& dims) {
  plait_shape s{dtype, static_cast<uint32_t>(dims.size()), {}};
  std::copy(dims.begin(), dims.end(), s.dims);
  return text(s);
}

void need_f32(const plait_shape& s, const std::vector<int64_t>& expected, const char* what) {
  need(s.dtype == PLAIT_F32 && dims(s) == expected,
       std::string(what) + " is " + text(s) + ", expected " + text_of(PLAIT_F32, expected));
}

// Whether there is a scale for each row: scales of one are a scalar.
bool has_row_scales(const plait_shape& q, const plait_shape& scale, const char* what) {
  if (scale.ndim == 0) {
    need_f32(scale, {}, what);
    return false;
  }
  std::vector<int64_t> rows = dims(q);
  rows.pop_back();
  need_f32(scale, rows, what);
  return true;
}

void need_f8(const plait_shape& q, const char* what) {
  need(is_f8(q.dtype) && q.ndim >= 2,
       std::string(what) + " is " + text(q) + ", expected rows of f8e4m3 or f8e5m2");
}

}  // namespace

GreatestMagnitude parse_greatest_magnitude(const plait_op_desc& d) {
  const AttrReader attrs(d, kGreatestMagnitudeAttrs);
  need_operands(d, 1, 1);
  const plait_shape& x = d.inputs[0];
  GreatestMagnitude p;
  read_rows(x, p.rows, p.columns);
  const std::string of = attrs.text("of");
  p.of = of == "rows" ? ScaleOf::kRows : of == "columns" ? ScaleOf::kColumns : ScaleOf::kTensor;
  need(p.of != ScaleOf::kColumns || x.ndim == 2,
       "needs a matrix for its columns, found " + text(x));
  if (p.of == ScaleOf::kRows) p.out.assign(x.dims, x.dims + x.ndim - 1);
  if (p.of == ScaleOf::kColumns) p.out = {p.columns};
  if (has_outputs(d)) need_f32(d.outputs[0], p.out, "most");
  return p;
}

QuantizeF8 parse_quantize_f8(const plait_op_desc& d) {
  const AttrReader attrs(d, kQuantizeF8Attrs);
  need_operands(d, 2, 2);
  const plait_shape &x = d.inputs[0], &most = d.inputs[1];
  QuantizeF8 p;
  read_rows(x, p.rows, p.columns);
  p.format = attrs.text("format") == "e5m2" ? PLAIT_F8E5M2 : PLAIT_F8E4M3;
  p.transpose = attrs.flag("transpose");
  need(!p.transpose || x.ndim == 2, "transposes a matrix, found " + text(x));
  p.numbers = dims(x);
  if (p.transpose) std::swap(p.numbers[0], p.numbers[1]);
  if (most.ndim > 0) {
    p.of = p.transpose ? ScaleOf::kColumns : ScaleOf::kRows;
    p.scale.assign(p.numbers.begin(), p.numbers.end() - 1);
  }
  need_f32(most, p.scale, "most");
  if (!has_outputs(d)) return p;
  need(d.outputs[0].dtype == p.format && dims(d.outputs[0]) == p.numbers,
       "q is " + text(d.outputs[0]) + ", expected " + text_of(p.format, p.numbers));
  need_f32(d.outputs[1], p.scale, "scale");
  return p;
}

MatmulF8 parse_matmul_f8(const plait_op_desc& d) {
  const AttrReader attrs(d, kAnyMatmulAttrs);
  MatmulF8 p;
  read_attrs(attrs, p);
  need_operands(d, 4 + p.bias + p.accumulate, 1);
  const plait_shape &a = d.inputs[0], &b = d.inputs[1];
  need_f8(a, "a");
  need_f8(b, "b");
  need(a.dtype != PLAIT_F8E5M2 || b.dtype != PLAIT_F8E5M2,
       "a and b are both f8e5m2, which no device multiplies");
  need(b.ndim == 2, "b is " + text(b) + ", expected a matrix");
  read_shared_b(a, b, p);
  p.rows_a = has_row_scales(a, d.inputs[2], "scale_a");
  p.rows_b = has_row_scales(b, d.inputs[3], "scale_b");
  need_bias_and_y(d, p, 4, p.m);
  return p;
}

}  // namespace plait::kit
