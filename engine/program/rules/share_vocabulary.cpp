// Tables and losses whose vocabulary the tensor ranks share: each looks after the ids of its part (Shoeybi et al. 2019, section 3).
// V ids, T ranks, n = ceil(V / T) of a part.
#include <plait/comm.h>

#include "engine/program/rule.hpp"
#include "engine/program/shard.hpp"

namespace plait::program {
namespace {

// The attributes of the op, of this rank's part of V.
Attrs shard_attrs(const ShardContext& u, int64_t vocabulary) {
  Attrs attrs = u.op.attrs;
  const int64_t n = (vocabulary + u.ranks - 1) / u.ranks;
  attrs.set(attr("first", u.rank * n));
  attrs.set(attr("total", vocabulary));
  return attrs;
}

int32_t last_dim(const ShardContext& u) {
  return static_cast<int32_t>(u.from.shape(u.op.in[0]).ndim) - 1;
}

int64_t classes(const ShardContext& u) { return u.from.shape(u.op.in[0]).dims[last_dim(u)]; }

}  // namespace

// Rows that lie elsewhere are zeros here; the sum has them all.
bool write_sharded_gather(ShardContext& u) {
  if (u.have[0] != 0) return false;
  const ValueId rows = u.to.apply1("gather", {u.input(0, 0), u.input(1, kReplicated)},
                                   shard_attrs(u, u.from.shape(u.op.in[0]).dims[0]));
  u.out = {u.all_reduce(rows, PLAIT_COMM_SUM)};
  u.out_dims = {kReplicated};
  return true;
}

// The log-sum-exp of all classes from those of the parts, shifted by the greatest of them; the rest adds up.
bool write_sharded_cross_entropy(ShardContext& u) {
  if (u.have[0] != last_dim(u)) return false;
  Graph& g = u.to;
  const ValueId label = u.input(1, kReplicated);
  const auto shard =
      g.apply("cross_entropy", {u.input(0, u.have[0]), label}, shard_attrs(u, classes(u)));
  const ValueId greatest = u.all_reduce(g.apply1("copy", {shard[1]}), PLAIT_COMM_MAX);
  const ValueId sum =
      u.all_reduce(g.apply1("exp", {binary(g, "sub", shard[1], greatest)}), PLAIT_COMM_SUM);
  const ValueId lse = binary(g, "add", greatest, g.apply1("log", {sum}));
  const ValueId rest = u.all_reduce(shard[0], PLAIT_COMM_SUM);
  // A label below 0 is ignored.
  const ValueId counts = binary(g, "le", g.constant(0), g.as_type(label, g.shape(lse).dtype));
  u.out = {g.apply1("select", {counts, binary(g, "add", lse, rest), g.constant(0)}), lse};
  u.out_dims = {kReplicated, kReplicated};
  return true;
}

bool write_sharded_cross_entropy_grad(ShardContext& u) {
  if (u.have[0] != last_dim(u)) return false;
  u.out = u.to.apply("cross_entropy_grad",
                     {u.input(0, u.have[0]), u.input(1, kReplicated), u.input(2, kReplicated),
                      u.input(3, kReplicated)},
                     shard_attrs(u, classes(u)));
  u.out_dims = {u.have[0]};
  return true;
}

}  // namespace plait::program
