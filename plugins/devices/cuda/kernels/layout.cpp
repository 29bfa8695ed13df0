// slice, pad, concat and transpose on the device, of every type.
#include <string>

#include "kit/dtype.hpp"
#include "kit/ops/layout.hpp"
#include "plugins/devices/cuda/kernels/layout_args.hpp"
#include "plugins/devices/cuda/kernels/row_tiles.hpp"

namespace plait::cuda {
namespace {

// Copies as slice, pad and concat write them, here in bytes.
template <auto Parse>
class Blocks {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    Parse(d);
    choice.workspace = 0;
    why = "up to 16 bytes a thread at once";
    return true;
  }
  Blocks(plait_device* device, const plait_op_desc& d)
      : functions_(
            device, "layout",
            {"layout_copy_1", "layout_copy_2", "layout_copy_4", "layout_copy_8", "layout_copy_16"}),
        blocks_(Parse(d)) {
    const auto size = static_cast<int64_t>(kit::dtype_bytes(d.outputs[0].dtype));
    blocks_.to_step *= size;
    for (kit::BlockCopy& c : blocks_.copies)
      c = {c.from * size, c.from_step * size, c.to * size, c.length * size};
  }
  void run(plait_queue* queue, void* const* operands, void*) const {
    auto* y = static_cast<char*>(operands[blocks_.copies.size()]);
    for (size_t i = 0; i < blocks_.copies.size(); ++i) {
      const kit::BlockCopy& c = blocks_.copies[i];
      const int64_t end = c.to + c.length;
      if (blocks_.zero) {
        fill(queue, y, c.to, nullptr, 0);
        fill(queue, y + end, blocks_.to_step - end, nullptr, 0);
      }
      fill(queue, y + c.to, c.length, static_cast<const char*>(operands[i]) + c.from, c.from_step);
    }
  }

 private:
  // `bytes` of each outer step of y; from null: zeros.
  void fill(plait_queue* queue, char* to, int64_t bytes, const char* from,
            int64_t from_step) const {
    const int unit =
        unit_power({address(to), static_cast<uint64_t>(bytes), address(from),
                    static_cast<uint64_t>(from_step), static_cast<uint64_t>(blocks_.to_step)});
    const RowTiles tiles = row_tiles(blocks_.outer, bytes >> unit);
    functions_[unit].launch(
        queue, tiles.grid, kTileBlock,
        LayoutCopyArgs{from, to, blocks_.outer, bytes >> unit, from_step >> unit,
                       blocks_.to_step >> unit, tiles.log_lanes, 0});
  }

  UnitFunctions functions_;
  kit::Blocks blocks_;
};

class Transpose {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::Transpose t = kit::parse_transpose(d);
    choice.workspace = 0;
    why = in_tiles(t) ? "tiles of 32 x 32" : "a thread for each element";
    return true;
  }
  Transpose(plait_device* device, const plait_op_desc& d)
      : shape_(kit::parse_transpose(d)),
        size_(kit::dtype_bytes(d.outputs[0].dtype)),
        elements_(device, "layout",
                  {"transpose_elements_1", "transpose_elements_2", "transpose_elements_4",
                   "transpose_elements_8", "transpose_elements_16"}),
        tiles_(device, "layout",
               {"transpose_tiles_1", "transpose_tiles_2", "transpose_tiles_4", "transpose_tiles_8",
                "transpose_tiles_16"}) {}

  void run(plait_queue* queue, void* const* operands, void*) const {
    TransposeArgs args{};
    args.x = operands[0], args.y = operands[1];
    if (in_tiles(shape_))
      run_tiles(queue, args);
    else
      run_elements(queue, args);
  }

 private:
  // Whether the last dim of y is not that of x.
  static bool in_tiles(const kit::Transpose& t) {
    return !t.strides.empty() && t.strides.back() != 1;
  }

  // Dims that end in the same elements move as wider ones.
  void run_elements(plait_queue* queue, TransposeArgs& args) const {
    uint64_t bytes = address(args.x) | address(args.y);
    if (!shape_.extents.empty()) bytes |= static_cast<uint64_t>(shape_.extents.back()) * size_;
    for (size_t i = 0; i + 1 < shape_.strides.size(); ++i)
      bytes |= static_cast<uint64_t>(shape_.strides[i]) * size_;
    const int unit = shape_.extents.empty() ? unit_power({size_}) : unit_power({bytes});
    const auto wide = static_cast<int64_t>((uint64_t{1} << unit) / size_);
    args.count = 1;
    for (size_t i = shape_.extents.size(); i-- > 0; ++args.n_dims) {
      const bool last = i + 1 == shape_.extents.size();
      args.extents[args.n_dims] = last ? shape_.extents[i] / wide : shape_.extents[i];
      args.x_strides[args.n_dims] = last ? 1 : shape_.strides[i] / wide;
      args.count *= args.extents[args.n_dims];
    }
    elements_[unit].launch(queue, {blocks_for(args.count, kTileBlock)}, kTileBlock, args);
  }

  void run_tiles(plait_queue* queue, TransposeArgs& args) const {
    int64_t y_stride = 1, blocks = 1;
    for (size_t i = shape_.extents.size(); i-- > 0;) {
      const int64_t extent = shape_.extents[i];
      const bool last = i + 1 == shape_.extents.size(), rows = shape_.strides[i] == 1;
      blocks *= last || rows ? (extent + kTransposeTile - 1) / kTransposeTile : extent;
      if (rows) {
        args.rows = extent;
        args.rows_y_stride = y_stride;
      } else {
        args.extents[args.n_dims] = extent;
        args.x_strides[args.n_dims] = shape_.strides[i];
        args.y_strides[args.n_dims++] = y_stride;
      }
      y_stride *= extent;
    }
    tiles_[unit_power({size_})].launch(queue, {blocks_for(blocks, 1)}, kTileBlock, args);
  }

  kit::Transpose shape_;
  uint64_t size_;
  UnitFunctions elements_, tiles_;
};

}  // namespace

void add_layout(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<Transpose>("plain", "transpose", "cuda", 0));
  out.push_back(kernel<Blocks<kit::parse_slice>>("plain", "slice", "cuda", 0));
  out.push_back(kernel<Blocks<kit::parse_pad>>("plain", "pad", "cuda", 0));
  out.push_back(kernel<Blocks<kit::parse_concat>>("plain", "concat", "cuda", 0));
}

}  // namespace plait::cuda
