// matmul_quantized on the device in f32. Few rows: the weights are read as they lie. Many rows:
// they become floats in the workspace, of the type of a, for the fastest kernel of matmul.
#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "kit/dtype.hpp"
#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/devices/cuda/kernels/quantized_fast_args.hpp"
#include "plugins/devices/cuda/kernels/quantized_product.hpp"
#include "plugins/devices/cuda/matmul/as_matmul.hpp"

namespace plait::cuda {
namespace {

constexpr int32_t kFewRowsPriority = 20, kManyRowsPriority = 10;
constexpr int64_t kFewRows = 32;

int type_index(uint32_t dtype) {
  return dtype == PLAIT_F32 ? 0 : dtype == PLAIT_BF16 ? 1 : dtype == PLAIT_F16 ? 2 : 3;
}

// Weights of the type of a are too coarse for such a y.
bool finer_than_a(const plait_op_desc& d) {
  return kit::dtype_bytes(d.outputs[0].dtype) > kit::dtype_bytes(d.inputs[0].dtype);
}

class FewRows {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::MatmulQuantized p = parse_product(d);
    choice.workspace = 0;
    if (p.weights.nf4() || !p.transpose_b)
      why = "takes int8 weights (n, k)";
    else if (d.inputs[0].dtype == PLAIT_F64)
      why = "takes f32, bf16 and f16, found f64";
    else if (p.m > kFewRows && !finer_than_a(d))
      why = "takes up to " + std::to_string(kFewRows) + " rows, found " + std::to_string(p.m);
    else if (p.k % 16 != 0)
      why = "needs columns in whole 16, found " + std::to_string(p.k);
    else if (p.m > kMostBlocksY * kQuantizedRows)
      why = std::to_string(p.m) + " rows are more than a grid has blocks for";
    if (!why.empty()) return false;
    why = std::to_string(rows_at_once(p.m)) + " rows at once, in f32";
    return true;
  }

  FewRows(plait_device* device, const plait_op_desc& d)
      : product_(d),
        rows_(rows_at_once(product_.shape().m)),
        function_(device, "quantized_fast",
                  kNames[type_index(d.inputs[0].dtype)][std::bit_width(rows_) - 1]) {}
  void run(plait_queue* queue, void* const* operands, void*) const {
    const MatmulQuantizedArgs args = product_.args(operands);
    function_.launch(
        queue,
        {blocks_for(args.n, kQuantizedWarps * kQuantizedColumns), blocks_along_y(args.m, rows_)},
        kQuantizedBlock, args);
  }

 private:
  static constexpr const char* kNames[3][4] = {
      {"matmul_quantized_f32_1", "matmul_quantized_f32_2", "matmul_quantized_f32_4",
       "matmul_quantized_f32_8"},
      {"matmul_quantized_bf16_1", "matmul_quantized_bf16_2", "matmul_quantized_bf16_4",
       "matmul_quantized_bf16_8"},
      {"matmul_quantized_f16_1", "matmul_quantized_f16_2", "matmul_quantized_f16_4",
       "matmul_quantized_f16_8"}};
  static unsigned rows_at_once(int64_t m) {
    return m >= kQuantizedRows ? kQuantizedRows
                               : std::bit_ceil(static_cast<unsigned>(std::max<int64_t>(m, 1)));
  }

  QuantizedProduct product_;
  unsigned rows_;
  Function function_;
};

// The same product of weights that are floats, which lie before the workspace of it.
struct FloatProduct : AsMatmul {
  FloatProduct(const plait_op_desc& d, const kit::MatmulQuantized& p)
      : AsMatmul(d, d.inputs[0], {d.inputs[0].dtype, 2, {p.weights.rows, p.weights.columns}}, 3,
                 p.transpose_b) {}
  uint64_t weight_bytes() const {
    constexpr uint64_t kAlignment = 64;
    return (b_bytes() + kAlignment - 1) / kAlignment * kAlignment;
  }
};

class ManyRows {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::MatmulQuantized p = parse_product(d);
    if (finer_than_a(d)) {
      why = std::string("y is ") + kit::dtype_name(d.outputs[0].dtype) + ", finer than a";
      return false;
    }
    const FloatProduct product(d, p);
    if (!product.found()) {
      why = "no kernel of matmul takes the product of floats";
      return false;
    }
    choice.workspace = product.weight_bytes() + product.workspace();
    why = std::string("weights as ") + kit::dtype_name(d.inputs[0].dtype) + ", then " +
          product.text();
    return true;
  }

  ManyRows(plait_device* device, const plait_op_desc& d) {
    const kit::MatmulQuantized p = parse_product(d);
    const FloatProduct product(d, p);
    weight_bytes_ = product.weight_bytes();
    product_ = product.prepare(device);
    const int64_t rows = p.weights.rows, columns = p.weights.columns, count = rows * columns;
    const int type = type_index(d.inputs[0].dtype);
    if (p.weights.nf4()) {
      rows_ = {nullptr, nullptr, {},  {nullptr, d.inputs[0].dtype, 0}, p.weights, rows,
               rows,    0,       rows};
      blocks_ = blocks_for(count, kQuantizedBlock);
      dequantize_ = Function(device, "quantized", "rows_of_quantized");
      return;
    }
    args_ = {nullptr, nullptr, nullptr, count, columns, p.weights.blocks()};
    const int at_once = columns % 4 != 0 ? 1 : type == 3 ? 2 : 4;
    blocks_ = blocks_for(count, static_cast<int64_t>(kQuantizedBlock) * at_once);
    dequantize_ =
        Function(device, "quantized_fast", at_once == 1 ? kNames[type] : kWideNames[type]);
  }

  void run(plait_queue* queue, void* const* operands, void* workspace) const {
    const auto launch = [&](auto args) {
      args.q = static_cast<const uint8_t*>(operands[1]);
      args.scale = static_cast<const float*>(operands[2]);
      if constexpr (requires { args.w; })
        args.w = workspace;
      else
        args.y.data = workspace;
      dequantize_.launch(queue, {blocks_}, kQuantizedBlock, args);
    };
    rows_.row.nf4() ? launch(rows_) : launch(args_);
    product_.run(queue, operands[0], workspace, operands,
                 static_cast<char*>(workspace) + weight_bytes_);
  }

 private:
  static constexpr const char* kNames[4] = {"dequantize_f32", "dequantize_bf16", "dequantize_f16",
                                            "dequantize_f64"};
  static constexpr const char* kWideNames[4] = {"dequantize_wide_f32", "dequantize_wide_bf16",
                                                "dequantize_wide_f16", "dequantize_wide_f64"};

  uint64_t weight_bytes_ = 0;
  DequantizeArgs args_{};       // of int8
  RowsOfQuantizedArgs rows_{};  // of nf4
  unsigned blocks_ = 0;
  Function dequantize_;
  PreparedMatmul product_;
};

}  // namespace

void add_quantized_fast(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<FewRows>("few_rows", "matmul_quantized", "cuda", kFewRowsPriority));
  out.push_back(kernel<ManyRows>("many_rows", "matmul_quantized", "cuda", kManyRowsPriority));
}

}  // namespace plait::cuda
