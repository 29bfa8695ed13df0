// random of f32, four numbers a thread.
#include "kit/ops/random.hpp"
#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/devices/cuda/kernels/random_args.hpp"
#include "plugins/support/philox.hpp"

namespace plait::cuda {
namespace {

class FastRandom {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::Random r = kit::parse_random(d);
    const bool whole = r.runs == 1 && r.first == 0 && r.run == r.per_sample;
    choice.workspace = 0;
    why = d.outputs[0].dtype != PLAIT_F32 ? "not of f32"
          : !whole                        ? "a part of each sample"
                                          : "four numbers a thread";
    return d.outputs[0].dtype == PLAIT_F32 && whole;
  }
  FastRandom(plait_device* device, const plait_op_desc& d)
      : function_(device, "random_fast", "random_blocks") {
    const kit::Random r = kit::parse_random(d);
    args_.samples = r.samples;
    args_.per_sample = r.per_sample;
    args_.first_sample = r.first_sample;
    args_.seed = r.seed;
    args_.stream = support::stream_word(r.stream);
    args_.normal = r.normal;
    args_.by_sample = r.by_sample;
    args_.y.dtype = PLAIT_F32;
  }
  void run(plait_queue* queue, void* const* operands, void*) const {
    RandomArgs args = args_;
    args.counter = static_cast<const int64_t*>(operands[0]);
    args.y.data = operands[1];
    function_.launch(queue, {blocks_of_stride(args.samples * ((args.per_sample + 3) / 4), 256)},
                     256, args);
  }

 private:
  Function function_;
  RandomArgs args_{};
};

}  // namespace

void add_random_fast(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<FastRandom>("blocks", "random", "cuda", 10));
}

}  // namespace plait::cuda
