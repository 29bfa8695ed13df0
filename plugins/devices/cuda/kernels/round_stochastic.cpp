// round_stochastic, plain.
#include "kit/ops/round_stochastic.hpp"

#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/devices/cuda/kernels/round_stochastic_args.hpp"
#include "plugins/support/philox.hpp"

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
      : function_(device, "round_stochastic", "round_stochastic_plain") {
    const kit::RoundStochastic r = kit::parse_round_stochastic(d);
    args_.n = r.n;
    args_.first = r.first;
    args_.run = r.run;
    args_.stride = r.stride;
    args_.begin = r.begin;
    args_.seed = r.seed;
    args_.stream = support::stream_word(r.stream);
    args_.step.dtype = r.step;
  }
  void run(plait_queue* queue, void* const* operands, void*) const {
    RoundStochasticArgs args = args_;
    args.x = static_cast<const float*>(operands[0]);
    args.step.data = operands[1];
    args.y = static_cast<uint16_t*>(operands[2]);
    function_.launch(queue, {blocks_of_stride(args.n, 256)}, 256, args);
  }

 private:
  Function function_;
  RoundStochasticArgs args_{};
};

}  // namespace

void add_round_stochastic(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<PlainRoundStochastic>("plain", "round_stochastic", "cuda", 0));
}

}  // namespace plait::cuda
