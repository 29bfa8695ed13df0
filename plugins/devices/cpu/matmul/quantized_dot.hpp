// Products of many rows of bf16 with quantized weights by the machine's own instructions for bf16:
// the weights of some columns of C at a time become bf16 in the workspace, and these columns are
// made as f32 and rounded once.
#pragma once

#include <memory>

#include "plugins/devices/cpu/matmul/quantized.hpp"

namespace plait::cpu {

struct QuantizedDotArgs {
  const uint16_t* a = nullptr;  // bf16
  const uint8_t* numbers = nullptr;
  const float *scales = nullptr, *bias = nullptr;
  uint16_t* c = nullptr;      // bf16
  void* workspace = nullptr;  // 64-byte aligned
};

// Prepared once; one run at a time.
class QuantizedDot {
 public:
  // Its name and workspace, or an empty name and why it does not take the desc.
  static KernelChoice choose(const QuantizedDesc& desc);
  explicit QuantizedDot(const QuantizedDesc& desc);  // one that choose() takes
  ~QuantizedDot();
  void run(const QuantizedDotArgs& args) const;  // [thread: compute]

 private:
  void widen(const QuantizedDotArgs& args, int64_t first, int64_t columns) const;
  void store(const QuantizedDotArgs& args, int64_t first, int64_t columns) const;
  QuantizedDesc desc_;
  kit::QuantRow row_;
  WidenQuantized widen_;
  std::unique_ptr<MatmulKernel> block_, rest_;  // of most columns, and of the last ones
};

}  // namespace plait::cpu
