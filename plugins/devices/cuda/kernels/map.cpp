// map compiled for its expression, types and shapes, at run time (map/); interpreted where NVRTC is
// missing.
#include <optional>

#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/devices/cuda/kernels/map_plain.hpp"
#include "plugins/devices/cuda/map/programs.hpp"

namespace plait::cuda {
namespace {

class FastMap {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    why = map::refusal(d);
    if (!why.empty()) return false;
    std::string plain;
    if (!PlainMap::select(d, choice, plain)) {  // it sets the workspace
      why = plain;
      return false;
    }
    why = "generated code";
    return true;
  }

  FastMap(plait_device* device, const plait_op_desc& d) {
    if (kit::elements(d.outputs[0]) == 0) return;
    auto& programs = device_of(device).shared<map::Programs>();
    const map::Source source = map::generate(d);
    kernel_ = programs.kernel(source);
    if (!kernel_.valid()) {
      plain_.emplace(device, d);
      return;
    }
    call_ = source.call;
  }

  void run(plait_queue* queue, void* const* operands, void* workspace) const {
    if (plain_) return plain_->run(queue, operands, workspace);
    if (call_.count == 0) return;
    const map::Arguments a = call_.arguments(operands);
    // It may still be compiled: waits for that, the first time.
    Function(kernel_.get(), "a map").launch(queue, {call_.blocks(a)}, map::kBlock, a);
  }

 private:
  std::optional<PlainMap> plain_;
  map::Kernel kernel_;
  map::Call call_;
};

}  // namespace

void add_map(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<FastMap>("fast", "map", "cuda", 10));
}

}  // namespace plait::cuda
