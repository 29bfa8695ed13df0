// Elementary functions as vector-level code, for both instruction sets. Each is accurate to about 2
// ulp over all of f32 (power: 1e-6 relative), with the C library's results for NaN, infinities,
// zeros and denormals.
#pragma once

#include "plugins/devices/cpu/map/jit/lir.hpp"

namespace plait::cpu::jit {

Value exponential(Builder& b, Value x);
Value expm1(Builder& b, Value x);
Value sigmoid(Builder& b, Value x);
Value hyperbolic_tangent(Builder& b, Value x);
Value error_function(Builder& b, Value x);

Value logarithm(Builder& b, Value x);
Value log1p(Builder& b, Value x);
Value power(Builder& b, Value x, Value y);

// Building blocks of the functions above.

// x = n ln2 + r; e_r is e^r - 1.
struct ExpParts {
  Value n, e_r;
};
// `low`: a correction to add to x, small compared with x, or kNoValue.
ExpParts split_exp(Builder& b, Value x, Value low = kNoValue);
// v * 2^n for integral n in [-252, 254], rounded once even if the result is denormal; v in [1/2,
// 2].
Value scale_by_power(Builder& b, Value v, Value n);
// 2^n for integral n in [-126, 127].
Value power_of_two(Builder& b, Value n);
// x = 2^e m, m in [3/4, 3/2), for finite x > 0; undefined for other x.
struct LogParts {
  Value e, m;
};
LogParts split_log(Builder& b, Value x, bool may_be_denormal);

}  // namespace plait::cpu::jit
