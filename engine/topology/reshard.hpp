// Which rank holds which part of a tensor, and what must be copied when a layout becomes another one: loading a checkpoint
// under another grid, gathering a parameter, moving between ZeRO stages.
//
// A part is a box (what tensor parallelism cut out) and a flat range inside of it (what ZeRO cut out of that). Parts may
// overlap: replicas.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/topology/box.hpp"
#include "engine/topology/extent_split.hpp"

namespace plait::topology {

// One rank's part, in memory from flat.begin on without holes.
struct Shard {
  int32_t rank = 0;
  Box box;     // in the coordinates of the whole tensor
  Range flat;  // elements of the box, row-major; the whole box: {0, elements(box)}
  bool operator==(const Shard&) const = default;
};

// The cut of a tensor along `dimension` over `members`: a shard each, empty ones too. dimension = -1: everybody has it all, and
// `cut` is not looked at. Errors: PLAIT_ERR_INVALID when the cut is of another extent or size of group.
std::vector<Shard> tensor_shards(const Extent& shape, int32_t dimension, const ExtentSplit& split,
                                 const std::vector<int32_t>& members);
// A shard cut further over a data group whose members all hold it: its box lies from element `at` on in a flat segment, and
// `cut` cuts the segment. A shard each, empty ones too; the memory of a part begins max(0, cut begin - at) into the box.
std::vector<Shard> flat_shards(const Shard& shard, int64_t at, const ExtentSplit& split,
                               const std::vector<int32_t>& members);

class ShardLayout {
 public:
  // Errors: PLAIT_ERR_INVALID when a shard does not lie inside of `shape`.
  ShardLayout(Extent shape, std::vector<Shard> shards);
  const Extent& shape() const { return shape_; }
  const std::vector<Shard>& shards() const { return shards_; }
  // A shard as boxes of the tensor: one record of a checkpoint each.
  struct ShardBox {
    size_t shard;  // index into shards()
    Box box;
  };
  const std::vector<ShardBox>& shard_boxes() const { return shard_boxes_; }
  // The ranks that hold some of `wanted`, ascending, each once.
  std::vector<int32_t> holders(const Box& wanted) const;

 private:
  Extent shape_;
  std::vector<Shard> shards_;
  std::vector<ShardBox> shard_boxes_;  // by shard
};

// Elements that go from one shard to another.
struct ShardCopy {
  size_t from, to;  // indices into the shards of the two layouts
  Box box;          // in the coordinates of the whole tensor
};

// What `to.shards()[shard]` needs, each element once: of its own rank's parts first, then of the holders from its own place on
// around, so that replicas share the work. `what` names the tensor. Errors: PLAIT_ERR_INVALID when the shapes differ;
// PLAIT_ERR_DATA when an element is held by nobody.
std::vector<ShardCopy> copies_to(const ShardLayout& from, const ShardLayout& to, size_t shard,
                                 const std::string& what);
// The same for every shard.
std::vector<ShardCopy> copies(const ShardLayout& from, const ShardLayout& to,
                              const std::string& what);

// A copy as runs of memory: `count` elements from element `from` of one shard's memory to element `to` of the other's.
struct MemoryRun {
  int64_t from, to, count;
};
std::vector<MemoryRun> runs(const ShardCopy& copy, const ShardLayout& from, const ShardLayout& to);

}  // namespace plait::topology
