// quantize and matmul_quantized on the device.
#include <string>

#include "kit/dtype.hpp"
#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/devices/cuda/kernels/quantized_product.hpp"

namespace plait::cuda {
namespace {

class Quantize {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    choice.workspace = 0;
    if (kit::parse_quantize(d).nf4()) {
      why = "makes int8, found nf4";
      return false;
    }
    why = "a warp for each block of columns";
    return true;
  }
  Quantize(plait_device* device, const plait_op_desc& d)
      : function_(device, "quantized", "quantize") {
    const kit::Quantized p = kit::parse_quantize(d);
    args_.x.dtype = d.inputs[0].dtype;
    args_.rows = p.rows, args_.columns = p.columns, args_.blocks = p.blocks();
  }
  void run(plait_queue* queue, void* const* operands, void*) const {
    QuantizeArgs args = args_;
    args.x.data = operands[0];
    args.q = static_cast<uint8_t*>(operands[1]);
    args.scale = static_cast<float*>(operands[2]);
    constexpr int64_t kWarps = kQuantizedBlock / 32;
    function_.launch(queue, {blocks_for(args.rows * args.blocks, kWarps)}, kQuantizedBlock, args);
  }

 private:
  Function function_;
  QuantizeArgs args_{};
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
  out.push_back(kernel<PlainMatmulQuantized>("plain", "matmul_quantized", "cuda", 0));
}

}  // namespace plait::cuda
