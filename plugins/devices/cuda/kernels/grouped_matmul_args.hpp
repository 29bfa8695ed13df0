// What the kernels of grouped_matmul and grouped_matmul_grad take. M rows, E groups of all, G
// groups whose matrices are here, I inputs, O outputs.
#pragma once

#include <cstdint>

#include "plugins/devices/cuda/kernels/element.hpp"

namespace plait::cuda {

constexpr unsigned kGroupedPlainBlock = 256;

// Tiles of y in f32 without tensor cores: kGroupedTile rows and columns.
constexpr int kGroupedTile = 64, kGroupedTileBlock = 256;

// Tiles of y on tensor cores. Shared memory has kGroupedStages steps along the sum, of
// kGroupedDepth elements each; all but one are being copied.
constexpr int kGroupedMmaTile = 128, kGroupedMmaBlock = 256, kGroupedDepth = 64, kGroupedStages = 3;
constexpr unsigned kGroupedStageBytes = 2 * kGroupedMmaTile * kGroupedDepth * 2;
constexpr unsigned kGroupedShared = kGroupedStages * kGroupedStageBytes;

// Segments, G + 2 of them: the rows before the groups that are here, the rows of each of these, the
// rows behind them. A tile, the rows that a block of threads has, lies in one segment.
struct GroupRangesArgs {
  AnyPointer offsets;                  // (E+1)
  int32_t* bounds;                     // (G+3): where segments begin; then M
  int32_t* tiles;                      // (G+3): tiles of the segments before each; then of all
  int64_t rows;                        // M
  int32_t total, groups, first, tile;  // E, G, the first of G, rows of a tile
};

struct GroupedMatmulArgs {
  const void *a, *b;  // of one type
  AnyPointer y;
  const int32_t *bounds, *tiles;
  int64_t rows, inputs, outputs;
  int32_t groups;
  int32_t transpose_b;
};

}  // namespace plait::cuda
