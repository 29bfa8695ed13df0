// What the interpreter does per tile, decided once: where each register of the expression lives,
// and in which order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plugins/devices/cpu/map/expr.hpp"
#include "plugins/devices/cpu/map/layout.hpp"

namespace plait::cpu::interp {

// Where a register's elements are while a tile is at work.
struct Home {
  enum Kind : uint8_t {
    kUnused,
    kTile,     // buffer `index`, filled for every tile
    kUniform,  // buffer `index`, one value for the whole run, filled once per thread
    kOperand,  // the memory of operand `index` itself
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
  std::vector<uint32_t> stores;  // outputs that their instruction does not write itself
  uint32_t n_buffers = 0;
};

// dtypes and layout of the operands, inputs then outputs; `native` is the dtype that the arithmetic
// runs in.
TilePlan plan_tiles(const Expr& expr, std::span<const uint32_t> dtypes, const Layout& layout,
                    uint32_t native);

}  // namespace plait::cpu::interp
