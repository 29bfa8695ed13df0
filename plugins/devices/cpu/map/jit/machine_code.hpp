// The executable form of one map, called by the kernel. x86-64 with System V calls only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "plugins/devices/cpu/map/jit/allocate.hpp"

namespace plait::cpu::jit {

inline constexpr int kMaxOperands = 32;

// Arguments of the generated function, which advances the pointers row by row.
struct CallArgs {
  int64_t n, rows;
  void* operands[kMaxOperands];
};

// How the code addresses one operand.
struct OperandAccess {
  Level level = Level::kBody;  // how often an input is read; outputs: kBody
  uint8_t bytes = 4;           // of one element: 1, 2 or 4
  bool is_f16 = false;
  bool is_output = false;
  int64_t row_bytes = 0;  // from one row to the next
};

// Number of vector registers that a program may use.
inline int usable_registers(Isa isa) { return isa == Isa::kAvx512 ? 31 : 14; }
// Number of general registers for operand pointers; AVX2 supports at most this many operands below
// 4 bytes.
inline constexpr int kPointerRegisters = 10;

// Whether this machine and its operating system can run code for `isa`.
bool machine_has(Isa isa);

class Emitter;

class MachineCode {
 public:
  using Function = void (*)(CallArgs*);

  // Throws plait::Error (PLAIT_ERR_INTERNAL) if memory for the code can't be allocated.
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
