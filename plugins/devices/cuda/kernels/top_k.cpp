// top_k and its gradient on the device, of every type.
#include "kit/ops/top_k.hpp"

#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/devices/cuda/kernels/top_k_args.hpp"

namespace plait::cuda {
namespace {

const char* name_of(uint32_t dtype) {
  return dtype == PLAIT_F64    ? "top_k_f64"
         : dtype == PLAIT_BF16 ? "top_k_bf16"
         : dtype == PLAIT_F16  ? "top_k_f16"
                               : "top_k_f32";
}

class TopK {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    kit::parse_top_k(d);
    choice.workspace = 0;
    why = "each number is compared with all of its row";
    return true;
  }
  TopK(plait_device* device, const plait_op_desc& d)
      : function_(device, "top_k", name_of(d.inputs[0].dtype)) {
    const kit::TopK t = kit::parse_top_k(d);
    args_.count = t.rows * t.extent;
    args_.extent = t.extent, args_.k = t.k;
  }
  void run(plait_queue* queue, void* const* operands, void*) const {
    TopKArgs args = args_;
    args.x = operands[0], args.values = operands[1];
    args.index = static_cast<int32_t*>(operands[2]);
    function_.launch(queue, {blocks_for(args.count, kTopKBlock)}, kTopKBlock, args);
  }

 private:
  Function function_;
  TopKArgs args_{};
};

class TopKGrad {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    kit::parse_top_k_grad(d);
    choice.workspace = 0;
    why = "a thread for each number, in double";
    return true;
  }
  TopKGrad(plait_device* device, const plait_op_desc& d)
      : function_(device, "top_k", "top_k_grad") {
    const kit::TopK t = kit::parse_top_k_grad(d);
    args_.dy.dtype = d.inputs[0].dtype, args_.index.dtype = d.inputs[1].dtype;
    args_.dx.dtype = d.outputs[0].dtype;
    args_.count = t.rows * t.extent;
    args_.extent = t.extent, args_.k = t.k;
  }
  void run(plait_queue* queue, void* const* operands, void*) const {
    TopKGradArgs args = args_;
    args.dy.data = operands[0], args.index.data = operands[1], args.dx.data = operands[2];
    function_.launch(queue, {blocks_for(args.count, kTopKBlock)}, kTopKBlock, args);
  }

 private:
  Function function_;
  TopKGradArgs args_{};
};

}  // namespace

void add_top_k(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<TopK>("plain", "top_k", "cuda", 0));
  out.push_back(kernel<TopKGrad>("plain", "top_k_grad", "cuda", 0));
}

}  // namespace plait::cuda
