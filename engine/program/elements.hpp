// Elements of float tensors in host memory, whatever their type.
#pragma once

#include <plait/tensor.h>

#include <cstdint>

namespace plait::program {

// Element i of f32 or f64 as a double, and back: rounded to nearest. Throws PLAIT_ERR_INTERNAL for
// other types.
double load_element(uint32_t dtype, const void* data, int64_t i);
void store_element(uint32_t dtype, void* data, int64_t i, double v);

// Whether n elements of any type contain no infinity and no NaN; integers are finite.
bool all_finite(uint32_t dtype, const void* data, int64_t n);

}  // namespace plait::program
