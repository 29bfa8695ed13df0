// The op `map`: hands the expression to the component in map/.
#include "kit/ops/map.hpp"
#include "plugins/devices/cpu/map/map.hpp"

#include <algorithm>

#include "plugins/devices/cpu/kernels/kernels.hpp"

namespace plait::cpu {
namespace {

MapTensor tensor_of(const plait_shape& s) {
  MapTensor t;
  t.dtype = s.dtype;
  t.ndim = static_cast<int>(s.ndim);
  std::copy_n(s.dims, s.ndim, t.dims);
  return t;
}

// A MapDesc with the tensors it borrows.
struct OwnedDesc {
  std::vector<MapTensor> inputs, outputs;
  MapDesc desc;
  explicit OwnedDesc(const plait_op_desc& d) {
    kit::check_map(d);
    for (uint32_t i = 0; i < d.n_inputs; ++i) inputs.push_back(tensor_of(d.inputs[i]));
    for (uint32_t i = 0; i < d.n_outputs; ++i) outputs.push_back(tensor_of(d.outputs[i]));
    desc.map = d.map;
    desc.inputs = inputs;
    desc.outputs = outputs;
    desc.threads = static_cast<int>(std::clamp<uint32_t>(d.threads, 1, 1024));
  }
};

class CpuMap {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const OwnedDesc owned(d);
    const MapChoice c = choose_map(owned.desc);
    choice.workspace = c.workspace_bytes;
    why = c.kernel + (c.why.empty() ? "" : "; " + c.why);
    return true;
  }
  CpuMap(plait_device*, const plait_op_desc& d) : kernel_(make_map(OwnedDesc(d).desc)) {}
  void run(plait_queue*, void* const* operands, void* workspace) const {
    kernel_->run(operands, workspace);
  }

 private:
  std::unique_ptr<MapKernel> kernel_;
};

}  // namespace

void add_map(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<CpuMap>("fast", "map", kDevice, kFastPriority));
}

}  // namespace plait::cpu
