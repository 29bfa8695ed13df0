// Ops that move elements without changing them: reshape (a view), transpose, slice, pad, concat.
#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/program/rule.hpp"

namespace plait::program {
namespace {

std::vector<plait_shape> infer_reshape(const Application& a) {
  a.arity(1, 1);
  const plait_shape out = make_shape(a.in[0].dtype, a.attrs.ints("shape"));
  if (elements(out) != elements(a.in[0]))
    fail_invalid(a.where() + " " + text(a.in[0]) + " has " + std::to_string(elements(a.in[0])) +
                 " elements, " + text(out) + " has " + std::to_string(elements(out)));
  return {out};
}
void gradient_reshape(Use& u) {
  u.d_in[0] = reshaped(u.g, u.d_out[0], dims_of(u.g.shape(u.op.in[0])));
}

std::vector<plait_shape> infer_transpose(const Application& a) {
  a.arity(1, 1);
  const auto& perm = a.attrs.ints("perm");
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  bool is_perm = perm.size() == a.in[0].ndim;
  for (size_t i = 0; is_perm && i < sorted.size(); ++i)
    is_perm = sorted[i] == static_cast<int64_t>(i);
  if (!is_perm) fail_invalid(a.where() + " perm must name each axis of " + text(a.in[0]) + " once");
  Dims dims;
  for (int64_t p : perm) dims.push_back(a.in[0].dims[p]);
  return {make_shape(a.in[0].dtype, dims)};
}
void gradient_transpose(Use& u) {
  const auto& perm = u.op.attrs.ints("perm");
  std::vector<int64_t> back(perm.size());
  for (size_t i = 0; i < perm.size(); ++i)
    back[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  u.d_in[0] = u.g.apply1("transpose", {u.d_out[0]}, {attr("perm", back)});
}

int64_t axis_of(const Application& a) {
  const int64_t axis = a.attrs.integer("axis", 0);
  if (axis < 0 || axis >= static_cast<int64_t>(a.in[0].ndim))
    fail_invalid(a.where() + " axis " + std::to_string(axis) + " is out of range for " +
                 text(a.in[0]));
  return axis;
}

std::vector<plait_shape> infer_slice(const Application& a) {
  a.arity(1, 1);
  const int64_t axis = axis_of(a), start = a.attrs.integer("start", 0),
                stop = a.attrs.integer("stop", 0);
  if (start < 0 || stop < start || stop > a.in[0].dims[axis])
    fail_invalid(a.where() + " [" + std::to_string(start) + ", " + std::to_string(stop) +
                 ") is not within axis " + std::to_string(axis) + " of " + text(a.in[0]));
  Dims dims = dims_of(a.in[0]);
  dims[static_cast<size_t>(axis)] = stop - start;
  return {make_shape(a.in[0].dtype, dims)};
}
void gradient_slice(Use& u) {
  const int64_t axis = u.op.attrs.integer("axis", 0);
  u.d_in[0] =
      u.g.apply1("pad", {u.d_out[0]},
                 {attr("axis", axis), attr("before", u.op.attrs.integer("start", 0)),
                  attr("after", u.g.shape(u.op.in[0]).dims[axis] - u.op.attrs.integer("stop", 0))});
}

std::vector<plait_shape> infer_pad(const Application& a) {
  a.arity(1, 1);
  const int64_t axis = axis_of(a), before = a.attrs.integer("before", 0),
                after = a.attrs.integer("after", 0);
  if (before < 0 || after < 0) fail_invalid(a.where() + " before and after must not be negative");
  Dims dims = dims_of(a.in[0]);
  dims[static_cast<size_t>(axis)] += before + after;
  return {make_shape(a.in[0].dtype, dims)};
}
void gradient_pad(Use& u) {
  const int64_t axis = u.op.attrs.integer("axis", 0), before = u.op.attrs.integer("before", 0);
  u.d_in[0] = u.g.apply1("slice", {u.d_out[0]},
                         {attr("axis", axis), attr("start", before),
                          attr("stop", before + u.g.shape(u.op.in[0]).dims[axis])});
}

std::vector<plait_shape> infer_concat(const Application& a) {
  a.arity(1, 1024);
  const int64_t axis = axis_of(a);
  Dims dims = dims_of(a.in[0]);
  for (size_t i = 1; i < a.in.size(); ++i) {
    plait_shape rest = a.in[i], first = a.in[0];
    if (rest.ndim == first.ndim) rest.dims[axis] = first.dims[axis] = 0;
    if (!same(rest, first))
      fail_invalid(a.where() + " " + text(a.in[0]) + " and " + text(a.in[i]) +
                   " differ beyond axis " + std::to_string(axis));
    dims[static_cast<size_t>(axis)] += a.in[i].dims[axis];
  }
  return {make_shape(a.in[0].dtype, dims)};
}
void gradient_concat(Use& u) {
  const int64_t axis = u.op.attrs.integer("axis", 0);
  int64_t start = 0;
  for (size_t i = 0; i < u.op.in.size(); ++i) {
    const int64_t n = u.g.shape(u.op.in[i]).dims[axis];
    if (u.wanted[i])
      u.d_in[i] = u.g.apply1("slice", {u.d_out[0]},
                             {attr("axis", axis), attr("start", start), attr("stop", start + n)});
    start += n;
  }
}

double no_flops(const Graph&, const Op&) { return 0; }

}  // namespace

extern const Rule kReshape, kTranspose, kSlice, kPad, kConcat;
const Rule kReshape{"reshape", infer_reshape,       gradient_reshape, no_flops,
                    true,      CollectiveOp::kNone, shard_reshape};
const Rule kTranspose{"transpose", infer_transpose,     gradient_transpose, no_flops,
                      false,       CollectiveOp::kNone, shard_transpose};
const Rule kSlice{"slice", infer_slice,         gradient_slice, no_flops,
                  false,   CollectiveOp::kNone, shard_off_axis};
const Rule kPad{"pad", infer_pad,           gradient_pad,  no_flops,
                false, CollectiveOp::kNone, shard_off_axis};
const Rule kConcat{"concat", infer_concat,        gradient_concat, no_flops,
                   false,    CollectiveOp::kNone, shard_off_axis};

}  // namespace plait::program
