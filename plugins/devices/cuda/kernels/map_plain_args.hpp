// What the kernel map_plain takes.
#pragma once

#include <cstdint>

#include "plugins/devices/cuda/kernels/element.hpp"

namespace plait::cuda {

constexpr int kMapPlainOperands = 20, kMapPlainInstrs = 96, kMapPlainDims = 8;

// An instruction of plait/map.h; registers are numbered as there.
struct MapPlainInstr {
  uint8_t op, a, b, c;
};

struct MapPlainArgs {
  int64_t count;                // elements of an output
  int64_t dims[kMapPlainDims];  // of an output, the last ones first
  // Steps of each input along dims; 0 where it repeats.
  int64_t strides[kMapPlainOperands][kMapPlainDims];
  AnyPointer operands[kMapPlainOperands];  // inputs, then outputs
  double values[kMapPlainInstrs];          // of constants
  MapPlainInstr instrs[kMapPlainInstrs];
  uint8_t outputs[kMapPlainOperands];  // the registers that are stored
  int32_t n_dims, n_inputs, n_instrs, n_outputs;
};

}  // namespace plait::cuda
