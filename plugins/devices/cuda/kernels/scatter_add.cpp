// scatter_add on the device, of every type. Sums of 16-bit rows and of f32 are f32, of f64 f64.
#include <limits>
#include <string>

#include "kit/dtype.hpp"
#include "kit/ops/gather.hpp"
#include "plugins/devices/cuda/kernels/layout_args.hpp"
#include "plugins/devices/cuda/kernels/row_sort.hpp"
#include "plugins/devices/cuda/kernels/row_tiles.hpp"
#include "plugins/devices/cuda/kernels/scatter_add_args.hpp"

namespace plait::cuda {
namespace {

int64_t chunks_of(int64_t count) { return (count + kScatterChunk - 1) / kScatterChunk; }
uint64_t bytes_of_sum(const plait_op_desc& d) { return kit::dtype_bytes(d.outputs[0].dtype); }
uint64_t bytes_of_partial(const kit::Gather& g, uint64_t sum_bytes) {
  return (static_cast<uint64_t>(chunks_of(g.count) * 2 * g.width) * sum_bytes + 63) / 64 * 64;
}

struct Names {
  const char *sum, *join, *sum_wide, *join_wide;
  int wide;  // columns of a thread
};
Names names_of(uint32_t dtype) {
  switch (dtype) {
    case PLAIT_F64:
      return {"scatter_sum_f64", "scatter_join_f64", "scatter_sum_wide_f64",
              "scatter_join_wide_f64", 2};
    case PLAIT_BF16:
      return {"scatter_sum_bf16", "scatter_join_bf16", "scatter_sum_wide_bf16",
              "scatter_join_wide_bf16", 4};
    case PLAIT_F16:
      return {"scatter_sum_f16", "scatter_join_f16", "scatter_sum_wide_f16",
              "scatter_join_wide_f16", 4};
    default:
      return {"scatter_sum_f32", "scatter_join_f32", "scatter_sum_wide_f32",
              "scatter_join_wide_f32", 4};
  }
}

class ScatterAdd {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::Gather g = kit::parse_scatter_add(d);
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    if (g.rows >= kMost || g.count >= kMost) {
      why = "takes less than 2^31 rows and indices, found " + std::to_string(g.rows) + " and " +
            std::to_string(g.count);
      return false;
    }
    choice.workspace = RowSort::workspace(g.count) + bytes_of_partial(g, bytes_of_sum(d));
    why = "sorted by the row, sums in the order of the indices";
    return true;
  }

  ScatterAdd(plait_device* device, const plait_op_desc& d)
      : g_(kit::parse_scatter_add(d)),
        sum_bytes_(bytes_of_sum(d)),
        sort_(device, {g_.count, g_.rows, g_.first, g_.index}),
        start_(device, "layout",
               {"layout_copy_1", "layout_copy_2", "layout_copy_4", "layout_copy_8",
                "layout_copy_16"}) {
    const Names names = names_of(d.inputs[0].dtype);
    const bool wide = g_.width % names.wide == 0;
    columns_ = wide ? names.wide : 1;
    sum_ = Function(device, "scatter_add", wide ? names.sum_wide : names.sum);
    join_ = Function(device, "scatter_add", wide ? names.join_wide : names.join);
  }

  void run(plait_queue* queue, void* const* operands, void* workspace) const {
    void* y = operands[g_.accumulate ? 3 : 2];
    const void* onto = g_.accumulate ? operands[2] : nullptr;
    if (y != onto) start(queue, y, onto);
    if (g_.count == 0 || g_.width == 0) return;
    const RowSort::Sorted sorted = sort_.run(queue, operands[1], workspace);
    ScatterSumArgs args{};
    args.keys = sorted.keys, args.places = sorted.places;
    args.dy = operands[0], args.y = y;
    args.partial = static_cast<char*>(workspace) + RowSort::workspace(g_.count);
    args.count = g_.count, args.rows = g_.rows, args.width = g_.width;
    args.accumulate = g_.accumulate;
    const int64_t columns = g_.width / columns_;
    const auto block = static_cast<unsigned>(std::min<int64_t>(256, (columns + 31) / 32 * 32));
    const Grid grid{blocks_for(g_.count, kScatterChunk),
                    blocks_of_stride(columns, block, kMostBlocksY)};
    sum_.launch(queue, grid, block, args);
    join_.launch(queue, grid, block, args);
  }

 private:
  // y = onto, or zeros.
  void start(plait_queue* queue, void* y, const void* onto) const {
    const uint64_t bytes = static_cast<uint64_t>(g_.width) * sum_bytes_;
    const int unit = unit_power({bytes, address(y), address(onto)});
    const auto units = static_cast<int64_t>(bytes >> unit);
    const RowTiles tiles = row_tiles(g_.rows, units);
    start_[unit].launch(queue, tiles.grid, kTileBlock,
                        LayoutCopyArgs{onto, y, g_.rows, units, units, units, tiles.log_lanes, 0});
  }

  kit::Gather g_;
  uint64_t sum_bytes_;
  RowSort sort_;
  Function sum_, join_;
  UnitFunctions start_;
  int columns_ = 1;  // of a thread
};

}  // namespace

void add_scatter_add(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<ScatterAdd>("plain", "scatter_add", "cuda", 0));
}

}  // namespace plait::cuda
