// map: an interpreter of the expression, a thread for each element, in double. All inputs of an
// element are read before an output is written, so an output may lie on an input.
#include "plugins/devices/cuda/kernels/device.cuh"

#include <plait/map.h>

#include "plugins/devices/cuda/kernels/map_plain_args.hpp"

namespace plait::cuda {
namespace {

__device__ double truth(bool b) { return b ? 1 : 0; }

__device__ double evaluate(const MapPlainInstr& in, double value, const double* r) {
  if (in.op == PLAIT_MAP_CONST) return value;
  const double a = r[in.a], b = r[in.b];
  switch (in.op) {
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
      return truth(a < b);
    case PLAIT_MAP_LE:
      return truth(a <= b);
    case PLAIT_MAP_EQ:
      return truth(a == b);
    case PLAIT_MAP_SELECT:
      return a != 0 ? b : r[in.c];
    case PLAIT_MAP_FMA:
      return a * b + r[in.c];
    case PLAIT_MAP_EXPM1:
      return expm1(a);
    case PLAIT_MAP_LOG1P:
      return log1p(a);
    case PLAIT_MAP_IS_FINITE:
      return truth(isfinite(a));
    case PLAIT_MAP_AND:
      return truth(a != 0 && b != 0);
    case PLAIT_MAP_OR:
      return truth(a != 0 || b != 0);
    default:
      return truth(a == 0);  // NOT
  }
}

// Where input i has element e of an output.
__device__ int64_t offset_of(const MapPlainArgs& a, int i, int64_t e) {
  int64_t at = 0;
  for (int d = 0; d + 1 < a.n_dims; ++d) {
    const int64_t rest = e / a.dims[d];
    at += (e - rest * a.dims[d]) * a.strides[i][d];
    e = rest;
  }
  return a.n_dims > 0 ? at + e * a.strides[i][a.n_dims - 1] : 0;
}

}  // namespace

PLAIT_GLOBAL(map_plain, MapPlainArgs, 256) {
  const int64_t e = thread_index();
  if (e >= a.count) return;
  double r[kMapPlainOperands + kMapPlainInstrs];
  for (int i = 0; i < a.n_inputs; ++i) r[i] = get(a.operands[i], offset_of(a, i, e));
  for (int i = 0; i < a.n_instrs; ++i) r[a.n_inputs + i] = evaluate(a.instrs[i], a.values[i], r);
  for (int i = 0; i < a.n_outputs; ++i) set(a.operands[a.n_inputs + i], e, r[a.outputs[i]]);
}

}  // namespace plait::cuda
