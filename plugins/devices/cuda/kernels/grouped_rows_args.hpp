// What the kernels of group_rows, ungroup_rows and its gradient take. N tokens, k groups that each
// token is in, M = N·k rows, E groups, C channels.
#pragma once

#include <cstdint>

#include "plugins/devices/cuda/kernels/element.hpp"

namespace plait::cuda {

constexpr unsigned kGroupedBlock = 256;

// Of indices that are sorted by their group (row_sort.hpp): row i of the sorted order belongs to
// index places[i], and is in group keys[i], `groups` if in none.
struct GroupPlaceArgs {
  const uint32_t *keys, *places;
  int32_t *place, *offsets;  // (M), (E+1)
  int64_t count, groups;     // M, E
};

struct GroupCopyArgs {
  const void* x;
  void* rows;
  const uint32_t* places;
  int64_t count, each, units;  // M, k, units of a row
  int32_t log_lanes;           // of row_tiles()
  int32_t reserved;
};

struct UngroupArgs {
  AnyPointer rows, weights, place, y;  // weights null: 1
  int64_t tokens, each, width;         // N, k, C
  int32_t log_lanes;                   // of row_tiles()
  int32_t reserved;
};

struct UngroupGradArgs {
  AnyPointer dy, rows, weights, place, drows, dweights;  // rows, weights and dweights: all or none
  int32_t* source;             // (M): the index whose place the row is; -1: of none
  int64_t count, each, width;  // M, k, C
};

}  // namespace plait::cuda
