// What the kernels of attention_decode take; letters as in attention_cached_args.hpp.
#pragma once

#include <cstdint>

#include "plugins/devices/cuda/kernels/element.hpp"

namespace plait::cuda {

constexpr int kDecodeBlock = 128;
constexpr int kDecodeKeys = 64;       // that a block has in shared memory at a time
constexpr int kDecodeChannels = 256;  // at most, of a key and of a value
// Bytes between the keys in shared memory, so that neighbouring threads read different banks.
constexpr int kDecodePad = 32;

struct AttentionDecodeArgs {
  AnyPointer q, out, slot, at;
  const void *k, *v;
  // Of several blocks that share a query: (rows, splits, e) sums, then (rows, splits) greatest
  // scores and sums of weights.
  float *sums, *greatest, *weights;
  int64_t rows;  // B * t * H
  int64_t slots, places, window;
  int32_t tokens, heads, groups, qk, value;
  // Query head h reads key head first_group + (h + skipped) / heads_per_group; a block has a tile
  // of the heads that read one.
  int32_t first_group, skipped, heads_per_group, tiles_per_group;
  int32_t splits;
  float scale, softcap;
};

}  // namespace plait::cuda
