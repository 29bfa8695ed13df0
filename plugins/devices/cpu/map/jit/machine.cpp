#include "plugins/devices/cpu/map/jit/machine_code.hpp"

#if defined(__x86_64__) && !defined(_WIN32)
#define PLAIT_CAN_RUN_GENERATED_CODE
#include <cpuid.h>
#endif

namespace plait::cpu::jit {

bool machine_has([[maybe_unused]] Isa isa) {
#ifdef PLAIT_CAN_RUN_GENERATED_CODE
  if (isa == Isa::kAvx512)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("bmi2");
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return false;
  // Not every compiler's list of features includes f16c. Detection is slow on virtual machines, so
  // it runs once.
  static const bool f16c = [] {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
  }();
  return f16c;
#else
  return false;
#endif
}

}  // namespace plait::cpu::jit
