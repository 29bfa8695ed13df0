// How ops of attention lie on ranks that share its heads. Inputs 0 and 1 are q and k, with heads as
// dimension 2.
#pragma once

#include <optional>

#include "engine/program/op_def.hpp"
#include "engine/program/shard.hpp"

namespace plait::program {

inline constexpr int32_t kAttentionHeadDim = 2;

// Along the query heads, if the ranks divide them. If they also divide the key heads, each rank has
// its own; else all ranks have all of them.
struct HeadParts {
  int64_t heads, groups;
  bool own_groups;
};
inline std::optional<HeadParts> head_parts(const ShardContext& u) {
  const HeadParts p{u.from.shape(u.op.in[0]).dims[kAttentionHeadDim],
                    u.from.shape(u.op.in[1]).dims[kAttentionHeadDim],
                    u.from.shape(u.op.in[1]).dims[kAttentionHeadDim] % u.ranks == 0};
  const bool by_heads = u.have[0] == shard_along(kAttentionHeadDim);
  if (!by_heads || p.heads == 0 || p.heads % u.ranks != 0) return std::nullopt;
  return p;
}

inline Attrs attrs_of_heads(const ShardContext& u, const HeadParts& p) {
  Attrs attrs = u.op.attrs;
  attrs.set(attr("first_head", u.rank * (p.heads / u.ranks)));
  attrs.set(attr("heads", p.heads));
  attrs.set(attr("first_group", p.own_groups ? u.rank * (p.groups / u.ranks) : int64_t{0}));
  attrs.set(attr("groups", p.groups));
  return attrs;
}

}  // namespace plait::program
