#include "engine/topology/grid.hpp"

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/topology/grid_check.hpp"

namespace plait::topology {

const char* axis_name(Axis axis) {
  switch (axis) {
    case Axis::kTensor:
      return "tensor";
    case Axis::kData:
      return "data";
    case Axis::kPipeline:
      return "pipeline";
    case Axis::kEnds:
      return "ends";
    case Axis::kModel:
      return "model";
    case Axis::kWorld:
      return "world";
  }
  return "";
}

int32_t ProcessGroup::position(int32_t rank) const {
  const auto found = std::lower_bound(members.begin(), members.end(), rank);
  if (found == members.end() || *found != rank) return -1;
  return static_cast<int32_t>(found - members.begin());
}

std::string ProcessGroup::name() const {
  return std::string(axis_name(axis)) + "." + std::to_string(index);
}

Grid::Grid(int64_t pipeline, int64_t data, int64_t tensor) {
  raise_if_any(check_sizes({pipeline, data, tensor}));
  pipeline_ = static_cast<int32_t>(pipeline);
  data_ = static_cast<int32_t>(data);
  tensor_ = static_cast<int32_t>(tensor);
}

Coordinates Grid::at(int32_t rank) const {
  if (rank < 0 || rank >= ranks())
    fail_invalid(strf("[topology] rank %d is not in the grid %s; expected 0 to %d", rank,
                      describe(*this).c_str(), ranks() - 1));
  return {rank / (data_ * tensor_), rank / tensor_ % data_, rank % tensor_};
}

int32_t Grid::rank(const Coordinates& at) const {
  const auto inside = [](int32_t value, int32_t size) { return value >= 0 && value < size; };
  if (!inside(at.pipeline, pipeline_) || !inside(at.data, data_) || !inside(at.tensor, tensor_))
    fail_invalid(
        strf("[topology] no rank at pipeline=%d data=%d tensor=%d of the grid %s; each counts "
             "from 0 to its size - 1",
             at.pipeline, at.data, at.tensor, describe(*this).c_str()));
  return (at.pipeline * data_ + at.data) * tensor_ + at.tensor;
}

int32_t Grid::groups(Axis axis) const {
  switch (axis) {
    case Axis::kTensor:
      return pipeline_ * data_;
    case Axis::kData:
      return pipeline_ * tensor_;
    case Axis::kPipeline:
    case Axis::kEnds:
      return data_ * tensor_;
    case Axis::kModel:
      return data_;
    case Axis::kWorld:
      return 1;
  }
  return 0;
}

ProcessGroup Grid::group(Axis axis, int32_t index) const {
  if (index < 0 || index >= groups(axis))
    fail_invalid(strf("[topology] there is no group %s.%d in the grid %s; expected 0 to %d",
                      axis_name(axis), index, describe(*this).c_str(), groups(axis) - 1));
  ProcessGroup group{axis, index, {}};
  const auto walk = [&](int32_t first, int32_t stride, int32_t count) {
    for (int32_t i = 0; i < count; ++i) group.members.push_back(first + i * stride);
  };
  const int32_t stage = data_ * tensor_;  // ranks of one stage
  switch (axis) {
    case Axis::kTensor:
      walk(index * tensor_, 1, tensor_);
      break;
    case Axis::kData:
      walk(index / tensor_ * stage + index % tensor_, tensor_, data_);
      break;
    case Axis::kPipeline:
      walk(index, stage, pipeline_);
      break;
    case Axis::kEnds:
      walk(index, (pipeline_ - 1) * stage, pipeline_ > 1 ? 2 : 1);
      break;
    case Axis::kModel:
      for (int32_t p = 0; p < pipeline_; ++p) walk(p * stage + index * tensor_, 1, tensor_);
      break;
    case Axis::kWorld:
      walk(0, 1, ranks());
      break;
  }
  return group;
}

int32_t Grid::group_size(Axis axis) const {
  switch (axis) {
    case Axis::kTensor:
      return tensor_;
    case Axis::kData:
      return data_;
    case Axis::kPipeline:
      return pipeline_;
    case Axis::kEnds:
      return pipeline_ > 1 ? 2 : 1;
    case Axis::kModel:
      return pipeline_ * tensor_;
    case Axis::kWorld:
      return ranks();
  }
  return 0;
}

int32_t Grid::group_index(Axis axis, const Coordinates& at) const {
  switch (axis) {
    case Axis::kTensor:
      return at.pipeline * data_ + at.data;
    case Axis::kData:
      return at.pipeline * tensor_ + at.tensor;
    case Axis::kPipeline:
    case Axis::kEnds:
      return at.data * tensor_ + at.tensor;
    case Axis::kModel:
      return at.data;
    case Axis::kWorld:
      return 0;
  }
  return 0;
}

std::vector<ProcessGroup> Grid::groups_of(int32_t rank) const {
  const Coordinates c = at(rank);
  std::vector<ProcessGroup> all;
  for (const Axis axis : kAxes)
    if (axis != Axis::kEnds || c.pipeline == 0 || c.pipeline == pipeline_ - 1)
      all.push_back(group(axis, group_index(axis, c)));
  return all;
}

std::vector<ProcessGroup> Grid::all_groups() const {
  std::vector<ProcessGroup> all;
  for (const Axis axis : kAxes)
    for (int32_t i = 0; i < groups(axis); ++i) all.push_back(group(axis, i));
  return all;
}

std::string describe(const Grid& grid) {
  return strf("pipeline=%d data=%d tensor=%d", grid.pipeline(), grid.data(), grid.tensor());
}

}  // namespace plait::topology
