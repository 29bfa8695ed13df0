#include "engine/plan/round_weights.hpp"

#include <algorithm>

#include "engine/base/hash.hpp"

namespace plait::plan {

using program::attr;
using program::Graph;
using program::ValueId;

namespace {

// Where the stored elements of a parameter lie in the global tensor; see kit/ops/round_stochastic.
program::Attrs place_of(const Parameter& p) {
  if (!p.sharded) return {};
  const program::Dims dims = program::dims_of(p.shape);
  int64_t inner = 1;
  for (size_t d = dims.size() - 1; d > static_cast<size_t>(p.shard_dim); --d) inner *= dims[d];
  const auto d = static_cast<size_t>(p.shard_dim);
  program::Attrs at;
  at.set(attr("first", p.box.offset[d] * inner));
  // Along the first dimension a shard is one run, padding behind it included.
  if (d == 0) return at;
  at.set(attr("run", p.box.extent[d] * inner));
  at.set(attr("stride", dims[d] * inner));
  return at;
}

}  // namespace

ValueId assign_rounded(Graph& g, const Plan& plan, const RoundedElements& which,
                       const Rounded& what, ValueId target, ValueId v) {
  const Parameter& p = *which.parameter;
  program::Attrs attrs = what.replicated ? program::Attrs{} : place_of(p);
  attrs.set(attr("seed", plan.experiment.run.seed));
  const std::string name = what.state.empty() ? p.name : p.name + "." + what.state;
  attrs.set(attr("stream", static_cast<int64_t>(name_hash(name + "#rounding"))));
  attrs.set(attr("begin", which.begin));
  const ValueId rounded = g.apply1("round_stochastic", {v, which.step}, std::move(attrs));
  g.value(rounded).alias_of = target;
  return rounded;
}

std::vector<BucketPiece> pieces_of(const Bucket& bucket,
                                   const std::vector<const Parameter*>& members) {
  constexpr int64_t kMost = 1 << 20;  // elements: 4 MiB of f32 under way, and few calls
  std::vector<BucketPiece> all;
  const int64_t end = bucket.shard_begin + bucket.shard_elements;
  for (const Parameter* p : members) {
    const int64_t last = std::min(end, p->flat_offset + p->stored_elements);
    for (int64_t at = std::max(bucket.shard_begin, p->flat_offset); at < last; at += kMost) {
      BucketPiece piece{bucket, at - bucket.shard_begin, {p, at - p->flat_offset, 0}};
      piece.own.shard_begin = at;
      piece.own.shard_elements = std::min(kMost, last - at);
      piece.own.state_begin += piece.offset;
      all.push_back(piece);
    }
  }
  return all;
}

}  // namespace plait::plan
