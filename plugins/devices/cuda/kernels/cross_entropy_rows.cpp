// cross_entropy and its gradient, each row by the threads of a warp or a block.
#include "kit/ops/cross_entropy.hpp"
#include "plugins/devices/cuda/kernels/cross_entropy_rows_args.hpp"
#include "plugins/devices/cuda/kernels/rows_on_host.hpp"

namespace plait::cuda {
namespace {

constexpr const char* kForward[][3] = {PLAIT_ROW_TYPES("cross_entropy_rows_block"),
                                       PLAIT_ROW_TYPES("cross_entropy_rows_warp")};
constexpr const char* kGradient[][3] = {PLAIT_ROW_TYPES("cross_entropy_grad_rows_block"),
                                        PLAIT_ROW_TYPES("cross_entropy_grad_rows_warp")};

template <bool kGrad>
class CrossEntropyRows {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::CrossEntropy s = kit::parse_cross_entropy(d, kGrad);
    if (row_type(s.dtype) < 0) why = "takes logits of f32, bf16 and f16";
    for (const plait_shape& x :
         {kGrad ? d.inputs[2] : d.outputs[0], kGrad ? d.inputs[3] : d.outputs[1]})
      if (x.dtype != PLAIT_F32) why = "takes f32 for what is of rows";
    if (!rows_fit(s.x, why)) return false;
    choice.workspace = 0;
    why = by_warp(s.x) ? "a warp for each row" : "a block for each row";
    return true;
  }
  CrossEntropyRows(plait_device* device, const plait_op_desc& d)
      : shape_(kit::parse_cross_entropy(d, kGrad)),
        function_(device, "cross_entropy_rows",
                  (kGrad ? kGradient : kForward)[by_warp(shape_.x)][row_type(shape_.dtype)]) {}
  void run(plait_queue* queue, void* const* operands, void*) const {
    CrossEntropyRowsArgs a{};
    a.logits = operands[0];
    a.labels = {operands[1], shape_.label, 0};
    a.rows = shape_.x.rows, a.first = shape_.first, a.total = shape_.total;
    a.cols = static_cast<int32_t>(shape_.x.cols), a.valid = static_cast<int32_t>(shape_.valid);
    a.part = shape_.part, a.smoothing = static_cast<float>(shape_.smoothing);
    if (kGrad) {
      a.lse = static_cast<float*>(operands[2]), a.dloss = static_cast<float*>(operands[3]);
      a.dlogits = operands[4];
    } else {
      a.loss = static_cast<float*>(operands[2]), a.lse = static_cast<float*>(operands[3]);
    }
    function_.launch(queue, row_grid(shape_.x.rows, by_warp(shape_.x)), kRowBlock, a);
  }

 private:
  static bool by_warp(const kit::Rows& r) { return r.cols <= kWarpRow; }

  kit::CrossEntropy shape_;
  Function function_;
};

}  // namespace

void add_cross_entropy_rows(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<CrossEntropyRows<false>>("rows", "cross_entropy", "cuda", kRowsPriority));
  out.push_back(
      kernel<CrossEntropyRows<true>>("rows", "cross_entropy_grad", "cuda", kRowsPriority));
}

}  // namespace plait::cuda
