// The checked and simplified form of a plait_map, and the names of its operations.
#pragma once

#include <plait/map.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "kit/dtype.hpp"
#include "plugins/devices/cpu/map/map.hpp"

namespace plait::cpu {

// Same register numbering as plait_map: inputs first, then one register per instruction. No COPY is
// left, every instruction is used, and powers with simple constant exponents are products.
struct Expr {
  uint32_t n_inputs = 0;
  std::vector<plait_map_instr> instrs;
  std::vector<uint32_t> outputs;  // registers

  uint32_t n_registers() const { return n_inputs + static_cast<uint32_t>(instrs.size()); }
};

inline constexpr uint32_t kMapOps = PLAIT_MAP_NOT + 1;

// "add" for PLAIT_MAP_ADD; op < kMapOps.
const char* map_op_name(uint32_t op);
// Number of registers that `op` reads, 0 to 3; op < kMapOps.
int map_op_arity(uint32_t op);

// The registers that an instruction reads.
class Arguments {
 public:
  explicit Arguments(const plait_map_instr& in)
      : registers_{in.a, in.b, in.c}, n_(std::min(map_op_arity(in.op), 3)) {}
  const uint32_t* begin() const { return registers_; }
  const uint32_t* end() const { return registers_ + n_; }

 private:
  uint32_t registers_[3];
  int n_;
};

using kit::dtype_bytes;

// Checks the expression of `desc` and the number and dtypes of its operands. Throws plait::Error
// (PLAIT_ERR_INVALID).
Expr read_expr(const MapDesc& desc);

[[noreturn]] void fail_map(uint32_t code, const std::string& text);

}  // namespace plait::cpu
