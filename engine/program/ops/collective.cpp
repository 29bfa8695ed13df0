// Collectives between the ranks of a group, as ops: `collective_start` starts one, and
// `collective_done` orders its readers behind its end. Computation between the two may overlap with
// it. Attributes: kind and reduction (plait/comm.h), ranks (R, of the group), id (index in
// Plan::collectives), ordered (part of the order that ranks with different programs agree on).
//   collective_start(x, ...) -> y    further inputs are only waited for: they lie in x's memory
//   collective_start() -> y          the message of a peer; shape, dtype
//   collective_done(y, ...) -> y     in place; further inputs were sent and must stay until then
#include <plait/comm.h>

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/program/op_def.hpp"
#include "kit/op_attrs.hpp"

namespace plait::program {
namespace {

constexpr plait_option kStartAttrs[] = {
    kit::int_option("kind", nullptr, "PLAIT_COMM_*"),
    kit::int_option("ranks", nullptr, "of the group"),
    kit::int_option("id", nullptr, "which of the plan's collectives it is"),
    kit::bool_option("ordered", "false", "among all that are; for ranks whose programs differ"),
    kit::int_option("dtype", "1", "of what is received"),
    kit::ints_option("shape", "[]", "of what is received"),
};
constexpr plait_option kDoneAttrs[] = {
    kit::int_option("id", nullptr, "which of the plan's collectives it is"),
};
// Not there: that of the launch.
constexpr plait_option kDoneSlot[] = {
    kit::int_option("slot", nullptr, "of the pipeline, whose message is waited for"),
};

std::vector<plait_shape> infer_start(const InferContext& a) {
  const int64_t kind = a.attrs.integer("kind", 0), ranks = a.attrs.integer("ranks", 1);
  // A message, or what another rank broadcasts.
  if (kind == PLAIT_COMM_RECEIVE || (kind == PLAIT_COMM_BROADCAST && a.in.empty()))
    return {make_shape(static_cast<uint32_t>(a.attrs.integer("dtype", a.float_type)),
                       a.attrs.ints("shape"))};
  if (a.in.empty()) fail_invalid(a.where() + " needs a value to communicate");
  const plait_shape& x = a.in[0];
  if (kind == PLAIT_COMM_ALL_REDUCE || kind == PLAIT_COMM_BROADCAST || kind == PLAIT_COMM_SEND)
    return {x};
  if (kind != PLAIT_COMM_REDUCE_SCATTER && kind != PLAIT_COMM_ALL_GATHER)
    fail_invalid(a.where() + " kind " + std::to_string(kind) + " is none that programs have");
  Dims dims = dims_of(x);
  if (dims.empty() || ranks < 1 || (kind == PLAIT_COMM_REDUCE_SCATTER && dims[0] % ranks != 0))
    fail_invalid(a.where() + strf(" the first dimension of %s cannot be shared by %ld ranks",
                                  text(x).c_str(), static_cast<long>(ranks)));
  dims[0] = kind == PLAIT_COMM_ALL_GATHER ? dims[0] * ranks : dims[0] / ranks;
  return {make_shape(x.dtype, dims)};
}

std::vector<plait_shape> infer_done(const InferContext& a) {
  a.arity(1, 2);
  return {a.in[0]};
}

// Along another axis of the mesh than the collective's own. What a rank contributes is cut alike on
// all its peers, but not along the first dimension where that is dealt out or stacked.
bool shard_start(const Graph&, const Op& op, const std::vector<Placement>& have, int64_t,
                 Sharding& s) {
  const int64_t kind = op.attrs.integer("kind", 0);
  const Placement p = have.at(0);
  if (!p.is_shard() || kind == PLAIT_COMM_SEND) return false;
  if (p.dim == 0 && kind != PLAIT_COMM_ALL_REDUCE && kind != PLAIT_COMM_BROADCAST) return false;
  std::fill(s.in.begin(), s.in.end(), p);
  s.out[0] = p;
  s.keeps_zeros = true;
  return true;
}
bool shard_done(const Graph&, const Op&, const std::vector<Placement>& have, int64_t, Sharding& s) {
  s.in[0] = s.out[0] = have[0];
  // What was sent lies as it did when it was.
  if (have.size() > 1) s.in[1] = have[1];
  s.keeps_zeros = true;
  return true;
}

// What a peer sends must be received, and the wait for it be made, whoever reads it.
bool is_awaited(const Graph& g, const Op& op) {
  if (op.def->collective == CollectiveOp::kStart)
    return op.attrs.integer("kind", 0) == PLAIT_COMM_RECEIVE;
  const int32_t start = g.value(op.in[0]).producer;
  return start >= 0 &&
         g.ops()[static_cast<size_t>(start)].def->collective == CollectiveOp::kStart &&
         is_awaited(g, g.ops()[static_cast<size_t>(start)]);
}

}  // namespace

std::span<const OpDef> collective_ops() {
  static const OpDef kOps[] = {{.name = "collective_start",
                                .help = "starts a collective between ranks",
                                .signature = "[x (..), ..] -> y (..)",
                                .dtypes = "any",
                                .attrs = kStartAttrs,
                                .audience = Audience::kEngine,
                                .infer = infer_start,
                                .flops = no_flops,
                                .collective = CollectiveOp::kStart,
                                .is_awaited = is_awaited,
                                .shard = shard_start},
                               {.name = "collective_done",
                                .help = "orders what follows behind the end of a collective",
                                .signature = "y (..) [, sent (..)] -> y (..)",
                                .dtypes = "any",
                                .attrs = kDoneAttrs,
                                .rewrite_attrs = kDoneSlot,
                                .audience = Audience::kEngine,
                                .infer = infer_done,
                                .flops = no_flops,
                                .collective = CollectiveOp::kDone,
                                .is_awaited = is_awaited,
                                .shard = shard_done}};
  return kOps;
}

}  // namespace plait::program
