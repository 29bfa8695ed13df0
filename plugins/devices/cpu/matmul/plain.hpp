// Plain loops for f32 and f64: the last entry of every list, without intrinsics, and the reference
// for the others.
#pragma once

#include "plugins/devices/cpu/matmul/matmul.hpp"

namespace plait::cpu {

// C = act(op(A)*op(B) + bias), as described in MatmulDesc, on one thread. Sums are kept in T, k
// ascending. Instantiated for float and double. [thread: compute] Does not allocate or throw.
template <typename T>
void matmul_plain(const MatmulDesc& desc, const T* a, const T* b, const T* bias, T* c);

// The same for operands of bf16, and a C of bf16 or f32 as the desc says. Sums are kept in double.
void matmul_plain_bf16(const MatmulDesc& desc, const MatmulArgs& args);

// The sum of `count` numbers, and the sum of squares of all of C, in an order that follows from the
// sizes alone.
float plain_sum(const float* values, int64_t count);
float plain_squares(const MatmulDesc& desc, const float* c);

// The value of an activation. Instantiated for float and double.
template <typename T>
T activate_plain(Activation activation, T x);

}  // namespace plait::cpu
