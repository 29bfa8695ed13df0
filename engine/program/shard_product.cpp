#include "engine/program/shard_product.hpp"

#include <plait/comm.h>

#include "engine/program/op_def.hpp"

namespace plait::program {
namespace {

// Whether a value is a parameter, perhaps cast or seen under other dims.
bool is_parameter(const Graph& g, ValueId v) {
  while (g.value(v).producer >= 0) {
    const Op& op = g.ops()[static_cast<size_t>(g.value(v).producer)];
    if (op.in.size() != 1 || !(op.def->is_view || op.def->is_map)) return false;
    v = op.in[0];
  }
  return g.value(v).role == Role::kPersistent;
}

}  // namespace

// Rows, columns and leading dimensions stay sharded; over a sharded k the products are partial
// sums. A sharded parameter stays where it is, and a is converted; of two sharded activations b is.
bool shard_product(const Graph& g, const Op& op, const ProductInputs& p,
                   const std::vector<Placement>& have, Sharding& s) {
  s.keeps_zeros = true;
  const auto ra = static_cast<int32_t>(g.shape(op.in[0]).ndim),
             rb = static_cast<int32_t>(g.shape(op.in[1]).ndim),
             ry = static_cast<int32_t>(g.shape(op.out[0]).ndim);
  const int32_t a_rows = ra - (p.transpose_a ? 1 : 2), a_inner = ra - (p.transpose_a ? 2 : 1);
  const int32_t b_columns = rb - (p.transpose_b ? 2 : 1), b_inner = rb - (p.transpose_b ? 1 : 2);
  const int32_t a = have[0].dim, b = have[1].dim;  // -1: replicated
  const bool rows = have[0].is_shard() && (a == a_rows || (a < ra - 2 && rb == 2));
  const bool fixed = have[1].is_shard() && is_parameter(g, p.b);
  const auto by_columns = [&] {
    s.in[1] = have[1];
    s.out[0] = shard_along(ry - 1);
    if (p.bias != 0) s.in[p.bias] = shard_along(0);
    return true;
  };
  if (b == b_inner && (fixed || !rows)) {  // its a must come in the same parts
    s.in[0] = shard_along(a_inner);
    s.in[1] = have[1];
    s.out[0] = partial(PLAIT_COMM_SUM);
    return true;
  }
  if (b == b_columns && fixed) return by_columns();
  // A bias is added to padded rows, too.
  if (rows) {
    s.keeps_zeros = p.bias == 0;
    s.in[0] = have[0];
    s.out[0] = a == a_rows ? shard_along(ry - 2) : have[0];
    return true;
  }
  if (b == b_columns) return by_columns();
  const int32_t lead = have[0].is_shard() && a < ra - 2 ? a : b;
  if (lead >= 0 && rb > 2 && lead < rb - 2) {
    s.keeps_zeros = p.bias == 0;
    s.in[0] = s.in[1] = s.out[0] = shard_along(lead);
    return true;
  }
  return false;  // a alone is sharded along k: to gather it costs less than to sum y
}

}  // namespace plait::program
