// cross_entropy and its gradient, plain.
#include "kit/ops/cross_entropy.hpp"
#include "plugins/devices/cuda/kernels/cross_entropy_args.hpp"
#include "plugins/devices/cuda/kernels/kernel.hpp"

namespace plait::cuda {
namespace {

template <bool kGrad>
class PlainCrossEntropy {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    kit::parse_cross_entropy(d, kGrad);
    choice.workspace = 0;
    why = "a block per row, in double";
    return true;
  }
  PlainCrossEntropy(plait_device* device, const plait_op_desc& d)
      : function_(device, "cross_entropy",
                  kGrad ? "cross_entropy_grad_plain" : "cross_entropy_plain") {
    const kit::CrossEntropy c = kit::parse_cross_entropy(d, kGrad);
    args_.rows = c.x.rows;
    args_.cols = c.x.cols;
    args_.valid = c.valid;
    args_.first = c.first;
    args_.total = c.total;
    args_.smoothing = c.smoothing;
    args_.part = c.part;
    args_.x.dtype = args_.dx.dtype = c.dtype;
    args_.label.dtype = c.label;
    args_.loss.dtype = kGrad ? d.inputs[3].dtype : d.outputs[0].dtype;
    args_.log_sum_exp.dtype = kGrad ? d.inputs[2].dtype : d.outputs[1].dtype;
  }
  void run(plait_queue* queue, void* const* operands, void*) const {
    CrossEntropyArgs args = args_;
    args.x.data = operands[0];
    args.label.data = operands[1];
    args.loss.data = operands[kGrad ? 3 : 2];
    args.log_sum_exp.data = operands[kGrad ? 2 : 3];
    args.dx.data = kGrad ? operands[4] : nullptr;
    function_.launch(queue, {blocks_of_stride(args.rows, 1)}, 256, args);
  }

 private:
  Function function_;
  CrossEntropyArgs args_{};
};

}  // namespace

void add_cross_entropy(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<PlainCrossEntropy<false>>("plain", "cross_entropy", "cuda", 0));
  out.push_back(kernel<PlainCrossEntropy<true>>("plain", "cross_entropy_grad", "cuda", 0));
}

}  // namespace plait::cuda
