// reduce, plain.
#include "kit/ops/reduce.hpp"

#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/devices/cuda/kernels/reduce_args.hpp"

namespace plait::cuda {
namespace {

constexpr int64_t kShortSum = 64;  // elements that one thread sums

static_assert(kReduceSum == static_cast<uint32_t>(kit::ReduceKind::sum) &&
              kReduceMax == static_cast<uint32_t>(kit::ReduceKind::max) &&
              kReduceSquares == static_cast<uint32_t>(kit::ReduceKind::sum_squares));

void append(ReduceDims& dims, const kit::Reduce::Dim& dim) {
  dims.extents[dims.rank] = dim.extent;
  dims.strides[dims.rank++] = dim.stride;
}

class PlainReduce {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    kit::parse_reduce(d);
    choice.workspace = 0;
    why = "a block or a thread per sum, in double";
    return true;
  }
  PlainReduce(plait_device* device, const plait_op_desc& d)
      : function_(device, "reduce", "reduce_plain") {
    const kit::Reduce r = kit::parse_reduce(d);
    for (size_t i = 0; i < r.dims.size(); ++i)
      append(r.reduced[i] ? args_.reduced : args_.kept, r.dims[i]);
    args_.outputs = r.kept;
    args_.summed = r.summed;
    args_.kind = static_cast<uint32_t>(r.kind);
    args_.x.dtype = d.inputs[0].dtype;
    args_.y.dtype = d.outputs[0].dtype;
    args_.by_block = r.summed > kShortSum;
  }
  void run(plait_queue* queue, void* const* operands, void*) const {
    ReduceArgs args = args_;
    args.x.data = operands[0];
    args.y.data = operands[1];
    function_.launch(queue, {blocks_of_stride(args.outputs, args.by_block ? 1 : 256)}, 256, args);
  }

 private:
  Function function_;
  ReduceArgs args_{};
};

}  // namespace

void add_reduce(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<PlainReduce>("plain", "reduce", "cuda", 0));
}

}  // namespace plait::cuda
