// Principal singular values and vectors adaptation (Meng et al. 2024, arXiv:2404.02948).
#pragma once

#include <plait/plugin.hpp>

namespace plait::pissa {

plait_peft_item item();

}  // namespace plait::pissa
