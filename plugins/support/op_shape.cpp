#include "plugins/support/op_shape.hpp"
#include <algorithm>

#include "plugins/support/dtype.hpp"
#include "plugins/support/philox.hpp"

namespace plait::support {

int64_t elements(const plait_shape& s) {
  int64_t n = 1;
  for (uint32_t i = 0; i < s.ndim && i < PLAIT_MAX_NDIM; ++i)
    if (__builtin_mul_overflow(n, s.dims[i], &n))
      fail(PLAIT_ERR_INVALID, "[shape] too many elements: " + text(s));
  return n;
}

uint64_t bytes(const plait_shape& s) {
  uint64_t n = 0;
  if (__builtin_mul_overflow(static_cast<uint64_t>(elements(s)), dtype_bytes(s.dtype), &n))
    fail(PLAIT_ERR_INVALID, "[shape] too many bytes: " + text(s));
  return n;
}

std::string text(const plait_shape& s) { return dtype_name(s.dtype) + (" " + Shape(s).text()); }

bool flag_attr(const plait_op_desc& d, const char* name, bool fallback) {
  return int_attr(d, name, fallback) != 0;
}

void need(bool ok, const plait_op_desc& d, const std::string& what) {
  if (!ok) fail(PLAIT_ERR_INVALID, "[" + std::string(d.op) + "] " + what);
}

void need_operands(const plait_op_desc& d, uint32_t inputs, uint32_t outputs) {
  need(d.n_inputs == inputs && d.n_outputs == outputs, d,
       "found " + std::to_string(d.n_inputs) + " inputs and " + std::to_string(d.n_outputs) +
           " outputs, expected " + std::to_string(inputs) + " and " + std::to_string(outputs));
  const auto check = [&](const plait_shape& s) {
    need(dtype_bytes(s.dtype) != 0 && s.ndim <= PLAIT_MAX_NDIM, d, "malformed shape");
    for (uint32_t i = 0; i < s.ndim; ++i) need(s.dims[i] >= 0, d, "negative extent in " + text(s));
    bytes(s);
  };
  for (uint32_t i = 0; i < inputs; ++i) check(d.inputs[i]);
  for (uint32_t i = 0; i < outputs; ++i) check(d.outputs[i]);
}

namespace {

bool same_dims(const plait_shape& a, const plait_shape& b) {
  if (a.ndim != b.ndim) return false;
  for (uint32_t i = 0; i < a.ndim; ++i)
    if (a.dims[i] != b.dims[i]) return false;
  return true;
}
bool same(const plait_shape& a, const plait_shape& b) {
  return a.dtype == b.dtype && same_dims(a, b);
}

void need_same(const plait_op_desc& d, const plait_shape& a, const plait_shape& b) {
  need(same(a, b), d, "shapes differ: " + text(a) + " and " + text(b));
}
void need_count(const plait_op_desc& d, const plait_shape& s, int64_t n, const char* what) {
  need(elements(s) == n, d,
       std::string(what) + " has shape " + text(s) + ", expected " + std::to_string(n) +
           " elements");
}
void need_floats(const plait_op_desc& d, const plait_shape& s, const char* what) {
  need(is_float(s.dtype), d, std::string(what) + " needs floats, found " + text(s));
}

}  // namespace

Rows rows_of(const plait_shape& s) {
  Rows r{1, s.ndim ? s.dims[s.ndim - 1] : 1};
  for (uint32_t i = 0; i + 1 < s.ndim; ++i) r.rows *= s.dims[i];
  return r;
}

Rows parse_softmax(const plait_op_desc& d, uint32_t inputs) {
  need_operands(d, inputs, 1);
  need_floats(d, d.inputs[0], "x");
  for (uint32_t i = 1; i < inputs; ++i) need_same(d, d.inputs[i], d.inputs[0]);
  need_same(d, d.outputs[0], d.inputs[0]);
  return rows_of(d.inputs[0]);
}

CrossEntropy parse_cross_entropy(const plait_op_desc& d, bool grad) {
  need_operands(d, grad ? 4 : 2, grad ? 1 : 2);
  const plait_shape &x = d.inputs[0], &label = d.inputs[1];
  need_floats(d, x, "logits");
  need(is_index(label.dtype), d, "label needs i32, i64 or u8, found " + text(label));
  CrossEntropy c{rows_of(x), x.dtype, label.dtype, real_attr(d, "label_smoothing", 0)};
  c.total = int_attr(d, "total", 0);
  c.part = c.total > 0;
  c.first = int_attr(d, "first", 0);
  if (!c.part) c.total = c.x.cols;
  need(c.first >= 0, d, "first must not be negative");
  c.valid = std::clamp<int64_t>(c.total - c.first, 0, c.x.cols);
  need_count(d, label, c.x.rows, "label");
  if (grad) need_same(d, d.outputs[0], x);
  for (const plait_shape* s :
       {grad ? &d.inputs[2] : &d.outputs[0], grad ? &d.inputs[3] : &d.outputs[1]}) {
    need_floats(d, *s, "a row operand");
    need_count(d, *s, c.x.rows, "a row operand");
  }
  return c;
}

Norm parse_norm(const plait_op_desc& d, bool layer, bool grad) {
  if (grad)
    need_operands(d, layer ? 5 : 4, layer ? 3 : 2);
  else
    need_operands(d, layer ? 3 : 2, layer ? 3 : 2);
  const plait_shape& x = d.inputs[0];
  const Norm n{rows_of(x), real_attr(d, "eps", 1e-5)};
  const auto per_row = [&](const plait_shape& s) {
    need_floats(d, s, "a row operand");
    need_count(d, s, n.x.rows, "a row operand");
  };
  const auto per_channel = [&](const plait_shape& s, const char* what) {
    need_floats(d, s, what);
    need_count(d, s, n.x.cols, what);
  };
  need_floats(d, x, "x");
  need_same(d, d.outputs[0], x);
  per_channel(d.inputs[1], "gain");
  if (grad) {
    for (uint32_t i = 2; i + 1 < d.n_inputs; ++i) per_row(d.inputs[i]);
    need_same(d, d.inputs[d.n_inputs - 1], x);
    for (uint32_t i = 1; i < d.n_outputs; ++i) per_channel(d.outputs[i], "a gradient");
  } else {
    if (layer) per_channel(d.inputs[2], "bias");
    for (uint32_t i = 1; i < d.n_outputs; ++i) per_row(d.outputs[i]);
  }
  return n;
}

Gather parse_gather(const plait_op_desc& d) {
  need_operands(d, 2, 1);
  const plait_shape &table = d.inputs[0], &index = d.inputs[1];
  need(table.ndim >= 1, d, "table needs rows, found " + text(table));
  need(is_index(index.dtype), d, "index needs i32, i64 or u8, found " + text(index));
  need(d.outputs[0].dtype == table.dtype, d, "y must have the table's type");
  Gather g{table.dims[0], 1, elements(index), index.dtype, int_attr(d, "first", 0), 0};
  g.total = int_attr(d, "total", g.rows);
  for (uint32_t i = 1; i < table.ndim; ++i) g.width *= table.dims[i];
  need_count(d, d.outputs[0], g.count * g.width, "y");
  return g;
}

Gather parse_scatter_add(const plait_op_desc& d) {
  need_operands(d, 2, 1);
  const plait_shape &dy = d.inputs[0], &index = d.inputs[1], &y = d.outputs[0];
  need(is_index(index.dtype), d, "index needs i32, i64 or u8, found " + text(index));
  need(y.ndim >= 1 && y.dtype == dy.dtype, d,
       "y must have rows and the type of dy, found " + text(y));
  Gather g{y.dims[0], 1, elements(index), index.dtype, int_attr(d, "first", 0), 0};
  g.total = g.rows;
  for (uint32_t i = 1; i < y.ndim; ++i) g.width *= y.dims[i];
  need_count(d, dy, g.count * g.width, "dy");
  return g;
}

Gather parse_one_hot(const plait_op_desc& d) {
  need_operands(d, 1, 1);
  need(is_index(d.inputs[0].dtype), d, "index needs i32, i64 or u8, found " + text(d.inputs[0]));
  Gather g{0, int_attr(d, "depth", 0), elements(d.inputs[0]), d.inputs[0].dtype};
  need(g.width >= 0, d, "depth must not be negative");
  need_count(d, d.outputs[0], g.count * g.width, "y");
  return g;
}

Matmul parse_matmul(const plait_op_desc& d) {
  Matmul p;
  p.bias = flag_attr(d, "bias", false);
  p.accumulate = flag_attr(d, "accumulate", false);
  p.transpose_a = flag_attr(d, "transpose_a", false);
  p.transpose_b = flag_attr(d, "transpose_b", false);
  p.activation = text_attr(d, "activation", "none");
  p.squares = flag_attr(d, "squares", false);
  need_operands(d, 2 + p.bias + p.accumulate, p.squares ? 2 : 1);
  const plait_shape &a = d.inputs[0], &b = d.inputs[1], &y = d.outputs[0];
  need(a.ndim >= 2 && b.ndim >= 2, d, "needs matrices, found " + text(a) + " and " + text(b));
  need_floats(d, a, "a");
  need(a.dtype == b.dtype && is_float(y.dtype), d, "types differ: " + text(a) + " and " + text(b));
  p.m = a.dims[a.ndim - (p.transpose_a ? 1 : 2)];
  p.k = a.dims[a.ndim - (p.transpose_a ? 2 : 1)];
  p.n = b.dims[b.ndim - (p.transpose_b ? 2 : 1)];
  need(p.k == b.dims[b.ndim - (p.transpose_b ? 1 : 2)], d,
       "inner extents differ: " + text(a) + " and " + text(b));
  for (uint32_t i = 0; i + 2 < a.ndim; ++i) p.batch *= a.dims[i];
  bool leads = b.ndim == 2 || b.ndim == a.ndim;
  for (uint32_t i = 0; leads && b.ndim > 2 && i + 2 < a.ndim; ++i) leads = a.dims[i] == b.dims[i];
  need(leads, d, "leading extents differ: " + text(a) + " and " + text(b));
  need_count(d, y, p.batch * p.m * p.n, "y");
  if (p.bias) {
    need_floats(d, d.inputs[2], "bias");
    need_count(d, d.inputs[2], p.n, "bias");
  }
  if (p.accumulate) need_same(d, d.inputs[d.n_inputs - 1], y);
  need(!p.accumulate || (!p.bias && p.activation == "none"), d,
       "accumulate excludes bias and activation");
  if (p.squares) need_count(d, d.outputs[1], 1, "squares");
  need(!p.squares || (!p.bias && !p.accumulate && p.activation == "none"), d,
       "squares excludes bias, accumulate and activation");
  p.stride_a = p.m * p.k;
  p.stride_b = b.ndim == 2 ? 0 : p.k * p.n;
  if (p.batch != 1 && b.ndim == 2 &&
      !p.transpose_a) {  // one shared b: the products are one tall product
    p.m *= p.batch;
    p.batch = 1;
  }
  return p;
}

Random parse_random(const plait_op_desc& d) {
  need_operands(d, 1, 1);
  const plait_shape &counter = d.inputs[0], &y = d.outputs[0];
  const auto kind = text_attr(d, "kind", "uniform");
  need(kind == "uniform" || kind == "normal", d, "kind is neither uniform nor normal");
  need(counter.dtype == PLAIT_I64 && (elements(counter) == 1 || elements(counter) == 2), d,
       "counter needs i64 with one or two elements, found " + text(counter));
  need_floats(d, y, "y");
  const auto seed = static_cast<uint64_t>(int_attr(d, "seed", 0));
  Random r;
  r.normal = kind == "normal";
  r.by_sample = elements(counter) == 2;
  r.samples = r.by_sample && y.ndim ? y.dims[0] : 1;
  r.per_sample = r.samples ? elements(y) / r.samples : 0;
  r.key0 = static_cast<uint32_t>(seed);
  r.key1 = static_cast<uint32_t>(seed >> 32);
  r.stream = stream_word(int_attr(d, "stream", 0));
  return r;
}

}  // namespace plait::support
