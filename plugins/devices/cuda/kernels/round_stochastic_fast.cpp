// round_stochastic, eight elements a thread.
#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/devices/cuda/kernels/round_stochastic.hpp"

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
      : function_(device, "round_stochastic_fast", "round_stochastic_blocks"),
        args_(round_stochastic_args(d)) {}
  void run(plait_queue* queue, void* const* operands, void*) const {
    const RoundStochasticArgs args = with_operands(args_, operands);
    function_.launch(queue, {blocks_of_stride(args.n, 8 * 256)}, 256, args);
  }

 private:
  Function function_;
  RoundStochasticArgs args_;
};

}  // namespace

void add_round_stochastic_fast(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<FastRoundStochastic>("blocks", "round_stochastic", "cuda", 10));
}

}  // namespace plait::cuda
