// softmax, log_softmax and their gradients, each row by the threads of a warp or a block.
#include "plugins/devices/cuda/kernels/rows_on_host.hpp"
#include "plugins/devices/cuda/kernels/softmax_rows_args.hpp"

namespace plait::cuda {
namespace {

enum Way { kWarp, kWarpSingle, kBlock, kBlockSingle, kLong };
constexpr const char* kWays[] = {"a warp for each row", "a warp for each row, element by element",
                                 "a block for each row", "a block for each row, element by element",
                                 "a block for each row, which it reads twice"};
constexpr const char* kForward[][3] = {
    PLAIT_ROW_TYPES("softmax_rows_warp"), PLAIT_ROW_TYPES("softmax_rows_warp_single"),
    PLAIT_ROW_TYPES("softmax_rows_block"), PLAIT_ROW_TYPES("softmax_rows_block_single"),
    PLAIT_ROW_TYPES("softmax_rows_long")};
constexpr const char* kGradient[][3] = {
    PLAIT_ROW_TYPES("softmax_grad_rows_warp"), PLAIT_ROW_TYPES("softmax_grad_rows_warp_single"),
    PLAIT_ROW_TYPES("softmax_grad_rows_block"), PLAIT_ROW_TYPES("softmax_grad_rows_block_single"),
    PLAIT_ROW_TYPES("softmax_grad_rows_long")};

Way way_of(const kit::Rows& r, uint32_t dtype) {
  const bool packs = r.cols * static_cast<int64_t>(kit::dtype_bytes(dtype)) % 16 == 0;
  if (r.cols <= kWarpRow) return packs ? kWarp : kWarpSingle;
  if (r.cols <= kBlockRow) return packs ? kBlock : kBlockSingle;
  return kLong;
}

template <bool kGrad, bool kLog>
class SoftmaxRows {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::Rows r = kit::parse_rows(d, kInputs);
    if (row_type(d.inputs[0].dtype) < 0) why = "takes f32, bf16 and f16";
    if (!rows_fit(r, why)) return false;
    choice.workspace = 0;
    why = kWays[way_of(r, d.inputs[0].dtype)];
    return true;
  }
  SoftmaxRows(plait_device* device, const plait_op_desc& d)
      : shape_(kit::parse_rows(d, kInputs)),
        way_(way_of(shape_, d.inputs[0].dtype)),
        function_(device, "softmax_rows",
                  (kGrad ? kGradient : kForward)[way_][row_type(d.inputs[0].dtype)]) {}
  void run(plait_queue* queue, void* const* operands, void*) const {
    if (shape_.cols == 0) return;
    const SoftmaxRowsArgs a{operands[0],
                            operands[kInputs - 1],
                            operands[kInputs],
                            shape_.rows,
                            static_cast<int32_t>(shape_.cols),
                            kLog};
    function_.launch(queue, row_grid(shape_.rows, way_ == kWarp || way_ == kWarpSingle), kRowBlock,
                     a);
  }

 private:
  static constexpr uint32_t kInputs = kGrad ? 2 : 1;
  kit::Rows shape_;
  Way way_;
  Function function_;
};

}  // namespace

void add_softmax_rows(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<SoftmaxRows<false, false>>("rows", "softmax", "cuda", kRowsPriority));
  out.push_back(kernel<SoftmaxRows<false, true>>("rows", "log_softmax", "cuda", kRowsPriority));
  out.push_back(kernel<SoftmaxRows<true, false>>("rows", "softmax_grad", "cuda", kRowsPriority));
  out.push_back(kernel<SoftmaxRows<true, true>>("rows", "log_softmax_grad", "cuda", kRowsPriority));
}

}  // namespace plait::cuda
