#include "plugins/devices/cuda/matmul/as_matmul.hpp"

#include <string_view>

#include "kit/op_attrs.hpp"

namespace plait::cuda {

AsMatmul::AsMatmul(const plait_op_desc& d, const plait_shape& a, const plait_shape& b,
                   uint32_t rest, bool transpose_b)
    : inputs_{a, b}, desc_(d), rest_(rest) {
  for (uint32_t i = rest; i < d.n_inputs; ++i) inputs_.push_back(d.inputs[i]);
  attrs_.push_back({"transpose_b", PLAIT_OPT_BOOL, 0, transpose_b, 0, nullptr, nullptr});
  for (const char* name : {"bias", "activation", "accumulate"})
    if (const plait_attr* attr = find_attr(d, name)) attrs_.push_back(*attr);
  desc_.op = "matmul";
  desc_.n_inputs = static_cast<uint32_t>(inputs_.size());
  desc_.n_attrs = static_cast<uint32_t>(attrs_.size());
  desc_.inputs = inputs_.data();
  desc_.attrs = attrs_.data();
  desc_.alias = nullptr;
  choose();
}

void AsMatmul::choose() {
  for (const plait_kernel_item& item : kernels()) {
    if (std::string_view(item.op) != "matmul" || (found() && item.priority <= item_.priority))
      continue;
    char detail[256] = "";
    plait_choice choice{sizeof(plait_choice), 0, detail, sizeof(detail)};
    if (item.select(&desc_, &choice) != 1) continue;
    item_ = item;
    workspace_ = choice.workspace;
    detail_ = detail;
  }
}

uint64_t AsMatmul::a_bytes() const { return kit::bytes(inputs_[0]); }
uint64_t AsMatmul::b_bytes() const { return kit::bytes(inputs_[1]); }

PreparedMatmul AsMatmul::prepare(plait_device* device) const {
  kit::need(found(), "no kernel of matmul takes the product of floats");
  plait_kernel* kernel = nullptr;
  plait::check(item_.prepare(device_of(device).host().raw(), device, &desc_, &kernel));
  PreparedMatmul prepared;
  prepared.item_ = item_;
  prepared.rest_ = rest_;
  prepared.inputs_ = rest_ + desc_.n_inputs - 2;
  prepared.kernel_ = {kernel, item_.release};
  return prepared;
}

void PreparedMatmul::run(plait_queue* queue, void* a, void* b, void* const* operands,
                         void* workspace) const {
  void* inner[4] = {a, b};  // then bias or c, and y
  for (uint32_t i = rest_; i <= inputs_; ++i) inner[2 + i - rest_] = operands[i];
  plait::check(item_.run(kernel_.get(), queue, inner, workspace));
}

}  // namespace plait::cuda
