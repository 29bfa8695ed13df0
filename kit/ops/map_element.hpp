// What an instruction of an expression makes of numbers, in double: the same text for the host and
// for kernels of a GPU.
#pragma once

#include <math.h>
#include <plait/map.h>
#include <stdint.h>

#ifdef __CUDACC__
#define PLAIT_EVERYWHERE __host__ __device__
#else
#define PLAIT_EVERYWHERE
#endif

namespace plait::kit {

PLAIT_EVERYWHERE inline double map_truth(bool b) { return b ? 1 : 0; }

// op: PLAIT_MAP_*, which check_map() accepts; value: of a constant; a, b, c: the operands, of which
// an instruction reads as many as map_arity() says.
PLAIT_EVERYWHERE inline double map_element(uint32_t op, double value, double a, double b,
                                           double c) {
  switch (op) {
    case PLAIT_MAP_CONST:
      return value;
    case PLAIT_MAP_COPY:
      return a;
    case PLAIT_MAP_ADD:
      return a + b;
    case PLAIT_MAP_SUB:
      return a - b;
    case PLAIT_MAP_MUL:
      return a * b;
    case PLAIT_MAP_DIV:
      return a / b;
    case PLAIT_MAP_MAX:
      return isnan(a) || a >= b ? a : b;
    case PLAIT_MAP_MIN:
      return isnan(a) || a <= b ? a : b;
    case PLAIT_MAP_POW:
      return pow(a, b);
    case PLAIT_MAP_NEG:
      return -a;
    case PLAIT_MAP_ABS:
      return fabs(a);
    case PLAIT_MAP_EXP:
      return exp(a);
    case PLAIT_MAP_LOG:
      return log(a);
    case PLAIT_MAP_SQRT:
      return sqrt(a);
    case PLAIT_MAP_RSQRT:
      return 1 / sqrt(a);
    case PLAIT_MAP_RECIP:
      return 1 / a;
    case PLAIT_MAP_TANH:
      return tanh(a);
    case PLAIT_MAP_SIGMOID:
      return 1 / (1 + exp(-a));
    case PLAIT_MAP_ERF:
      return erf(a);
    case PLAIT_MAP_RELU:
      return a < 0 ? 0 : a;
    case PLAIT_MAP_FLOOR:
      return floor(a);
    case PLAIT_MAP_SIGN:
      return a > 0 ? 1 : a < 0 ? -1 : a;
    case PLAIT_MAP_LT:
      return map_truth(a < b);
    case PLAIT_MAP_LE:
      return map_truth(a <= b);
    case PLAIT_MAP_EQ:
      return map_truth(a == b);
    case PLAIT_MAP_SELECT:
      return a != 0 ? b : c;
    case PLAIT_MAP_FMA:
      return a * b + c;
    case PLAIT_MAP_EXPM1:
      return expm1(a);
    case PLAIT_MAP_LOG1P:
      return log1p(a);
    case PLAIT_MAP_IS_FINITE:
      return map_truth(isfinite(a));
    case PLAIT_MAP_AND:
      return map_truth(a != 0 && b != 0);
    case PLAIT_MAP_OR:
      return map_truth(a != 0 || b != 0);
    default:
      return map_truth(a == 0);  // NOT
  }
}

#undef PLAIT_EVERYWHERE

}  // namespace plait::kit
