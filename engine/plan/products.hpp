// What [precision] lets products do on a device that can: precision.tf32, precision.tune and
// precision.library_attention.
#pragma once

#include <plait/device.h>

#include <cstddef>

#include "engine/base/log.hpp"
#include "engine/plan/plan.hpp"

namespace plait::plan {

struct Tf32Products {
  size_t of_f32 = 0;   // products whose operands are f32
  size_t rounded = 0;  // of these products, how many are computed in TF32
};
Tf32Products tf32_products(const Plan& plan);

// Whether a kernel has several algorithms, of which tune() finds the fastest.
bool can_tune(const plait_kernel_item& kernel);

// Warns where one of the three is set and has no effect.
void warn_products(const Plan& plan, Log* log);

}  // namespace plait::plan
