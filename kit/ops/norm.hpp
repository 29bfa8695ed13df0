// Normalisation over the last axis: layer_norm and rms_norm, forward and gradient. R.. rows, C
// channels.
#pragma once

#include "kit/ops/rows.hpp"

namespace plait::kit {

inline constexpr plait_option kNormAttrs[] = {
    real_option("eps", "1e-5", "added to the variance before its root is taken"),
};

// Only rewrites give it.
inline constexpr plait_option kNormWrites[] = {kResultType};

struct Norm {
  Rows x;
  double eps = 0;
};
Norm parse_norm(const plait_op_desc& d, bool layer, bool grad);

}  // namespace plait::kit
