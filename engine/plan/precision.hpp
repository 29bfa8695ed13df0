// The element types of a plan's values, by what they are for. They follow from [precision] of the
// experiment.
#pragma once

#include <plait/tensor.h>

#include <cstdint>
#include <string>

#include "engine/config/experiment.hpp"

namespace plait::plan {

// Of optimizer states with Precision::low_states.
inline constexpr uint32_t kLowState = PLAIT_BF16;

struct Precision {
  uint32_t compute = PLAIT_F32;    // floats from data, and parameters, as layers are traced
  uint32_t parameter = PLAIT_F32;  // parameters as they are kept, and as optimizers see them
  uint32_t gradient = PLAIT_F32;   // sums over micro-batches and replicas
  uint32_t state = PLAIT_F32;      // of optimizers
  uint32_t scalar = PLAIT_F32;     // losses, weights of samples, norms, learning rates, metrics
  // Mixed precision: what products and attention read and write; see program/precision.hpp. 0: off.
  uint32_t low = 0;
  bool low_residual = false;  // so is the residual stream
  // So are parameters of two or more dimensions, which then are kept in no other type: updates are
  // rounded, see round_weights.hpp.
  bool low_weights = false;
  bool low_frozen = false;  // the same of frozen ones, which nothing updates
  // So are optimizer states of the shape of a parameter of two or more dimensions: kLowState.
  bool low_states = false;
  std::string
      frozen_format;       // frozen weights of products are numbers of 8 or 4 bits; "": they stay
  bool tf32 = false;       // products of f32 are computed in TF32 where the device can
  bool libraries = false;  // attention is computed by a library of the device where one can
  // Parameters that have copies of that type lie in two halves, see halves.hpp.
  bool split = false;
  bool is_mixed() const { return low != 0; }
  uint32_t products() const { return is_mixed() ? low : compute; }  // type of their operands
  uint32_t parameter_of(uint32_t ndim, bool frozen) const {
    return ndim >= 2 && (frozen ? low_frozen : low_weights) ? low : parameter;
  }
};

// Throws PLAIT_ERR_CONFIG for a type that layers cannot compute in.
Precision precision_of(const config::PrecisionConfig& config);

}  // namespace plait::plan
