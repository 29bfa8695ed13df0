// Machine code of one map: vector-level steps to x86-64 (System V), for vectors of 8 (AVX2) or 16
// (AVX-512) f32.
//
// Registers: rdi holds the arguments, rax the element in the row, rcx the row's length; rdx and rsi
// are free; the other ten hold operand pointers. The highest vector register is scratch; AVX2 keeps
// the tail mask in the one below, AVX-512 in k7.
#pragma once

#include <xbyak/xbyak.h>

#include <span>
#include <vector>

#include "plugins/devices/cpu/map/jit/machine_code.hpp"

namespace plait::cpu::jit {

class Emitter : private Xbyak::CodeGenerator {
 public:
  // Uses `program` and `operands` until it returns. Throws Xbyak::Error if memory for the code
  // can't be allocated.
  Emitter(const Program& program, std::span<const OperandAccess> operands, Isa isa, bool many_rows);

  MachineCode::Function function() const { return getCode<MachineCode::Function>(); }

 private:
  // The position in the row of the vector that a copy of the body processes.
  struct Spot {
    int vector = 0;
    bool tail = false;
  };

  // Loops (emit.cpp).
  void emit();
  void prologue();
  void epilogue();
  void make_tail_mask();
  void assign_pointers();
  void load_pointers();
  void row_loops();
  void tail();
  void advance_row();
  void data();

  // Arithmetic (emit_step.cpp).
  void steps(const std::vector<Step>& list, Spot spot);
  void compute(const Step& s);
  void multiply_add(const Step& s);
  void select(const Step& s);
  void move(int to, OperandLocation from);

  // Operands (emit_memory.cpp).
  void load(const Step& s, Spot spot);
  void load_once(const OperandAccess& o, int operand, int to);
  void store(const Step& s, Spot spot);
  void stage(bool outputs);
  Xbyak::Address element(int operand, Spot spot);
  Xbyak::Reg64 pointer(int operand);
  Xbyak::Address frame(const OperandLocation& p, bool broadcast);
  Xbyak::Address staged(int operand);

  bool wide() const { return isa_ == Isa::kAvx512; }
  int lanes() const { return wide() ? 16 : 8; }
  Xbyak::Xmm vec(int i) const {
    return Xbyak::Xmm(wide() ? Xbyak::Operand::ZMM : Xbyak::Operand::YMM, i);
  }
  Xbyak::Xmm scratch() const { return vec(wide() ? 31 : 15); }
  Xbyak::Xmm tail_mask() const { return vec(14); }

  const Program& program_;
  std::span<const OperandAccess> operands_;
  const Isa isa_;
  const bool many_rows_;
  std::vector<int> pointer_register_;  // number of the general register, or -1
  int slots_at_ = 0, spills_at_ = 0, stage_at_ = 0, frame_bytes_ = 0;
  Xbyak::Label literals_, mask_table_;
};

}  // namespace plait::cpu::jit
