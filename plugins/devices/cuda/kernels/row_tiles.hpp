// Kernels that move rows of bytes: how the threads of a block share rows, and how many bytes a
// thread moves at once.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <initializer_list>

#include "plugins/devices/cuda/kernels/kernel.hpp"

namespace plait::cuda {

constexpr unsigned kTileBlock = 256;

// The greatest power of two up to 16 that divides all of these numbers of bytes, as a power: 0 to
// 4.
inline int unit_power(std::initializer_list<uint64_t> bytes) {
  uint64_t all = 16;
  for (const uint64_t n : bytes) all |= n;
  return std::countr_zero(all);
}
inline uint64_t address(const void* p) { return reinterpret_cast<uintptr_t>(p); }

// `lanes` neighbouring threads share a row, so that a row of few units leaves no thread idle.
struct RowTiles {
  int32_t log_lanes = 0;
  Grid grid;
};
inline RowTiles row_tiles(int64_t rows, int64_t units) {
  if (rows <= 0 || units <= 0) return {0, {0}};
  constexpr int64_t kUnitsPerThread = 4;
  RowTiles t;
  t.log_lanes = std::bit_width(static_cast<uint64_t>(std::min<int64_t>(units, kTileBlock) - 1));
  t.grid.x = blocks_for(rows, kTileBlock >> t.log_lanes);
  t.grid.y = blocks_of_stride(units, kUnitsPerThread << t.log_lanes, kMostBlocksY);
  return t;
}

// The functions NAME_1, NAME_2, .. NAME_16 of a module, which move units of that many bytes.
class UnitFunctions {
 public:
  UnitFunctions(plait_device* device, const char* module, const char* const (&names)[5]) {
    for (int i = 0; i < 5; ++i) of_[i] = Function(device, module, names[i]);
  }
  const Function& operator[](int power) const { return of_[power]; }

 private:
  Function of_[5];
};

}  // namespace plait::cuda
