// The host side of row_sort.cu: indices of rows are sorted by the row, stably.
#pragma once

#include <bit>

#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/devices/cuda/kernels/row_sort_args.hpp"

namespace plait::cuda {

// `count` indices of type `dtype` of rows [first, first + rows); fewer than 2^31 of each.
struct SortedIndices {
  int64_t count = 0, rows = 0, first = 0;
  uint32_t dtype = 0;
};

class RowSort {
 public:
  // The results, in the workspace: places of indices, sorted by their row and then by themselves,
  // and the rows, less `first`; an index outside has the row `rows`, which comes last.
  struct Sorted {
    const uint32_t *keys, *places;
  };

  RowSort(plait_device* device, const SortedIndices& indices)
      : count_(device, "row_sort", "row_sort_count"),
        offsets_(device, "row_sort", "row_sort_offsets"),
        place_(device, "row_sort", "row_sort_place"),
        indices_(indices) {}

  // Bytes of workspace, a multiple of 64.
  static uint64_t workspace(int64_t count) {
    return 4 * buffer_bytes(count) +
           rounded(static_cast<uint64_t>(blocks_of(count)) * kSortDigits * sizeof(uint32_t));
  }

  Sorted run(plait_queue* queue, void* index, void* workspace) const {
    const auto buffer = [&](int i) {
      return reinterpret_cast<uint32_t*>(static_cast<char*>(workspace) +
                                         static_cast<uint64_t>(i) * buffer_bytes(indices_.count));
    };
    RowSortArgs args{};
    args.index = {index, indices_.dtype, 0};
    args.counts = buffer(4);
    args.count = indices_.count, args.rows = indices_.rows, args.first = indices_.first;
    args.blocks = static_cast<int32_t>(blocks_of(indices_.count));
    const auto blocks = static_cast<unsigned>(args.blocks);
    if (blocks == 0) return {buffer(0), buffer(1)};
    const auto bits = static_cast<int32_t>(std::bit_width(static_cast<uint64_t>(indices_.rows)));
    for (int to = 0;; to ^= 2) {
      args.keys_out = buffer(to), args.places_out = buffer(to + 1);
      count_.launch(queue, {blocks}, kSortBlock, args);
      offsets_.launch(queue, {1}, kOffsetsBlock, args);
      place_.launch(queue, {blocks}, kSortBlock, args);
      args.shift += kSortBits;
      if (args.shift >= bits) return {args.keys_out, args.places_out};
      args.keys = args.keys_out, args.places = args.places_out;
    }
  }

 private:
  static uint64_t rounded(uint64_t bytes) { return (bytes + 63) / 64 * 64; }
  static uint64_t buffer_bytes(int64_t count) {
    return rounded(static_cast<uint64_t>(count) * sizeof(uint32_t));
  }
  static int64_t blocks_of(int64_t count) { return (count + kSortTile - 1) / kSortTile; }

  Function count_, offsets_, place_;
  SortedIndices indices_;
};

}  // namespace plait::cuda
