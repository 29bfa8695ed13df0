// The grid of ranks: the coordinates of a rank and the groups in which it communicates.
//
// P pipeline, D data, T tensor: sizes of the grid; P * D * T ranks, numbered (pipeline * D + data)
// * T + tensor. Tensor varies fastest, so that the ranks of a tensor group, which communicate most,
// share a host. Value type; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plait::topology {

struct Coordinates {
  int32_t pipeline = 0, data = 0, tensor = 0;
  bool operator==(const Coordinates&) const = default;
};

// The kind of a group: the coordinates in which its members differ.
enum class Axis {
  kTensor,    // tensor differs: shards of the same layers
  kData,      // data differs: replicas of the same shards
  kPipeline,  // pipeline differs: the stages of one replica, in order
  kEnds,      // first and last stage of one replica: an embedding tied to the output layer
  kModel,     // pipeline and tensor differ: all ranks of one replica
  kWorld,     // all ranks
};
inline constexpr Axis kAxes[] = {Axis::kTensor, Axis::kData,  Axis::kPipeline,
                                 Axis::kEnds,   Axis::kModel, Axis::kWorld};
const char* axis_name(Axis axis);  // "tensor", ..., "world"

// Ranks that communicate. Members ascend; their order is the order of a reduction, the same on
// every rank.
struct ProcessGroup {
  Axis axis = Axis::kWorld;
  int32_t index = 0;  // among the groups of its axis, ordered by lowest member
  std::vector<int32_t> members;
  int32_t size() const { return static_cast<int32_t>(members.size()); }
  // Index of `rank` among the members; -1 if it is not a member.
  int32_t position(int32_t rank) const;
  std::string name() const;  // "data.3"
  bool operator==(const ProcessGroup&) const = default;
};

inline constexpr int32_t kMaxRanks = 1 << 20;

class Grid {
 public:
  Grid() = default;  // one rank
  // Errors: PLAIT_ERR_CONFIG when a size is below 1 or there would be more than kMaxRanks ranks.
  Grid(int64_t pipeline, int64_t data, int64_t tensor);

  int32_t pipeline() const { return pipeline_; }
  int32_t data() const { return data_; }
  int32_t tensor() const { return tensor_; }
  int32_t ranks() const { return pipeline_ * data_ * tensor_; }

  // Conversions in both directions. Errors: PLAIT_ERR_INVALID outside the grid.
  Coordinates at(int32_t rank) const;
  int32_t rank(const Coordinates& at) const;

  // The number of groups of an axis, and the members of one. Errors: PLAIT_ERR_INVALID for an index
  // out of range.
  int32_t groups(Axis axis) const;
  ProcessGroup group(Axis axis, int32_t index) const;
  // The number of ranks in each group of an axis.
  int32_t group_size(Axis axis) const;
  // The group of an axis that a rank belongs to; of Axis::kEnds, the one of its replica.
  int32_t group_index(Axis axis, const Coordinates& at) const;
  // The groups of one rank in the order of kAxes. A stage that is neither first nor last has no
  // group of ends.
  std::vector<ProcessGroup> groups_of(int32_t rank) const;
  // Every group, in the same order on all ranks: each rank creates the groups it belongs to in this
  // order.
  std::vector<ProcessGroup> all_groups() const;

  bool operator==(const Grid&) const = default;

 private:
  int32_t pipeline_ = 1, data_ = 1, tensor_ = 1;
};

// "pipeline=2 data=1 tensor=4", for messages.
std::string describe(const Grid& grid);

}  // namespace plait::topology
