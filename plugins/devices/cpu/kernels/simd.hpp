// Vectorised kernels, the part that is compiled once: picking a function, and texts for select().
#pragma once

#include <hwy/highway.h>

#include <string>

#include "kit/dtype.hpp"

namespace plait::cpu {

// "avx512", "avx2", ...: for the texts of select().
inline const char* simd_name() {
  const auto targets = hwy::SupportedTargets();
  if (targets & (HWY_AVX3 | HWY_AVX3_DL)) return "simd avx512";
  if (targets & HWY_AVX2) return "simd avx2";
  if (targets & HWY_SSE4) return "simd sse4";
  return "simd";
}

// 1 when all operands are f32 or integers; else sets `why`.
inline bool all_f32(const plait_op_desc& d, std::string& why) {
  for (uint32_t i = 0; i < d.n_inputs + d.n_outputs; ++i) {
    const uint32_t type = (i < d.n_inputs ? d.inputs[i] : d.outputs[i - d.n_inputs]).dtype;
    if (kit::is_float(type) && type != PLAIT_F32) {
      why = std::string("takes f32 only, found ") + kit::dtype_name(type);
      return false;
    }
  }
  return true;
}

inline std::string variant(const std::string& what, int num_threads) {
  return std::string(simd_name()) + ", " + what +
         (num_threads > 1 ? ", " + std::to_string(num_threads) + " threads" : "");
}

}  // namespace plait::cpu

// The function exported with HWY_EXPORT for this machine, as a plain pointer.
#define PLAIT_PICK(function) \
  (hwy::GetChosenTarget().Update(hwy::SupportedTargets()), &HWY_DYNAMIC_DISPATCH(function))
