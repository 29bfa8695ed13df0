// quantize, dequantize, gather_quantized and matmul_quantized on the device.
#include <string>

#include "kit/dtype.hpp"
#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/devices/cuda/kernels/quantized_product.hpp"

namespace plait::cuda {
namespace {

class Quantize {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    why = kit::parse_quantize(d).nf4() ? "a thread for each block of columns"
                                       : "a warp for each block of columns";
    choice.workspace = 0;
    return true;
  }
  Quantize(plait_device* device, const plait_op_desc& d) {
    const kit::Quantized p = kit::parse_quantize(d);
    args_.x.dtype = d.inputs[0].dtype;
    args_.row = p;
    args_.rows = p.rows, args_.blocks = p.blocks();
    function_ = Function(device, "quantized", p.nf4() ? "quantize_nf4" : "quantize");
    constexpr int64_t kWarps = kQuantizedBlock / 32;
    grid_ =
        p.nf4() ? blocks_for(p.rows * p.floats() / 2, 1) : blocks_for(p.rows * p.blocks(), kWarps);
  }
  void run(plait_queue* queue, void* const* operands, void*) const {
    QuantizeArgs args = args_;
    args.x.data = operands[0];
    args.q = static_cast<uint8_t*>(operands[1]);
    args.scale = static_cast<float*>(operands[2]);
    function_.launch(queue, {grid_}, kQuantizedBlock, args);
  }

 private:
  Function function_;
  QuantizeArgs args_{};
  unsigned grid_ = 0;
};

// gather_quantized, and dequantize, which takes all rows.
class RowsOfQuantized {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    d.n_inputs == 3 ? void(kit::parse_gather_quantized(d)) : void(kit::parse_dequantize(d));
    choice.workspace = 0;
    why = "a thread for each element";
    return true;
  }
  RowsOfQuantized(plait_device* device, const plait_op_desc& d)
      : function_(device, "quantized", "rows_of_quantized"), y_(d.n_inputs) {
    args_.y.dtype = d.outputs[0].dtype;
    if (d.n_inputs == 3) {
      const kit::GatherQuantized g = kit::parse_gather_quantized(d);
      args_.row = g.weights;
      args_.index.dtype = g.index;
      args_.rows = g.rows, args_.count = g.count;
      args_.first = g.first, args_.total = g.total;
    } else {
      const kit::Quantized w = kit::parse_dequantize(d);
      args_.row = w;
      args_.rows = args_.count = args_.total = w.rows;
    }
  }
  void run(plait_queue* queue, void* const* operands, void*) const {
    RowsOfQuantizedArgs args = args_;
    args.q = static_cast<const uint8_t*>(operands[0]);
    args.scale = static_cast<const float*>(operands[1]);
    if (y_ == 3) args.index.data = operands[2];
    args.y.data = operands[y_];
    function_.launch(queue, {blocks_for(args.count * args.row.columns, kQuantizedBlock)},
                     kQuantizedBlock, args);
  }

 private:
  Function function_;
  RowsOfQuantizedArgs args_{};
  uint32_t y_;  // operand
};

class PlainMatmulQuantized {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    parse_product(d);
    choice.workspace = 0;
    why = "a thread for each element, in double";
    return true;
  }
  PlainMatmulQuantized(plait_device* device, const plait_op_desc& d)
      : product_(d), function_(device, "quantized", "matmul_quantized_plain") {}
  void run(plait_queue* queue, void* const* operands, void*) const {
    const MatmulQuantizedArgs args = product_.args(operands);
    function_.launch(queue, {blocks_for(args.m * args.n, kQuantizedBlock)}, kQuantizedBlock, args);
  }

 private:
  QuantizedProduct product_;
  Function function_;
};

}  // namespace

void add_quantized(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<Quantize>("plain", "quantize", "cuda", 0));
  out.push_back(kernel<RowsOfQuantized>("plain", "dequantize", "cuda", 0));
  out.push_back(kernel<RowsOfQuantized>("plain", "gather_quantized", "cuda", 0));
  out.push_back(kernel<PlainMatmulQuantized>("plain", "matmul_quantized", "cuda", 0));
}

}  // namespace plait::cuda
