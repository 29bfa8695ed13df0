// draw_tokens on the device.
#include "kit/ops/draw_tokens.hpp"

#include "plugins/devices/cuda/kernels/draw_tokens_args.hpp"
#include "plugins/devices/cuda/kernels/kernel.hpp"

namespace plait::cuda {
namespace {

class DrawTokens {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    kit::parse_draw_tokens(d);
    choice.workspace = 0;
    why = "a block for each row, weights that are whole numbers";
    return true;
  }
  DrawTokens(plait_device* device, const plait_op_desc& d)
      : t_(kit::parse_draw_tokens(d)), function_(device, "draw_tokens", "draw_tokens") {}
  void run(plait_queue* queue, void* const* operands, void*) const {
    DrawTokensArgs a{};
    a.logits = static_cast<const float*>(operands[0]);
    a.settings = static_cast<const float*>(operands[1]);
    a.numbers = static_cast<const int32_t*>(operands[2]);
    a.ids = static_cast<int32_t*>(operands[3]);
    a.log_probability = static_cast<float*>(operands[4]);
    a.vocabulary = static_cast<int32_t>(t_.vocabulary);
    function_.launch(queue, {blocks_for(t_.rows, 1)}, kDrawBlock, a);
  }

 private:
  kit::DrawTokens t_;
  Function function_;
};

}  // namespace

void add_draw_tokens(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<DrawTokens>("plain", "draw_tokens", "cuda", 0));
}

}  // namespace plait::cuda
