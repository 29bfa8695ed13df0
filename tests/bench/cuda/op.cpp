#include "tests/bench/cuda/op.hpp"

#include <algorithm>
#include <stdexcept>

#include "kit/dtype.hpp"

namespace cuda_bench {

using conformance::bytes_of;
using conformance::check;

Op::Op(Lab& lab, const conformance::Case& c, bool plain)
    : lab_(lab), case_(c), desc_(case_, 1, !case_.in_place.empty()) {
  const auto& device = lab.device();
  for (const auto* item : device.plugin().kernels(c.op)) {
    const auto chosen = conformance::select(*item, desc_);
    if (!chosen.taken) continue;
    item_ = item;
    detail_ = std::string(item->name) + ": " + chosen.detail;
    workspace_ = chosen.workspace;
    break;
  }
  if (!item_ || (item_->priority == 0 && !plain))
    throw std::runtime_error("no fast kernel takes it");
  check(item_->prepare(device.plugin().host(), device.get(), &desc_.get(), &kernel_));
}

Op::~Op() { item_->release(kernel_); }

double Op::bytes() const {
  uint64_t sum = 0;
  for (const auto& in : case_.inputs) sum += bytes_of(in.shape);
  for (const auto& out : case_.outputs) sum += bytes_of(out);
  return static_cast<double>(sum);
}

// What is written lies in the pool of results, so that inputs remain what they were.
void Op::enqueue() {
  std::vector<void*> operands;
  for (size_t i = 0; i < case_.inputs.size(); ++i) {
    const plait_shape& s = case_.inputs[i].shape;
    const bool written =
        std::find(case_.in_place.begin(), case_.in_place.end(), i) != case_.in_place.end();
    Pool& from = written                         ? lab_.results()
                 : plait::kit::is_float(s.dtype) ? lab_.floats()
                                                 : lab_.integers();
    operands.push_back(from.take(bytes_of(s)));
  }
  for (size_t i = 0; i < case_.outputs.size(); ++i) {
    const int32_t on = i < case_.in_place.size() ? case_.in_place[i] : -1;
    operands.push_back(on < 0 ? lab_.results().take(bytes_of(case_.outputs[i]))
                              : operands[static_cast<size_t>(on)]);
  }
  check(lab_.device().item().enqueue(lab_.device().queue(), item_, kernel_, operands.data(),
                                     static_cast<uint32_t>(operands.size()),
                                     lab_.workspace(workspace_)));
}

}  // namespace cuda_bench
