// What the kernels of gather and one_hot take.
#pragma once

#include <cstdint>

#include "plugins/devices/cuda/kernels/element.hpp"

namespace plait::cuda {

struct GatherArgs {
  const void* table;
  void* y;
  AnyPointer index;
  int64_t rows, count, units;  // rows of the table, indices, units of a row
  int64_t first, total;        // of a part of a table: its first row, rows of all parts
  uint64_t unknown;            // 8 bytes of a row that there is not
  int32_t log_lanes;           // of row_tiles()
  int32_t reserved;
};

struct OneHotArgs {
  AnyPointer index, y;
  int64_t count, depth;
  int32_t log_lanes;
  int32_t reserved;
};

}  // namespace plait::cuda
