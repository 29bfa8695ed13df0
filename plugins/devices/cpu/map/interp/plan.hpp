// The interpreter's plan for a tile, made once: the location of each register of the expression,
// and the order of the instructions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plugins/devices/cpu/map/expr.hpp"
#include "plugins/devices/cpu/map/layout.hpp"

namespace plait::cpu::interp {

// Location of a register's elements while a tile is computed.
struct Home {
  enum Kind : uint8_t {
    kUnused,
    kTile,     // buffer `index`, filled for every tile
    kUniform,  // buffer `index`, one value for the whole run, filled once per thread
    kOperand,  // memory of operand `index` itself
  };
  Kind kind = kUnused;
  uint32_t index = 0;
};

struct Instruction {
  plait_map_instr what;
  uint32_t to;  // register
};

struct TilePlan {
  std::vector<Home> homes;                    // by register
  std::vector<uint32_t> uniform_inputs;       // registers to fill once
  std::vector<uint32_t> tile_inputs;          // registers to gather or convert for every tile
  std::vector<Instruction> once, every_tile;  // constants are in `once`
  std::vector<uint32_t> stores;               // outputs that need a separate store
  uint32_t n_buffers = 0;
};

// dtypes and layout of the operands, inputs then outputs; `native` is the dtype of the arithmetic.
TilePlan plan_tiles(const Expr& expr, std::span<const uint32_t> dtypes, const Layout& layout,
                    uint32_t native);

}  // namespace plait::cpu::interp
