// random, plain.
#include "kit/ops/random.hpp"

#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/devices/cuda/kernels/random_args.hpp"
#include "plugins/support/philox.hpp"

namespace plait::cuda {
namespace {

class PlainRandom {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    kit::parse_random(d);
    choice.workspace = 0;
    why = "a thread per number";
    return true;
  }
  PlainRandom(plait_device* device, const plait_op_desc& d)
      : function_(device, "random", "random_plain") {
    const kit::Random r = kit::parse_random(d);
    args_.samples = r.samples;
    args_.per_sample = r.per_sample;
    args_.first_sample = r.first_sample;
    args_.run = r.run;
    args_.stride = r.stride;
    args_.first = r.first;
    args_.seed = r.seed;
    args_.stream = support::stream_word(r.stream);
    args_.normal = r.normal;
    args_.by_sample = r.by_sample;
    args_.y.dtype = d.outputs[0].dtype;
  }
  void run(plait_queue* queue, void* const* operands, void*) const {
    RandomArgs args = args_;
    args.counter = static_cast<const int64_t*>(operands[0]);
    args.y.data = operands[1];
    function_.launch(queue, {blocks_of_stride(args.samples * args.per_sample, 256)}, 256, args);
  }

 private:
  Function function_;
  RandomArgs args_{};
};

}  // namespace

void add_random(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<PlainRandom>("plain", "random", "cuda", 0));
}

}  // namespace plait::cuda
