// Shapes inside the engine: plait_shape plus the small arithmetic that rules need.
#pragma once

#include <plait/tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kit/shape.hpp"

namespace plait::program {

using Dims = std::vector<int64_t>;

// Bytes of one element; throws PLAIT_ERR_INVALID for an unknown type.
uint64_t dtype_bytes(uint32_t dtype);
using kit::dtype_name;
using kit::is_float;
// The type in which many elements of a float type are added up: f64 for f64, f32 for all others.
uint32_t accumulation_dtype(uint32_t dtype);
// Bytes of n elements, overflow-checked.
uint64_t bytes_of(int64_t n, uint32_t dtype);

// Throws when there are more than PLAIT_MAX_NDIM extents, or a negative one.
plait_shape make_shape(uint32_t dtype, const Dims& dims);
Dims dims_of(const plait_shape& s);
// Overflow-checked products.
int64_t elements(const plait_shape& s);
uint64_t bytes(const plait_shape& s);
using kit::same;
using kit::same_dims;
using kit::text;

// The common shape of two operands, aligned right; `where` opens the message when they do not fit.
Dims broadcast(const plait_shape& a, const plait_shape& b, const std::string& where);

}  // namespace plait::program
