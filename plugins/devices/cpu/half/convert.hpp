// Conversion of many elements between f32 and the 16-bit floats, in vectors.
#pragma once

#include <cstdint>

namespace plait::cpu {

// n elements from `from` on. dtype: PLAIT_BF16 or PLAIT_F16. [thread: any]
using WidenFunction = void (*)(const uint16_t* from, float* to, int64_t n);
using NarrowFunction = void (*)(const float* from, uint16_t* to, int64_t n);
WidenFunction widen_function(uint32_t dtype);
NarrowFunction narrow_function(uint32_t dtype);  // rounds to nearest even

}  // namespace plait::cpu
