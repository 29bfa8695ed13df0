// A map kernel of generated code.
#pragma once

#include <memory>
#include <string>

#include "plugins/devices/cpu/map/expr.hpp"
#include "plugins/devices/cpu/map/jit/lir.hpp"
#include "plugins/devices/cpu/map/layout.hpp"
#include "plugins/devices/cpu/map/map.hpp"

namespace plait::cpu::jit {

// Why `isa` can't compute `desc` on this machine; empty if it can.
std::string refusal(Isa isa, const MapDesc& desc);

// Requires an empty refusal().
std::unique_ptr<MapKernel> make_kernel(Isa isa, const MapDesc& desc, const Expr& expr,
                                       Layout layout);

}  // namespace plait::cpu::jit
