// The part of a tensor that each rank holds, and the copies needed to change the layout: loading a
// checkpoint under another grid, gathering a parameter, moving between ZeRO stages.
//
// A part is a box (made by tensor parallelism) and a flat range inside it (made by ZeRO). Parts may
// overlap: replicas.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/topology/box.hpp"
#include "engine/topology/extent_split.hpp"

namespace plait::topology {

// One rank's part, stored contiguously from flat.begin on.
struct Shard {
  int32_t rank = 0;
  Box box;     // in the coordinates of the whole tensor
  Range flat;  // elements of the box, row-major; the whole box: {0, elements(box)}
  bool operator==(const Shard&) const = default;
};

// The split of a tensor along `dimension` over `members`: one shard each, possibly empty. dimension
// = -1: replicated, and `split` is ignored. Errors: PLAIT_ERR_INVALID if the split has another
// extent or group size.
std::vector<Shard> tensor_shards(const Extent& shape, int32_t dimension, const ExtentSplit& split,
                                 const std::vector<int32_t>& members);
// A shard split further over a data group whose members all hold it: its box starts at element `at`
// of a flat segment, and `split` splits the segment. One shard each, possibly empty; the memory of
// a part begins max(0, split begin - at) into the box.
std::vector<Shard> flat_shards(const Shard& shard, int64_t at, const ExtentSplit& split,
                               const std::vector<int32_t>& members);

class ShardLayout {
 public:
  // Errors: PLAIT_ERR_INVALID if a shard is not inside `shape`.
  ShardLayout(Extent shape, std::vector<Shard> shards);
  const Extent& shape() const { return shape_; }
  const std::vector<Shard>& shards() const { return shards_; }
  // A shard as boxes of the tensor, each one record of a checkpoint.
  struct ShardBox {
    size_t shard;  // index into shards()
    Box box;
  };
  const std::vector<ShardBox>& shard_boxes() const { return shard_boxes_; }
  // The ranks that hold elements of `wanted`, ascending, each once.
  std::vector<int32_t> holders(const Box& wanted) const;

 private:
  Extent shape_;
  std::vector<Shard> shards_;
  std::vector<ShardBox> shard_boxes_;  // by shard
};

// Elements to be copied from one shard to another.
struct ShardCopy {
  size_t from, to;  // indices into the shards of the two layouts
  Box box;          // in the coordinates of the whole tensor
};

// The copies that fill `to.shards()[shard]`, each element once: from parts of its own rank first,
// then from the holders in cyclic order starting at its own position, so that replicas share the
// work. `what` names the tensor. Errors: PLAIT_ERR_INVALID if the shapes differ; PLAIT_ERR_DATA if
// no rank holds an element.
std::vector<ShardCopy> copies_to(const ShardLayout& from, const ShardLayout& to, size_t shard,
                                 const std::string& what);
// The same for every shard.
std::vector<ShardCopy> copies(const ShardLayout& from, const ShardLayout& to,
                              const std::string& what);

// A copy as runs of memory: `count` elements from element `from` of one shard's memory to element
// `to` of the other's.
struct MemoryRun {
  int64_t from, to, count;
};
std::vector<MemoryRun> runs(const ShardCopy& copy, const ShardLayout& from, const ShardLayout& to);

}  // namespace plait::topology
