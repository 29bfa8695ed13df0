#include "kit/ops/layout.hpp"

#include <algorithm>
#include <array>

namespace plait::kit {
namespace {

uint32_t axis_of(const plait_op_desc& d, const AttrReader& attrs) {
  const int64_t axis = attrs.integer("axis");
  need(axis >= 0 && axis < int64_t{d.inputs[0].ndim},
       "axis " + std::to_string(axis) + " is not within the rank of " + text(d.inputs[0]));
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
void need_like(const plait_shape& x, const plait_shape& y, uint32_t axis) {
  bool ok = x.dtype == y.dtype && x.ndim == y.ndim && axis < x.ndim;
  for (uint32_t i = 0; ok && i < x.ndim; ++i) ok = i == axis || x.dims[i] == y.dims[i];
  need(ok, text(x) + " and " + text(y) + " differ beyond axis " + std::to_string(axis));
}

std::vector<int64_t> with_extent(const plait_shape& x, uint32_t axis, int64_t extent) {
  std::vector<int64_t> dims(x.dims, x.dims + x.ndim);
  dims[axis] = extent;
  return dims;
}

// y is x, of another extent along `axis`.
void need_extent(const plait_op_desc& d, uint32_t axis, int64_t extent) {
  if (!has_outputs(d)) return;
  need_like(d.inputs[0], d.outputs[0], axis);
  need(d.outputs[0].dims[axis] == extent, "y has shape " + text(d.outputs[0]) + ", expected " +
                                              std::to_string(extent) + " along axis " +
                                              std::to_string(axis));
}

}  // namespace

Blocks parse_slice(const plait_op_desc& d) {
  need_operands(d, 1, 1);
  const plait_shape& x = d.inputs[0];
  const AttrReader attrs(d, kSliceAttrs);
  const uint32_t axis = axis_of(d, attrs);
  const int64_t start = attrs.integer("start"), stop = attrs.integer("stop");
  need(start >= 0 && stop >= start && stop <= x.dims[axis],
       "[" + std::to_string(start) + ", " + std::to_string(stop) + ") is not within axis " +
           std::to_string(axis) + " of " + text(x));
  need_extent(d, axis, stop - start);
  const int64_t inner = inner_of(x, axis + 1), length = (stop - start) * inner;
  return {outer_of(x, axis),
          length,
          false,
          {{start * inner, x.dims[axis] * inner, 0, length}},
          with_extent(x, axis, stop - start)};
}

Blocks parse_pad(const plait_op_desc& d) {
  need_operands(d, 1, 1);
  const plait_shape& x = d.inputs[0];
  const AttrReader attrs(d, kPadAttrs);
  const uint32_t axis = axis_of(d, attrs);
  const int64_t before = attrs.integer("before"), after = attrs.integer("after");
  need(before >= 0 && after >= 0, "before and after must not be negative");
  int64_t extent = 0;
  need(!__builtin_add_overflow(x.dims[axis], before, &extent) &&
           !__builtin_add_overflow(extent, after, &extent),
       "before and after are too large for " + text(x));
  need_extent(d, axis, extent);
  const int64_t inner = inner_of(x, axis + 1), length = x.dims[axis] * inner;
  return {outer_of(x, axis),
          extent * inner,
          before + after > 0,
          {{0, length, before * inner, length}},
          with_extent(x, axis, extent)};
}

Blocks parse_concat(const plait_op_desc& d) {
  need(d.n_inputs >= 1, "needs an input");
  need_operands(d, d.n_inputs, 1);
  const plait_shape& first = d.inputs[0];
  const uint32_t axis = axis_of(d, AttrReader(d, kConcatAttrs));
  Blocks b;
  int64_t filled = 0, extent = 0;
  for (uint32_t i = 0; i < d.n_inputs; ++i) {
    const plait_shape& x = d.inputs[i];
    need_like(first, x, axis);
    need(!__builtin_add_overflow(extent, x.dims[axis], &extent), "the inputs are too large");
    const int64_t length = inner_of(x, axis);
    b.copies.push_back({0, length, filled, length});
    filled += length;
  }
  b.outer = outer_of(first, axis);
  b.to_step = filled;
  b.out = with_extent(first, axis, extent);
  need_extent(d, axis, extent);
  return b;
}

Transpose parse_transpose(const plait_op_desc& d) {
  need_operands(d, 1, 1);
  const plait_shape& x = d.inputs[0];
  const auto perm = AttrReader(d, kTransposeAttrs).ints("perm");
  std::array<bool, PLAIT_MAX_NDIM> seen{};
  bool is_perm = perm.size() == x.ndim;
  for (size_t i = 0; is_perm && i < perm.size(); ++i) {
    is_perm = perm[i] >= 0 && perm[i] < int64_t{x.ndim} && !seen[static_cast<size_t>(perm[i])];
    if (is_perm) seen[static_cast<size_t>(perm[i])] = true;
  }
  need(is_perm, "perm must name each axis of " + text(x) + " once");
  Transpose t;
  for (const int64_t p : perm) {
    t.out.push_back(x.dims[p]);
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
  if (has_outputs(d)) {
    const plait_shape& y = d.outputs[0];
    need(y.dtype == x.dtype && y.ndim == x.ndim && std::equal(t.out.begin(), t.out.end(), y.dims),
         "perm does not take " + text(x) + " to " + text(y));
  }
  return t;
}

std::vector<int64_t> parse_reshape(const plait_op_desc& d) {
  need_operands(d, 1, 1);
  const plait_shape& x = d.inputs[0];
  std::vector<int64_t> dims = AttrReader(d, kReshapeAttrs).ints("shape");
  need(dims.size() <= PLAIT_MAX_NDIM,
       std::to_string(dims.size()) + " dimensions, at most 8 are supported");
  plait_shape y{x.dtype, static_cast<uint32_t>(dims.size()), {}};
  std::copy(dims.begin(), dims.end(), y.dims);
  for (const int64_t extent : dims) need(extent >= 0, "negative extent " + std::to_string(extent));
  need(elements(y) == elements(x), text(x) + " has " + std::to_string(elements(x)) + " elements, " +
                                       text(y) + " has " + std::to_string(elements(y)));
  return dims;
}

}  // namespace plait::kit
