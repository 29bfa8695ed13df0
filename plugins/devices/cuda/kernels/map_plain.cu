// map: an interpreter of the expression, a thread for each element, in double. All inputs of an
// element are read before an output is written, so an output may lie on an input.
#include "plugins/devices/cuda/kernels/device.cuh"

#include "kit/ops/map_element.hpp"
#include "plugins/devices/cuda/kernels/map_plain_args.hpp"

namespace plait::cuda {
namespace {

// Operands that an instruction does not have are register 0.
__device__ double evaluate(const MapPlainInstr& in, double value, const double* r) {
  return kit::map_element(in.op, value, r[in.a], r[in.b], r[in.c]);
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
