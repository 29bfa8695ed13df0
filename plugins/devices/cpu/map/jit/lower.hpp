// Lowers an expression to vector-level code.
#pragma once

#include <span>

#include "plugins/devices/cpu/map/expr.hpp"
#include "plugins/devices/cpu/map/jit/lir.hpp"

namespace plait::cpu::jit {

// dtypes[o] and levels[o] of each operand, inputs then outputs; none is f64 or i64.
Code lower(const Expr& expr, std::span<const uint32_t> dtypes, std::span<const Level> levels,
           Isa isa);

}  // namespace plait::cpu::jit
