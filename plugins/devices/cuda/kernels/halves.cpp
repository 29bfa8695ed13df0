// split_halves and join_halves on the device.
#include "kit/ops/halves.hpp"

#include <string>

#include "plugins/devices/cuda/kernels/halves_args.hpp"
#include "plugins/devices/cuda/kernels/kernel.hpp"

namespace plait::cuda {
namespace {

template <int64_t (*parse)(const plait_op_desc&)>
class CudaHalves {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    parse(d);
    choice.workspace = 0;
    why = "four elements a thread";
    return true;
  }
  CudaHalves(plait_device* device, const plait_op_desc& d, const char* name)
      : function_(device, "halves", name), n_(parse(d)) {}

 protected:
  void launch(plait_queue* queue, void* x, void* high, void* low) const {
    const HalvesArgs args{static_cast<float*>(x), static_cast<uint16_t*>(high),
                          static_cast<int16_t*>(low), n_};
    function_.launch(queue, {blocks_of_stride(n_, kHalvesPerThread * kHalvesBlock)}, kHalvesBlock,
                     args);
  }

 private:
  Function function_;
  int64_t n_;
};

class CudaSplitHalves : public CudaHalves<kit::parse_split_halves> {
 public:
  CudaSplitHalves(plait_device* device, const plait_op_desc& d)
      : CudaHalves(device, d, "split_halves") {}
  void run(plait_queue* queue, void* const* operands, void*) const {
    launch(queue, operands[0], operands[1], operands[2]);
  }
};

class CudaJoinHalves : public CudaHalves<kit::parse_join_halves> {
 public:
  CudaJoinHalves(plait_device* device, const plait_op_desc& d)
      : CudaHalves(device, d, "join_halves") {}
  void run(plait_queue* queue, void* const* operands, void*) const {
    launch(queue, operands[2], operands[0], operands[1]);
  }
};

}  // namespace

void add_halves(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<CudaSplitHalves>("plain", "split_halves", "cuda", 0));
  out.push_back(kernel<CudaJoinHalves>("plain", "join_halves", "cuda", 0));
}

}  // namespace plait::cuda
