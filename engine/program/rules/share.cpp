// How ops are shared over T ranks: see partition.hpp. `have`: how each input lies, by dimension. False: the op needs whole values.
#include <plait/comm.h>

#include <algorithm>

#include "engine/program/rule.hpp"
#include "engine/program/shard.hpp"

namespace plait::program {
namespace {

// The dimension of `s` that lies under dimension `dim` of an aligned, broadcast result with `ndim` dimensions; kReplicated where s repeats there.
int32_t under(const plait_shape& s, uint32_t ndim, int32_t dim, int64_t extent) {
  const int32_t own = dim - static_cast<int32_t>(ndim - s.ndim);
  return own >= 0 && s.dims[own] == extent ? own : kReplicated;
}

}  // namespace

// Element by element: the inputs follow the largest one that is shared.
bool shard_map(const Graph& g, const Op& op, const std::vector<int32_t>& have, int64_t,
               Sharding& s) {
  const plait_shape& out = g.shape(op.out[0]);
  int32_t dim = kReplicated;
  int64_t largest = 0;
  for (size_t i = 0; i < op.in.size(); ++i) {
    const plait_shape& in = g.shape(op.in[i]);
    if (have[i] < 0 || elements(in) <= largest) continue;
    const int32_t at = have[i] + static_cast<int32_t>(out.ndim - in.ndim);
    if (out.dims[at] != in.dims[have[i]]) continue;
    dim = at;
    largest = elements(in);
  }
  if (dim < 0) return false;
  for (size_t i = 0; i < op.in.size(); ++i)
    s.in[i] = under(g.shape(op.in[i]), out.ndim, dim, out.dims[dim]);
  s.out[0] = dim;
  return true;
}

// y[L, m, n] = a[L, m, k] b[L, k, n]: rows, columns and leading dimensions stay shared, sums over k are terms.
bool shard_matmul(const Graph& g, const Op& op, const std::vector<int32_t>& have, int64_t,
                  Sharding& s) {
  const bool ta = op.attrs.integer("transpose_a", 0) != 0,
             tb = op.attrs.integer("transpose_b", 0) != 0;
  const auto ra = static_cast<int32_t>(g.shape(op.in[0]).ndim),
             rb = static_cast<int32_t>(g.shape(op.in[1]).ndim),
             ry = static_cast<int32_t>(g.shape(op.out[0]).ndim);
  const int32_t a_rows = ra - (ta ? 1 : 2), a_inner = ra - (ta ? 2 : 1);
  const int32_t b_columns = rb - (tb ? 2 : 1), b_inner = rb - (tb ? 1 : 2);
  const bool bias = op.in.size() > 2;
  if (have[1] >= 0 && have[1] == b_inner) {  // its a must come in the same parts
    s.in[0] = a_inner;
    s.in[1] = b_inner;
    s.reduce = PLAIT_COMM_SUM;
    return true;
  }
  if (have[0] == a_rows || (have[0] >= 0 && have[0] < ra - 2 && rb == 2)) {
    s.in[0] = s.out[0] = have[0];
    if (have[0] == a_rows) s.out[0] = ry - 2;
    return true;
  }
  if (have[1] >= 0 && have[1] == b_columns) {
    s.in[1] = b_columns;
    s.out[0] = ry - 1;
    if (bias) s.in[2] = 0;
    return true;
  }
  const int32_t lead = have[0] >= 0 && have[0] < ra - 2 ? have[0]
                       : have[1] >= 0                   ? have[1]
                                                        : kReplicated;
  if (lead >= 0 && rb > 2 && lead < rb - 2) {
    s.in[0] = s.in[1] = s.out[0] = lead;
    return true;
  }
  return false;  // a alone is shared along k: to gather it costs less than to sum y
}

bool shard_reduce(const Graph&, const Op& op, const std::vector<int32_t>& have, int64_t,
                  Sharding& s) {
  const auto& axes = op.attrs.ints("axes");
  s.in[0] = have[0];
  if (std::find(axes.begin(), axes.end(), have[0]) != axes.end()) {
    s.reduce = op.attrs.text("kind", "sum") == "max" ? PLAIT_COMM_MAX : PLAIT_COMM_SUM;
    return true;
  }
  const auto before =
      std::count_if(axes.begin(), axes.end(), [&](int64_t a) { return a < have[0]; });
  s.out[0] = have[0] - (op.attrs.integer("keep", 1) ? 0 : static_cast<int32_t>(before));
  return true;
}

// A part of a dimension is a part of the dimension that begins at the same place, where that is the same or both can be cut evenly.
bool shard_reshape(const Graph& g, const Op& op, const std::vector<int32_t>& have, int64_t ranks,
                   Sharding& s) {
  const plait_shape &in = g.shape(op.in[0]), &out = g.shape(op.out[0]);
  int64_t before = 1;
  for (int32_t d = 0; d < have[0]; ++d) before *= in.dims[d];
  int64_t outer = 1;
  for (uint32_t d = 0; d < out.ndim; outer *= out.dims[d++]) {
    const bool even = out.dims[d] % ranks == 0 && in.dims[have[0]] % ranks == 0;
    if (outer != before || (out.dims[d] != in.dims[have[0]] && !even)) continue;
    s.in[0] = have[0];
    s.out[0] = static_cast<int32_t>(d);
    return true;
  }
  return false;
}

bool shard_transpose(const Graph&, const Op& op, const std::vector<int32_t>& have, int64_t,
                     Sharding& s) {
  const auto& perm = op.attrs.ints("perm");
  s.in[0] = have[0];
  s.out[0] = static_cast<int32_t>(std::find(perm.begin(), perm.end(), have[0]) - perm.begin());
  return true;
}

// slice, pad, concat: along every dimension but their own.
bool shard_off_axis(const Graph&, const Op& op, const std::vector<int32_t>& have, int64_t,
                    Sharding& s) {
  int32_t dim = kReplicated;
  for (int32_t h : have)
    if (h >= 0 && dim < 0) dim = h;
  if (dim < 0 || dim == op.attrs.integer("axis", 0)) return false;
  std::fill(s.in.begin(), s.in.end(), dim);
  s.out[0] = dim;
  return true;
}

// Rows of a table (V, C..): its channels may be shared, for the gradient of the rows alike.
bool shard_gather(const Graph& g, const Op& op, const std::vector<int32_t>& have, int64_t,
                  Sharding& s) {
  if (have[0] < 1 || have[1] >= 0) return false;
  s.in[0] = have[0];
  s.out[0] = have[0] - 1 + static_cast<int32_t>(g.shape(op.in[1]).ndim);
  return true;
}
bool shard_scatter(const Graph& g, const Op& op, const std::vector<int32_t>& have, int64_t,
                   Sharding& s) {
  const auto index_ndim = static_cast<int32_t>(g.shape(op.in[1]).ndim);
  if (have[0] < index_ndim || have[1] >= 0) return false;
  s.in[0] = have[0];
  s.out[0] = have[0] - index_ndim + 1;
  return true;
}

// Row by row over the last dimension: softmax and its like. All inputs of the first one's shape.
bool shard_rows(const Graph& g, const Op& op, const std::vector<int32_t>& have, int64_t,
                Sharding& s) {
  int32_t dim = kReplicated;
  for (int32_t h : have)
    if (h >= 0 && dim < 0) dim = h;
  if (dim == static_cast<int32_t>(g.shape(op.in[0]).ndim) - 1) return false;
  std::fill(s.in.begin(), s.in.end(), dim);
  std::fill(s.out.begin(), s.out.end(), dim);
  return true;
}

}  // namespace plait::program
