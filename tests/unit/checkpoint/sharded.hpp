// The sample's model, saved by several ranks.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/checkpoint/sample.hpp"

// The blocks that one of `ranks` saves: rows of the weight, columns of its momentum, and the first
// rank the counter. The memory lives as long as this.
class Shard {
 public:
  Shard(const Sample& sample, int32_t rank, int32_t ranks) {
    const auto rows = static_cast<int64_t>(sample.weight.size()) / 7;
    const int64_t first = rows * rank / ranks, end = rows * (rank + 1) / ranks;
    const int64_t left = 7 * rank / ranks, right = 7 * (rank + 1) / ranks;
    columns_.reserve(sample.momentum.size());
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = left; c < right; ++c)
        columns_.push_back(sample.momentum[static_cast<size_t>(r * 7 + c)]);
    tensors_ = {{"fc.weight",
                 PLAIT_F32,
                 {rows, 7},
                 sample.weight.data() + first * 7,
                 false,
                 {first, 0},
                 {end - first, 7}},
                {"fc.weight.momentum",
                 PLAIT_F32,
                 {rows, 7},
                 columns_.data(),
                 true,
                 {0, left},
                 {rows, right - left}}};
    if (rank == 0) tensors_.push_back({"step", PLAIT_I64, {}, sample.counter.data(), true});
  }
  const std::vector<plait::checkpoint::SaveTensor>& tensors() const { return tensors_; }

 private:
  std::vector<float> columns_;
  std::vector<plait::checkpoint::SaveTensor> tensors_;
};

// Saves as `ranks` ranks do, one after the other. Returns the checkpoint's path.
inline std::string save_sharded(plait::FileSystem& files, const std::string& folder, int keep,
                                plait::Log& log, const Sample& sample, int32_t ranks,
                                int keep_states = 0) {
  plait::checkpoint::CheckpointWriter writer(files, folder, keep, log, keep_states);
  const plait::checkpoint::RunState state = sample.state();
  const std::string hidden = writer.begin(state);
  for (int32_t r = 0; r < ranks; ++r)
    plait::checkpoint::write_shard(files, hidden, r, ranks, Shard(sample, r, ranks).tensors());
  writer.write_manifest(state, hidden, ranks);
  return writer.publish(state, hidden);
}
