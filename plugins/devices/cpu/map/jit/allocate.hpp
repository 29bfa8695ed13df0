// Registers for vector-level code: turns each loop level into a list of machine steps whose
// operands are registers or memory. The code is straight-line, so eviction of the value needed
// furthest ahead is as good as it gets.
#pragma once

#include <vector>

#include "plugins/devices/cpu/map/jit/lir.hpp"

namespace plait::cpu::jit {

// Where a step finds an operand. Literals and slots (values of an outer level) hold one element
// that is broadcast; spills are whole vectors of the frame.
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
  uint8_t imm = 0;          // kCompute: as the node's; kStore: operand
  int16_t to = 0;           // register; kSpill and kSaveSlot: index in the frame
  OperandLocation from[4];  // sources
};

// One code section per level, plus the registers that hold outer values through the body.
struct Program {
  std::vector<Step> call, row, body;
  std::vector<Step> call_hoists, row_hoists;  // moves into held registers
  std::vector<uint32_t> literals;             // bits, by OperandLocation::index
  int n_slots = 0, n_spills = 0;
};

// `registers`: how many the code may use, at least 8.
Program allocate(const Code& code, int registers);

}  // namespace plait::cpu::jit
