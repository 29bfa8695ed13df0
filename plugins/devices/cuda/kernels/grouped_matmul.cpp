// grouped_matmul and its gradient on the device: in double, of every type; by tiles in f32; and of
// 16-bit floats by tiles on tensor cores. How many rows a group has stays on the device: a launch
// has blocks for as many tiles as there can be, and those that are not needed end at once.
#include <algorithm>
#include <string>

#include "kit/dtype.hpp"
#include "kit/ops/grouped.hpp"
#include "plugins/devices/cuda/kernels/grouped_matmul_args.hpp"
#include "plugins/devices/cuda/kernels/kernel.hpp"

namespace plait::cuda {
namespace {

constexpr int32_t kTilesPriority = 10, kTensorCoresPriority = 20;
constexpr int64_t kMostWidth = 1 << 20;  // I and O of tiles

// The functions of an op: y = x b, y = x b^T, or the gradient.
enum class Form { kProduct, kTransposed, kGradient };
template <bool kGrad>
Form form_of(const kit::GroupedMatmul& g) {
  return kGrad ? Form::kGradient : g.transpose_b ? Form::kTransposed : Form::kProduct;
}
template <bool kGrad>
kit::GroupedMatmul parse(const plait_op_desc& d) {
  return kGrad ? kit::parse_grouped_matmul_grad(d) : kit::parse_grouped_matmul(d);
}

// Where groups begin, which is found before each product; and the arguments of the products.
class Ranges {
 public:
  // tile: rows of a tile of the product.
  Ranges(plait_device* device, const plait_op_desc& d, const kit::GroupedMatmul& g, int tile)
      : function_(device, "grouped_matmul_plain", "grouped_ranges") {
    ranges_.offsets.dtype = d.inputs[2].dtype;
    ranges_.rows = g.rows;
    ranges_.total = static_cast<int32_t>(g.total);
    ranges_.groups = static_cast<int32_t>(g.groups);
    ranges_.first = static_cast<int32_t>(g.first);
    ranges_.tile = tile;
    args_.y.dtype = d.outputs[0].dtype;
    args_.rows = g.rows, args_.inputs = g.inputs, args_.outputs = g.outputs;
    args_.groups = ranges_.groups, args_.transpose_b = g.transpose_b;
  }
  static bool fit(const kit::GroupedMatmul& g, std::string& why) {
    constexpr int64_t kMost = int64_t{1} << 30;
    const int64_t most = std::max({g.rows, g.total, g.groups, g.first});
    if (most < kMost) return true;
    why = "takes less than 2^30 rows and groups, found " + std::to_string(most);
    return false;
  }
  static uint64_t workspace(const kit::GroupedMatmul& g) {
    return 2 * static_cast<uint64_t>(g.groups + 3) * sizeof(int32_t);
  }
  GroupedMatmulArgs find(plait_queue* queue, void* const* operands, void* workspace) const {
    GroupRangesArgs ranges = ranges_;
    ranges.offsets.data = operands[2];
    ranges.bounds = static_cast<int32_t*>(workspace);
    ranges.tiles = ranges.bounds + ranges.groups + 3;
    function_.launch(queue, {1}, 32, ranges);
    GroupedMatmulArgs args = args_;
    args.a = operands[0], args.b = operands[1], args.y.data = operands[3];
    args.bounds = ranges.bounds, args.tiles = ranges.tiles;
    return args;
  }

 private:
  Function function_;
  GroupRangesArgs ranges_{};
  GroupedMatmulArgs args_{};
};

// Blocks of tiles of y. More tiles of rows than that no offsets give: each segment has one that is
// not full.
template <bool kGrad>
Grid grid_of_tiles(const kit::GroupedMatmul& g, int tile) {
  const auto tiles = [&](int64_t n) { return (n + tile - 1) / tile; };
  if (kGrad) return {blocks_for(g.groups * tiles(g.inputs) * tiles(g.outputs), 1)};
  return {g.rows == 0 ? 0 : blocks_for(g.rows / tile + g.groups + 2, 1),
          blocks_along_y(g.outputs, tile)};
}

template <bool kGrad>
class PlainProducts {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::GroupedMatmul g = parse<kGrad>(d);
    choice.workspace = Ranges::workspace(g);
    if (!Ranges::fit(g, why)) return false;
    why = "a thread for each element, in double";
    return true;
  }
  PlainProducts(plait_device* device, const plait_op_desc& d)
      : ranges_(device, d, parse<kGrad>(d), 1),
        function_(device, "grouped_matmul_plain", name_of(d.inputs[0].dtype)) {
    const kit::GroupedMatmul g = parse<kGrad>(d);
    grid_ = {blocks_for((kGrad ? g.groups * g.inputs : g.rows) * g.outputs, kGroupedPlainBlock)};
  }
  void run(plait_queue* queue, void* const* operands, void* workspace) const {
    const GroupedMatmulArgs args = ranges_.find(queue, operands, workspace);
    function_.launch(queue, grid_, kGroupedPlainBlock, args);
  }

