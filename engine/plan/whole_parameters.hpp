// ZeRO for optimizers that see whole tensors: buckets are cut between parameters, so that each
// replica owns whole ones, as in distributed Muon (Liu et al. 2025, arXiv:2502.16982).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace plait::plan {

// Where one parameter lies in its bucket.
struct PackedParameter {
  int32_t owner = 0;   // replica
  int64_t offset = 0;  // elements from the beginning of the bucket
};

// A bucket of whole parameters. All replicas' shards have `shard` elements, or, if there is only
// one parameter, all elements belong to its owner.
struct PackedBucket {
  std::vector<size_t> members;  // indices, in the order in which they lie
  std::vector<PackedParameter> places;
  int64_t shard = 0;   // elements of each replica; 0: one parameter with an owner
  int32_t owner = -1;  // of the one parameter
  int64_t elements(int64_t replicas) const;
  int64_t alone = 0;  // elements of the one parameter
};

// What is packed: parameters in the order in which the model has them.
struct PackItem {
  int64_t elements = 0;  // padded to whole lines
  bool may_end = true;   // a bucket may end before it: it begins another layer
};

struct PackLimits {
  int64_t replicas = 1;  // R
  int64_t bucket = 0;    // elements from which a bucket is large enough
};

// Cuts the items into buckets and gives each parameter an owner: the longest first, to the replica
// with the least so far (Graham 1969). A parameter that would leave the shards of others mostly
// padding gets a bucket of its own. `loads` (R): elements that each replica owns; what is packed
// counts from there, and is added. Pure.
std::vector<PackedBucket> pack_whole(const std::vector<PackItem>& items, const PackLimits& limits,
                                     std::vector<int64_t>& loads);

}  // namespace plait::plan
