// Register allocation for vector-level code: turns each loop level into a list of machine steps
// whose operands are registers or memory. For straight-line code, evicting the value whose next use
// is furthest away is optimal.
#pragma once

#include <vector>

#include "plugins/devices/cpu/map/jit/lir.hpp"

namespace plait::cpu::jit {

// The location of a step's operand. Literals and slots (values of an outer level) hold one element
// that is broadcast; spills are whole vectors in the frame.
struct OperandLocation {
  enum Kind : uint8_t { kNone, kRegister, kSpill, kLiteral, kSlot, kZero };
  Kind kind = kNone;
  int16_t index = 0;

  bool in_register() const { return kind == kRegister; }
  bool in_memory() const { return kind == kSpill || kind == kLiteral || kind == kSlot; }
};

struct Step {
  enum Kind : uint8_t { kCompute, kMove, kSpill, kSaveSlot, kStore };
  Kind kind = kCompute;
  Vop op = Vop::kLit;       // kCompute
  uint8_t imm = 0;          // kCompute: immediate of the node; kStore: operand
  int16_t to = 0;           // register; kSpill and kSaveSlot: index in the frame
  OperandLocation from[4];  // sources
};

// One code section per level, plus the registers that hold outer values during the body.
struct Program {
  std::vector<Step> call, row, body;
  std::vector<Step> call_hoists, row_hoists;  // moves into held registers
  std::vector<uint32_t> literals;             // bits, by OperandLocation::index
  int n_slots = 0, n_spills = 0;
};

// `registers`: number of registers the code may use, at least 8.
Program allocate(const Code& code, int registers);

}  // namespace plait::cpu::jit
