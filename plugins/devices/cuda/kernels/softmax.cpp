// softmax, log_softmax and their gradients, plain.
#include "kit/ops/rows.hpp"
#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/devices/cuda/kernels/softmax_args.hpp"

namespace plait::cuda {
namespace {

template <bool kLog, bool kGrad>
class PlainSoftmax {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    kit::parse_rows(d, kInputs);
    choice.workspace = 0;
    why = "a block per row, in double";
    return true;
  }
  PlainSoftmax(plait_device* device, const plait_op_desc& d)
      : function_(device, "softmax", kGrad ? "softmax_grad_plain" : "softmax_plain") {
    const kit::Rows r = kit::parse_rows(d, kInputs);
    args_.rows = r.rows;
    args_.cols = r.cols;
    args_.x.dtype = args_.dy.dtype = args_.out.dtype = d.inputs[0].dtype;
    args_.log = kLog;
  }
  void run(plait_queue* queue, void* const* operands, void*) const {
    SoftmaxArgs args = args_;
    args.x.data = operands[0];
    args.dy.data = kGrad ? operands[1] : nullptr;
    args.out.data = operands[kInputs];
    function_.launch(queue, {blocks_of_stride(args.rows, 1)}, 256, args);
  }

 private:
  static constexpr uint32_t kInputs = kGrad ? 2 : 1;
  Function function_;
  SoftmaxArgs args_{};
};

}  // namespace

void add_softmax(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<PlainSoftmax<false, false>>("plain", "softmax", "cuda", 0));
  out.push_back(kernel<PlainSoftmax<true, false>>("plain", "log_softmax", "cuda", 0));
  out.push_back(kernel<PlainSoftmax<false, true>>("plain", "softmax_grad", "cuda", 0));
  out.push_back(kernel<PlainSoftmax<true, true>>("plain", "log_softmax_grad", "cuda", 0));
}

}  // namespace plait::cuda