 private:
  static const char* name_of(uint32_t dtype) {
    switch (dtype) {
      case PLAIT_F64:
        return kGrad ? "grouped_grad_plain_f64" : "grouped_plain_f64";
      case PLAIT_BF16:
        return kGrad ? "grouped_grad_plain_bf16" : "grouped_plain_bf16";
      case PLAIT_F16:
        return kGrad ? "grouped_grad_plain_f16" : "grouped_plain_f16";
      default:
        return kGrad ? "grouped_grad_plain_f32" : "grouped_plain_f32";
    }
  }
  Ranges ranges_;
  Function function_;
  Grid grid_;
};

bool tiles_fit(const kit::GroupedMatmul& g, std::string& why) {
  if (!Ranges::fit(g, why)) return false;
  if (g.inputs <= kMostWidth && g.outputs <= kMostWidth) return true;
  why = "takes up to 2^20 inputs and outputs, found " + std::to_string(g.inputs) + " and " +
        std::to_string(g.outputs);
  return false;
}

template <bool kGrad>
class TileProducts {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::GroupedMatmul g = parse<kGrad>(d);
    choice.workspace = Ranges::workspace(g);
    if (d.inputs[0].dtype == PLAIT_F64 || d.outputs[0].dtype == PLAIT_F64) {
      why = "takes f32 and 16-bit floats, found f64";
      return false;
    }
    if (!tiles_fit(g, why)) return false;
    why = "tiles of 64 x 64, in f32";
    return true;
  }
  TileProducts(plait_device* device, const plait_op_desc& d)
      : ranges_(device, d, parse<kGrad>(d), kGroupedTile),
        function_(device, "grouped_matmul_tiles",
                  name_of(d.inputs[0].dtype, form_of<kGrad>(parse<kGrad>(d)))),
        grid_(grid_of_tiles<kGrad>(parse<kGrad>(d), kGroupedTile)) {}
  void run(plait_queue* queue, void* const* operands, void* workspace) const {
    const GroupedMatmulArgs args = ranges_.find(queue, operands, workspace);
    function_.launch(queue, grid_, kGroupedTileBlock, args);
  }

 private:
  static const char* name_of(uint32_t dtype, Form form) {
    static constexpr const char* kNames[3][3] = {
        {"grouped_tiles_f32", "grouped_tiles_transposed_f32", "grouped_grad_tiles_f32"},
        {"grouped_tiles_bf16", "grouped_tiles_transposed_bf16", "grouped_grad_tiles_bf16"},
        {"grouped_tiles_f16", "grouped_tiles_transposed_f16", "grouped_grad_tiles_f16"}};
    return kNames[dtype == PLAIT_F32 ? 0 : dtype == PLAIT_BF16 ? 1 : 2][static_cast<int>(form)];
  }
  Ranges ranges_;
  Function function_;
  Grid grid_;
};

template <bool kGrad>
class TensorCoreProducts {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::GroupedMatmul g = parse<kGrad>(d);
    const uint32_t type = d.inputs[0].dtype, y = d.outputs[0].dtype;
    choice.workspace = Ranges::workspace(g);
    if (type != PLAIT_BF16 && type != PLAIT_F16)
      why = std::string("takes 16-bit floats, found ") + kit::dtype_name(type);
    else if (y != type && y != PLAIT_F32)
      why = std::string("writes f32 or the type of x, found ") + kit::dtype_name(y);
    else if (g.inputs % 8 != 0 || g.outputs % 8 != 0)
      why = "needs inputs and outputs in whole 8, found " + std::to_string(g.inputs) + " and " +
            std::to_string(g.outputs);
    if (!why.empty() || !tiles_fit(g, why)) return false;
    why = "tiles of 128 x 128 on tensor cores, sums in f32";
    return true;
  }
  TensorCoreProducts(plait_device* device, const plait_op_desc& d)
      : ranges_(device, d, parse<kGrad>(d), kGroupedMmaTile),
        function_(device, "grouped_matmul_mma",
                  name_of(d.inputs[0].dtype, form_of<kGrad>(parse<kGrad>(d))), kGroupedShared),
        grid_(grid_of_tiles<kGrad>(parse<kGrad>(d), kGroupedMmaTile)) {}
  void run(plait_queue* queue, void* const* operands, void* workspace) const {
    const GroupedMatmulArgs args = ranges_.find(queue, operands, workspace);
    function_.launch(queue, grid_, kGroupedMmaBlock, args, kGroupedShared);
  }

 private:
  static const char* name_of(uint32_t dtype, Form form) {
    static constexpr const char* kNames[2][3] = {
        {"grouped_mma_bf16", "grouped_mma_transposed_bf16", "grouped_grad_mma_bf16"},
        {"grouped_mma_f16", "grouped_mma_transposed_f16", "grouped_grad_mma_f16"}};
    return kNames[dtype == PLAIT_BF16 ? 0 : 1][static_cast<int>(form)];
  }
  Ranges ranges_;
  Function function_;
  Grid grid_;
};

}  // namespace

void add_grouped_matmul(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<PlainProducts<false>>("plain", "grouped_matmul", "cuda", 0));
  out.push_back(kernel<TileProducts<false>>("tiles", "grouped_matmul", "cuda", kTilesPriority));
  out.push_back(kernel<TensorCoreProducts<false>>("tensor_cores", "grouped_matmul", "cuda",
                                                  kTensorCoresPriority));
  out.push_back(kernel<PlainProducts<true>>("plain", "grouped_matmul_grad", "cuda", 0));
  out.push_back(kernel<TileProducts<true>>("tiles", "grouped_matmul_grad", "cuda", kTilesPriority));
  out.push_back(kernel<TensorCoreProducts<true>>("tensor_cores", "grouped_matmul_grad", "cuda",
                                                 kTensorCoresPriority));
}

}  // namespace plait::cuda
