// A map as an interpreted expression over cache-sized tiles.
#pragma once

#include <memory>

#include "plugins/devices/cpu/map/expr.hpp"
#include "plugins/devices/cpu/map/layout.hpp"
#include "plugins/devices/cpu/map/map.hpp"

namespace plait::cpu::interp {

std::unique_ptr<MapKernel> make_kernel(const MapDesc& desc, const Expr& expr, Layout layout);

}  // namespace plait::cpu::interp
