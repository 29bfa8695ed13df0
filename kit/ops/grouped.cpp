#include "kit/ops/grouped.hpp"

#include <limits>

namespace plait::kit {
namespace {

constexpr int64_t kMostRows = std::numeric_limits<int32_t>::max();

// index and x have the same dims but for the last one.
void need_tokens(const plait_shape& x, const plait_shape& index, const char* what) {
  bool ok = x.ndim >= 1 && x.ndim == index.ndim;
  for (uint32_t i = 0; ok && i + 1 < x.ndim; ++i) ok = x.dims[i] == index.dims[i];
  need(ok, std::string("needs rows (.., C) and ") + what + " (.., k) of the same tokens, found " +
               text(x) + " and " + text(index));
}

int64_t leading(const plait_shape& s) {
  int64_t n = 1;
  for (uint32_t i = 0; i + 1 < s.ndim; ++i) n *= s.dims[i];
  return n;
}

void need_place(const plait_shape& place) {
  need_index(place, "place");
  need(place.ndim >= 1 && elements(place) <= kMostRows,
       "place is " + text(place) + ", expected (.., k) with fewer than 2^31 elements");
}

// The group of the first matrix, and offsets (total + 1).
void read_offsets(const plait_shape& offsets, GroupedMatmul& g) {
  need_index(offsets, "offsets");
  need(offsets.ndim == 1 && offsets.dims[0] >= 2,
       "offsets are " + text(offsets) + ", expected (E+1)");
  g.total = offsets.dims[0] - 1;
}

void need_matrix(const plait_shape& s, const char* what) {
  need_floats(s, what);
  need(s.ndim == 2, std::string(what) + " is " + text(s) + ", expected rows (M, C)");
}

}  // namespace

GroupRows parse_group_rows(const plait_op_desc& d) {
  need_operands(d, 2, 3);
  const plait_shape &x = d.inputs[0], &index = d.inputs[1];
  need_floats(x, "x");
  need_index(index, "index");
  need_tokens(x, index, "an index");
  GroupRows g;
  g.tokens = leading(x);
  g.width = x.dims[x.ndim - 1];
  g.each = index.dims[index.ndim - 1];
  g.groups = AttrReader(d, kGroupRowsAttrs).integer("groups");
  g.place.assign(index.dims, index.dims + index.ndim);
  need(elements(index) <= kMostRows, "the index is " + text(index) + ", expected fewer than 2^31");
  if (!has_outputs(d)) return g;
  need(d.outputs[0].dtype == x.dtype, "rows are " + text(d.outputs[0]) + " of " + text(x));
  need_count(d.outputs[0], g.tokens * g.each * g.width, "rows");
  need(d.outputs[1].dtype == PLAIT_I32 && d.outputs[2].dtype == PLAIT_I32,
       "place and offsets are " + text(d.outputs[1]) + " and " + text(d.outputs[2]) +
           ", expected i32");
  need_count(d.outputs[1], g.tokens * g.each, "place");
  need_count(d.outputs[2], g.groups + 1, "offsets");
  return g;
}

UngroupRows parse_ungroup_rows(const plait_op_desc& d) {
  UngroupRows u;
  u.weighted = d.n_inputs == 3;
  need_operands(d, u.weighted ? 3 : 2, 1);
  const plait_shape &rows = d.inputs[0], &place = d.inputs[u.weighted ? 2 : 1];
  need_matrix(rows, "rows");
  need_place(place);
  u.tokens = leading(place);
  u.each = place.dims[place.ndim - 1];
  u.width = rows.dims[1];
  need(rows.dims[0] == u.tokens * u.each, "has " + text(rows) + " for the places " + text(place));
  if (u.weighted) {
    need_floats(d.inputs[1], "weights");
    need(same_dims(d.inputs[1], place),
         "needs a weight for each place, found " + text(d.inputs[1]) + " and " + text(place));
  }
  u.out.assign(place.dims, place.dims + place.ndim - 1);
  u.out.push_back(u.width);
  if (has_outputs(d)) need_n_floats(d.outputs[0], u.tokens * u.width, "y");
  return u;
}

UngroupRows parse_ungroup_rows_grad(const plait_op_desc& d) {
  UngroupRows u;
  u.weighted = d.n_inputs == 4;
  need_operands(d, u.weighted ? 4 : 2, u.weighted ? 2 : 1);
  const plait_shape &dy = d.inputs[0], &place = d.inputs[u.weighted ? 3 : 1];
  need_floats(dy, "dy");
  need_place(place);
  need_tokens(dy, place, "a place");
  u.tokens = leading(place);
  u.each = place.dims[place.ndim - 1];
  u.width = dy.dims[dy.ndim - 1];
  u.out = {u.tokens * u.each, u.width};
  if (u.weighted) {
    need_matrix(d.inputs[1], "rows");
    need_count(d.inputs[1], u.tokens * u.each * u.width, "rows");
    need_floats(d.inputs[2], "weights");
    need(same_dims(d.inputs[2], place),
         "needs a weight for each place, found " + text(d.inputs[2]) + " and " + text(place));
  }
  if (!has_outputs(d)) return u;
  need_n_floats(d.outputs[0], u.tokens * u.each * u.width, "drows");
  if (!u.weighted) return u;
  need_n_floats(d.outputs[1], u.tokens * u.each, "dweights");
  return u;
}

GroupedMatmul parse_grouped_matmul(const plait_op_desc& d) {
  static constexpr plait_option kRead[] = {kGroupedMatmulAttrs[0], kFirstGroup};
  need_operands(d, 3, 1);
  const plait_shape &x = d.inputs[0], &b = d.inputs[1];
  need_matrix(x, "x");
  need(b.ndim == 3 && b.dtype == x.dtype,
       "needs rows (M, I) and matrices of three dimensions, of "
       "one float type, found " +
           text(x) + " and " + text(b));
  GroupedMatmul g;
  const AttrReader attrs(d, kRead);
  g.transpose_b = attrs.flag("transpose_b");
  g.first = attrs.integer("first");
  g.rows = x.dims[0];
  g.inputs = x.dims[1];
  g.groups = b.dims[0];
  g.outputs = b.dims[g.transpose_b ? 1 : 2];
  const int64_t inner = b.dims[g.transpose_b ? 2 : 1];
  need(inner == g.inputs, "inner extents differ: " + std::to_string(g.inputs) + " in " + text(x) +
                              ", " + std::to_string(inner) + " in " + text(b) +
                              (g.transpose_b ? " transposed" : ""));
  read_offsets(d.inputs[2], g);
  g.out = {g.rows, g.outputs};
  if (has_outputs(d)) need_n_floats(d.outputs[0], g.rows * g.outputs, "y");
  return g;
}

GroupedMatmul parse_grouped_matmul_grad(const plait_op_desc& d) {
  need_operands(d, 3, 1);
  const plait_shape &a = d.inputs[0], &b = d.inputs[1];
  need_matrix(a, "a");
  need_matrix(b, "b");
  need(a.dims[0] == b.dims[0] && a.dtype == b.dtype,
       "needs as many rows of one float type, found " + text(a) + " and " + text(b));
  GroupedMatmul g;
  const AttrReader attrs(d, kGroupedGradPart);
  g.rows = a.dims[0];
  g.inputs = a.dims[1];
  g.outputs = b.dims[1];
  g.first = attrs.integer("first");
  read_offsets(d.inputs[2], g);
  const int64_t own = attrs.integer("groups");
  g.groups = own > 0 ? own : g.total;
  g.out = {g.groups, g.inputs, g.outputs};
  if (has_outputs(d)) need_n_floats(d.outputs[0], g.groups * g.inputs * g.outputs, "y");
  return g;
}

}  // namespace plait::kit
