// The parts of op_shape.hpp that fold dims: reductions, transposes and block copies.
#include <algorithm>
#include <array>

#include "plugins/support/dtype.hpp"
#include "plugins/support/op_shape.hpp"

namespace plait::support {
namespace {

ReduceKind reduce_kind(const plait_op_desc& d) {
  const auto kind = text_attr(d, "kind", "sum");
  if (kind == "sum") return ReduceKind::sum;
  if (kind == "max") return ReduceKind::max;
  need(kind == "sum_squares", d, "kind is none of sum, max, sum_squares");
  return ReduceKind::sum_squares;
}

uint32_t axis_of(const plait_op_desc& d) {
  const int64_t axis = int_attr(d, "axis", 0);
  need(axis >= 0 && axis < int64_t{d.inputs[0].ndim}, d,
       "axis " + std::to_string(axis) + " is out of range for " + text(d.inputs[0]));
  return static_cast<uint32_t>(axis);
}

// Elements of the dims before, and from, `axis`.
int64_t outer_of(const plait_shape& s, uint32_t axis) {
  int64_t n = 1;
  for (uint32_t i = 0; i < axis; ++i) n *= s.dims[i];
  return n;
}
int64_t inner_of(const plait_shape& s, uint32_t axis) {
  int64_t n = 1;
  for (uint32_t i = axis; i < s.ndim; ++i) n *= s.dims[i];
  return n;
}

// Checks that x and y differ along `axis` only and have one type.
void need_like(const plait_op_desc& d, const plait_shape& x, const plait_shape& y, uint32_t axis) {
  bool ok = x.dtype == y.dtype && x.ndim == y.ndim && axis < x.ndim;
  for (uint32_t i = 0; ok && i < x.ndim; ++i) ok = i == axis || x.dims[i] == y.dims[i];
  need(ok, d, text(x) + " and " + text(y) + " differ beyond axis " + std::to_string(axis));
}

}  // namespace

Reduce parse_reduce(const plait_op_desc& d) {
  need_operands(d, 1, 1);
  const plait_shape &x = d.inputs[0], &y = d.outputs[0];
  Reduce r;
  r.kind = reduce_kind(d);
  std::vector<bool> axis(x.ndim, false);
  for (int64_t a : ints_attr(d, "axes")) {
    need(a >= 0 && a < int64_t{x.ndim}, d,
         "axis " + std::to_string(a) + " is out of range for " + text(x));
    axis[static_cast<size_t>(a)] = true;
  }
  int64_t stride = 1;
  for (uint32_t i = x.ndim; i-- > 0;) {
    const bool reduced = axis[i];
    (reduced ? r.summed : r.kept) *= x.dims[i];
    if (x.dims[i] != 1) {
      if (!r.dims.empty() && r.reduced.back() == reduced)
        r.dims.back().extent *= x.dims[i];
      else {
        r.dims.push_back({x.dims[i], stride});
        r.reduced.push_back(reduced);
      }
    }
    stride *= x.dims[i];
  }
  std::reverse(r.dims.begin(), r.dims.end());
  std::reverse(r.reduced.begin(), r.reduced.end());
  need(elements(y) == r.kept, d,
       "y has shape " + text(y) + ", expected " + std::to_string(r.kept) + " elements");
  return r;
}

Blocks parse_slice(const plait_op_desc& d) {
  need_operands(d, 1, 1);
  const plait_shape &x = d.inputs[0], &y = d.outputs[0];
  const uint32_t axis = axis_of(d);
  const int64_t start = int_attr(d, "start", 0), stop = int_attr(d, "stop", 0);
  need_like(d, x, y, axis);
  need(start >= 0 && stop >= start && stop <= x.dims[axis] && y.dims[axis] == stop - start, d,
       "[" + std::to_string(start) + ", " + std::to_string(stop) + ") does not take " + text(x) +
           " to " + text(y));
  const int64_t inner = inner_of(x, axis + 1), length = (stop - start) * inner;
  return {outer_of(x, axis), length, false, {{start * inner, x.dims[axis] * inner, 0, length}}};
}

Blocks parse_pad(const plait_op_desc& d) {
  need_operands(d, 1, 1);
  const plait_shape &x = d.inputs[0], &y = d.outputs[0];
  const uint32_t axis = axis_of(d);
  const int64_t before = int_attr(d, "before", 0), after = int_attr(d, "after", 0);
  need_like(d, x, y, axis);
  need(before >= 0 && after >= 0 && y.dims[axis] == x.dims[axis] + before + after, d,
       "before and after do not take " + text(x) + " to " + text(y));
  const int64_t inner = inner_of(x, axis + 1), length = x.dims[axis] * inner;
  return {outer_of(x, axis),
          y.dims[axis] * inner,
          before + after > 0,
          {{0, length, before * inner, length}}};
}

Blocks parse_concat(const plait_op_desc& d) {
  need(d.n_inputs >= 1, d, "needs an input");
  need_operands(d, d.n_inputs, 1);
  const plait_shape& y = d.outputs[0];
  const uint32_t axis = axis_of(d);
  Blocks b;
  int64_t filled = 0;
  for (uint32_t i = 0; i < d.n_inputs; ++i) {
    const plait_shape& x = d.inputs[i];
    need_like(d, x, y, axis);
    const int64_t length = inner_of(x, axis);
    b.copies.push_back({0, length, filled, length});
    filled += length;
  }
  b.outer = outer_of(y, axis);
  b.to_step = inner_of(y, axis);
  need(filled == b.to_step, d, "inputs do not fill " + text(y));
  return b;
}

Transpose parse_transpose(const plait_op_desc& d) {
  need_operands(d, 1, 1);
  const plait_shape &x = d.inputs[0], &y = d.outputs[0];
  const auto perm = ints_attr(d, "perm");
  need(perm.size() == x.ndim && y.ndim == x.ndim && x.dtype == y.dtype, d,
       "perm does not take " + text(x) + " to " + text(y));
  std::array<bool, PLAIT_MAX_NDIM> seen{};
  Transpose t;
  for (uint32_t i = 0; i < y.ndim; ++i) {
    const int64_t p = perm[i];
    need(p >= 0 && p < int64_t{x.ndim} && !seen[static_cast<size_t>(p)] && y.dims[i] == x.dims[p],
         d, "perm does not take " + text(x) + " to " + text(y));
    seen[static_cast<size_t>(p)] = true;
    if (x.dims[p] == 1) continue;
    const int64_t stride = inner_of(x, static_cast<uint32_t>(p) + 1);
    if (!t.strides.empty() && t.strides.back() == stride * x.dims[p]) {
      t.extents.back() *= x.dims[p];
      t.strides.back() = stride;
    } else {
      t.extents.push_back(x.dims[p]);
      t.strides.push_back(stride);
    }
  }
  return t;
}

}  // namespace plait::support
