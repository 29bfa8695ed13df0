// Weight-decomposed low-rank adaptation (Liu et al. 2024, arXiv:2402.09353).
#pragma once

#include <plait/plugin.hpp>

namespace plait::dora {

plait_peft_item item();

}  // namespace plait::dora
