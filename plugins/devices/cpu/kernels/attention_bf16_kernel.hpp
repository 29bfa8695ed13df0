// What both kernels of attention on bf16 need where they are registered.
#pragma once

#include "plugins/devices/cpu/kernels/attention_bf16_args.hpp"
#include "plugins/devices/cpu/kernels/attention_kernel.hpp"

namespace plait::cpu {

constexpr int32_t kBlockProductsPriority = 12;  // above f32 and widened

// Whether the machine multiplies bf16 and all operands of attention or its gradient are bf16, but
// the statistics lse; sets `why` otherwise.
inline bool all_bf16_but_lse(const plait_op_desc& d, std::string& why) {
  if (!block_products().multiply) {
    why = "the processor has no AVX512_BF16 or AMX, or PLAIT_BF16_PRODUCTS is 0";
    return false;
  }
  uint32_t others = 0, half = 0;
  for (uint32_t i = 0; i < d.n_inputs + d.n_outputs; ++i) {
    const uint32_t type = (i < d.n_inputs ? d.inputs[i] : d.outputs[i - d.n_inputs]).dtype;
    half += type == PLAIT_BF16;
    others += kit::is_float(type) && type != PLAIT_BF16;
  }
  if (half > 0 && others == 1) return true;  // lse is f32 in every call
  why = "takes bf16 for all operands but lse";
  return false;
}

inline std::string how_bf16() {
  return std::string("blocks of scores by products of bf16 (") + block_products().name + ")";
}

}  // namespace plait::cpu
