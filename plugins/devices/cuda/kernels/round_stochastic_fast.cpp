// round_stochastic, eight elements a thread.
#include "kit/ops/round_stochastic.hpp"
#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/devices/cuda/kernels/round_stochastic_args.hpp"
#include "plugins/support/philox.hpp"

namespace plait::cuda {
namespace {

class FastRoundStochastic {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::RoundStochastic r = kit::parse_round_stochastic(d);
    const int64_t each = kit::kRoundedByBlock;
    const bool whole = r.run == 0 ? (r.first + r.begin) % each == 0
                                  : r.first % each == 0 && r.begin % each == 0 &&
                                        r.run % each == 0 && r.stride % each == 0;
    choice.workspace = 0;
    why = whole ? "eight elements a thread" : "the elements begin within a block of numbers";
    return whole;
  }
  FastRoundStochastic(plait_device* device, const plait_op_desc& d)
      : function_(device, "round_stochastic_fast", "round_stochastic_blocks") {
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
    function_.launch(queue, {blocks_of_stride(args.n, 8 * 256)}, 256, args);
  }

 private:
  Function function_;
  RoundStochasticArgs args_{};
};

}  // namespace

void add_round_stochastic_fast(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<FastRoundStochastic>("blocks", "round_stochastic", "cuda", 10));
}

}  // namespace plait::cuda
