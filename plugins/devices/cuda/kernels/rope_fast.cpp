// rope of f32 and 16-bit floats whose pairs fill packs of 16 bytes.
#include "kit/dtype.hpp"
#include "kit/ops/rope.hpp"
#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/devices/cuda/kernels/rope_args.hpp"

namespace plait::cuda {
namespace {

// Elements of 16 bytes.
int64_t pack_of(uint32_t dtype) { return 16 / static_cast<int64_t>(kit::dtype_bytes(dtype)); }

const char* function_of(uint32_t dtype) {
  return dtype == PLAIT_F32 ? "rope_f32" : dtype == PLAIT_BF16 ? "rope_bf16" : "rope_f16";
}

class FastRope {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::Rope r = kit::parse_rope(d);
    choice.workspace = 0;
    if (d.inputs[0].dtype == PLAIT_F64) {
      why = "f64 is computed plainly";
      return false;
    }
    const int64_t pack = pack_of(d.inputs[0].dtype), turned = r.adjacent ? 2 * r.pairs : r.pairs;
    const bool fits = r.channels % pack == 0 && turned % pack == 0;
    why = fits ? "packs of 16 bytes" : "channels and pairs do not fill packs of 16 bytes";
    return fits;
  }
  FastRope(plait_device* device, const plait_op_desc& d)
      : function_(device, "rope_fast", function_of(d.inputs[0].dtype)) {
    const kit::Rope r = kit::parse_rope(d);
    args_.samples = r.samples;
    args_.tokens = r.tokens;
    args_.heads = r.heads;
    args_.channels = r.channels;
    args_.pairs = r.pairs;
    args_.by_sample = r.by_sample;
    args_.adjacent = r.adjacent;
    args_.inverse = r.inverse;
    args_.x.dtype = args_.y.dtype = d.inputs[0].dtype;
    const int64_t turned = r.adjacent ? 2 * r.pairs : r.pairs,
                  packs = (turned + r.channels - 2 * r.pairs) / pack_of(d.inputs[0].dtype);
    blocks_ = blocks_of_stride(r.samples * r.tokens * r.heads * packs, 256);
  }
  void run(plait_queue* queue, void* const* operands, void*) const {
    RopeArgs args = args_;
    args.x.data = operands[0];
    args.cos = static_cast<const float*>(operands[1]);
    args.sin = static_cast<const float*>(operands[2]);
    args.y.data = operands[3];
    function_.launch(queue, {blocks_}, 256, args);
  }

 private:
  Function function_;
  RopeArgs args_{};
  unsigned blocks_ = 0;
};

}  // namespace

void add_rope_fast(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<FastRope>("packs", "rope", "cuda", 10));
}

}  // namespace plait::cuda
