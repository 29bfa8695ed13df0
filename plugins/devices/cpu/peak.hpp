// The limit of the arithmetic: products on registers only.
#pragma once

#include <cstdint>

namespace plait::cpu {

// Multiplications and additions per second of `threads` threads together, for products of operands
// of `dtype`; 0 for types without products. bf16 counts by the products of tiles of AMX
// or the dot instruction of AVX512_BF16, if the machine has them, other 16-bit types as f32. Each
// thread's best of many short rounds counts, since a limit must be free of disturbances; some
// milliseconds, once per process, type and number of threads. [thread: compute]
double measured_peak(uint32_t dtype, uint32_t threads);

}  // namespace plait::cpu
