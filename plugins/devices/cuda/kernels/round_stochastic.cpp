// round_stochastic, plain.
#include "plugins/devices/cuda/kernels/round_stochastic.hpp"
#include "plugins/devices/cuda/kernels/kernel.hpp"

namespace plait::cuda {
namespace {

class PlainRoundStochastic {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    kit::parse_round_stochastic(d);
    choice.workspace = 0;
    why = "a thread per element";
    return true;
  }
  PlainRoundStochastic(plait_device* device, const plait_op_desc& d)
      : function_(device, "round_stochastic", "round_stochastic_plain"),
        args_(round_stochastic_args(d)) {}
  void run(plait_queue* queue, void* const* operands, void*) const {
    const RoundStochasticArgs args = with_operands(args_, operands);
    function_.launch(queue, {blocks_of_stride(args.n, 256)}, 256, args);
  }

 private:
  Function function_;
  RoundStochasticArgs args_;
};

}  // namespace

void add_round_stochastic(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<PlainRoundStochastic>("plain", "round_stochastic", "cuda", 0));
}

}  // namespace plait::cuda
