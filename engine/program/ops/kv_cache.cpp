// The place of a KV cache in a program that is not sharded yet: no device has a kernel for it.
// place_caches() of with_cache.hpp replaces it by a write to memory that outlives the program.
//   B sequences, t tokens, G heads, d channels, N slots, S tokens of a slot
#include "engine/base/error.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/shard.hpp"
#include "kit/op_attrs.hpp"

namespace plait::program {
namespace {

constexpr plait_option kAttrs[] = {
    kit::at_least(kit::int_option("slots", nullptr, "N: sequences in the cache"), 1),
    kit::at_least(kit::int_option("length", nullptr, "S: tokens of a sequence"), 1)};

std::vector<plait_shape> infer(const InferContext& c) {
  c.arity(3, 3);
  const plait_shape& rows = c.in[0];
  if (rows.ndim != 4)
    fail_internal(c.where() + " rows are " + text(rows) + ", expected (B, t, G, d)");
  return {c.like_first(
      {c.attrs.integer("slots", 1), c.attrs.integer("length", 1), rows.dims[2], rows.dims[3]})};
}

// Along heads and channels, which rows and cache both have.
bool shard(const Graph&, const Op&, const std::vector<Placement>& have, int64_t, Sharding& s) {
  constexpr int32_t kHeadDim = 2;
  if (!have[0].is_shard() || have[0].dim < kHeadDim) return false;
  s.in[0] = s.out[0] = have[0];
  return true;
}

}  // namespace

std::span<const OpDef> kv_cache_ops() {
  static const OpDef kOps[] = {
      {.name = "kv_cache",
       .help = "keys or values of all tokens so far, the rows of these tokens written first",
       .signature = "rows (B, t, G, d), slot (B), at (B, t) -> cache (N, S, G, d)",
       .dtypes = "rows floats, slot and at i32",
       .attrs = kAttrs,
       .audience = Audience::kEngine,
       .infer = infer,
       .flops = no_flops,
       .shard = shard,
       .is_cache = true}};
  return kOps;
}

}  // namespace plait::program
