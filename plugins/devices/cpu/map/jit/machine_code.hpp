// The executable form of one map: what the kernel calls. x86-64 with System V calls only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "plugins/devices/cpu/map/jit/allocate.hpp"

namespace plait::cpu::jit {

inline constexpr int kMaxOperands = 32;

// What the generated function gets. It moves the pointers as it walks the rows.
struct CallArgs {
  int64_t n, rows;
  void* operands[kMaxOperands];
};

// How the code reaches one operand.
struct OperandAccess {
  Level level = Level::kBody;  // how often an input is read; outputs: kBody
  uint8_t bytes = 4;           // of an element: 1, 2 or 4
  bool is_f16 = false;
  bool is_output = false;
  int64_t row_bytes = 0;  // from one row to the next
};

// Vector registers that a program may use.
inline int usable_registers(Isa isa) { return isa == Isa::kAvx512 ? 31 : 14; }
// General registers that hold operand pointers; AVX2 takes at most this many operands below 4
// bytes.
inline constexpr int kPointerRegisters = 10;

// Whether this machine and its system run code for `isa`.
bool machine_has(Isa isa);

class Emitter;

class MachineCode {
 public:
  using Function = void (*)(CallArgs*);

  // Throws plait::Error (PLAIT_ERR_INTERNAL) when memory for code can't be had.
  MachineCode(const Program& program, std::span<const OperandAccess> operands, Isa isa,
              bool many_rows);
  ~MachineCode();
  MachineCode(const MachineCode&) = delete;
  MachineCode& operator=(const MachineCode&) = delete;

  Function function() const { return function_; }

 private:
  std::unique_ptr<Emitter> emitter_;
  Function function_ = nullptr;
};

}  // namespace plait::cpu::jit
