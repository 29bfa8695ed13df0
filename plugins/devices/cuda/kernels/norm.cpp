// layer_norm, rms_norm and their gradients, plain.
#include "kit/ops/norm.hpp"
#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/devices/cuda/kernels/norm_args.hpp"

namespace plait::cuda {
namespace {

template <bool kLayer>
class PlainNorm {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    kit::parse_norm(d, kLayer, false);
    choice.workspace = 0;
    why = "a block per row, in double";
    return true;
  }
  PlainNorm(plait_device* device, const plait_op_desc& d)
      : function_(device, "norm", "norm_plain") {
    const kit::Norm n = kit::parse_norm(d, kLayer, false);
    args_.rows = n.x.rows;
    args_.cols = n.x.cols;
    args_.eps = n.eps;
    args_.layer = kLayer;
    args_.x.dtype = d.inputs[0].dtype;
    args_.gain.dtype = d.inputs[1].dtype;
    args_.y.dtype = d.outputs[0].dtype;
    args_.rstd.dtype = d.outputs[kLayer ? 2 : 1].dtype;
    if (!kLayer) return;
    args_.bias.dtype = d.inputs[2].dtype;
    args_.mean.dtype = d.outputs[1].dtype;
  }
  void run(plait_queue* queue, void* const* operands, void*) const {
    NormArgs args = args_;
    args.x.data = operands[0];
    args.gain.data = operands[1];
    args.bias.data = kLayer ? operands[2] : nullptr;
    args.y.data = operands[kLayer ? 3 : 2];
    args.mean.data = kLayer ? operands[4] : nullptr;
    args.rstd.data = operands[kLayer ? 5 : 3];
    function_.launch(queue, {blocks_of_stride(args.rows, 1)}, 256, args);
  }

 private:
  Function function_;
  NormArgs args_{};
};

template <bool kLayer>
class PlainNormGrad {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    kit::parse_norm(d, kLayer, true);
    choice.workspace = 0;
    why = "a block per row and per 32 channels, in double";
    return true;
  }
  PlainNormGrad(plait_device* device, const plait_op_desc& d)
      : rows_(device, "norm", "norm_grad_plain_rows"),
        channels_(device, "norm", "norm_grad_plain_channels") {
    const kit::Norm n = kit::parse_norm(d, kLayer, true);
    args_.rows = n.x.rows;
    args_.cols = n.x.cols;
    args_.layer = kLayer;
    args_.x.dtype = d.inputs[0].dtype;
    args_.gain.dtype = d.inputs[1].dtype;
    args_.rstd.dtype = d.inputs[kLayer ? 3 : 2].dtype;
    args_.dy.dtype = d.inputs[kLayer ? 4 : 3].dtype;
    args_.dx.dtype = d.outputs[0].dtype;
    args_.d_gain.dtype = d.outputs[1].dtype;
    if (!kLayer) return;
    args_.mean.dtype = d.inputs[2].dtype;
    args_.d_bias.dtype = d.outputs[2].dtype;
  }
  void run(plait_queue* queue, void* const* operands, void*) const {
    NormGradArgs args = args_;
    args.x.data = operands[0];
    args.gain.data = operands[1];
    args.mean.data = kLayer ? operands[2] : nullptr;
    args.rstd.data = operands[kLayer ? 3 : 2];
    args.dy.data = operands[kLayer ? 4 : 3];
    args.dx.data = operands[kLayer ? 5 : 4];
    args.d_gain.data = operands[kLayer ? 6 : 5];
    args.d_bias.data = kLayer ? operands[7] : nullptr;
    channels_.launch(queue, {blocks_of_stride(args.cols, 32)}, 256, args);
    rows_.launch(queue, {blocks_of_stride(args.rows, 1)}, 256, args);
  }

 private:
  Function rows_, channels_;
  NormGradArgs args_{};
};

}  // namespace

void add_norm(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<PlainNorm<true>>("plain", "layer_norm", "cuda", 0));
  out.push_back(kernel<PlainNorm<false>>("plain", "rms_norm", "cuda", 0));
  out.push_back(kernel<PlainNormGrad<true>>("plain", "layer_norm_grad", "cuda", 0));
  out.push_back(kernel<PlainNormGrad<false>>("plain", "rms_norm_grad", "cuda", 0));
}

}  // namespace plait::cuda
