// The product of another op as a call of matmul, once its operands are floats of one type.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plugins/devices/cuda/kernels/kernel.hpp"

namespace plait::cuda {

// A prepared kernel of matmul. Empty until it is one.
class PreparedMatmul {
 public:
  PreparedMatmul() = default;
  // a, b: the floats. operands: of the op.
  void run(plait_queue* queue, void* a, void* b, void* const* operands, void* workspace) const;

 private:
  friend class AsMatmul;
  plait_kernel_item item_{};
  uint32_t rest_ = 0, inputs_ = 0;  // see AsMatmul; how many inputs the op has
  std::unique_ptr<plait_kernel, void (*)(plait_kernel*)> kernel_{nullptr, [](plait_kernel*) {}};
};

// The desc of matmul, and the kernel that the engine would take for it. The desc
// points into this object.
class AsMatmul {
 public:
  // a, b: the floats. The inputs of the op from `rest` on are bias or c, as of matmul; its
  // attributes bias, activation and accumulate are passed on.
  AsMatmul(const plait_op_desc& d, const plait_shape& a, const plait_shape& b, uint32_t rest,
           bool transpose_b = true);
  AsMatmul(const AsMatmul&) = delete;
  AsMatmul& operator=(const AsMatmul&) = delete;

  bool found() const { return item_.select != nullptr; }  // a kernel takes it
  uint64_t a_bytes() const;
  uint64_t b_bytes() const;
  uint64_t workspace() const { return workspace_; }  // bytes that the kernel needs
  std::string text() const { return std::string(item_.name) + ": " + detail_; }
  PreparedMatmul prepare(plait_device* device) const;

 private:
  void choose();

  std::vector<plait_shape> inputs_;
  std::vector<plait_attr> attrs_;
  plait_op_desc desc_{};
  uint32_t rest_;
  plait_kernel_item item_{};
  uint64_t workspace_ = 0;
  std::string detail_;  // what its select() answers
};

inline plait_shape with_dtype(plait_shape s, uint32_t dtype) {
  s.dtype = dtype;
  return s;
}

}  // namespace plait::cuda
