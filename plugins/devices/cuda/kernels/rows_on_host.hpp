// What the fast kernels of rows have in common on the host: the calls that they take, and their
// launches.
#pragma once

#include <string>

#include "kit/ops/rows.hpp"
#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/devices/cuda/kernels/row_groups.hpp"

namespace plait::cuda {

constexpr int32_t kRowsPriority = 10;  // plain kernels have priority 0

// The place of a type in a table of kernels; -1: there is none for it.
inline int row_type(uint32_t dtype) {
  return dtype == PLAIT_F32 ? 0 : dtype == PLAIT_BF16 ? 1 : dtype == PLAIT_F16 ? 2 : -1;
}
// A row of that table.
#define PLAIT_ROW_TYPES(name) \
  { name "_f32", name "_bf16", name "_f16" }

inline bool rows_fit(const kit::Rows& r, std::string& why) {
  if (r.rows > 0x7fffffff) why = std::to_string(r.rows) + " rows are more than a grid has blocks";
  if (r.cols > 1 << 30) why = "a row of " + std::to_string(r.cols) + " elements is too long";
  return why.empty();
}
inline Grid row_grid(int64_t rows, bool by_warp) {
  return {blocks_for(rows, by_warp ? kRowBlock / 32 : 1)};
}

}  // namespace plait::cuda
