#include "plugins/devices/cpu/map/jit/emit.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>

#include "plugins/devices/cpu/map/expr.hpp"

namespace plait::cpu::jit {
namespace {

// r8..r15, rbx, rbp
constexpr int kPointers[kPointerRegisters] = {8, 9, 10, 11, 12, 13, 14, 15, 3, 5};
constexpr int kSaved[] = {3, 5, 12, 13, 14, 15};  // callee-saved registers

constexpr int kOffsetN = offsetof(CallArgs, n);
constexpr int kOffsetRows = offsetof(CallArgs, rows);
constexpr int kOffsetOperands = offsetof(CallArgs, operands);

int unroll_of(size_t steps) { return steps <= 8 ? 4 : steps <= 24 ? 2 : 1; }

size_t code_bytes(const Program& p) {
  const size_t copies = p.body.size() * (2 + unroll_of(p.body.size()));
  const size_t all =
      copies + p.call.size() + p.row.size() + p.call_hoists.size() + p.row_hoists.size();
  return 8192 + 48 * all + 32 * p.literals.size();
}

}  // namespace

Emitter::Emitter(const Program& program, std::span<const OperandAccess> operands, Isa isa,
                 bool many_rows)
    : Xbyak::CodeGenerator(code_bytes(program), Xbyak::DontSetProtectRWE),
      program_(program),
      operands_(operands),
      isa_(isa),
      many_rows_(many_rows) {
  emit();
  setProtectModeRE();
}

void Emitter::emit() {
  assign_pointers();
  prologue();
  mov(rcx, ptr[rdi + kOffsetN]);
  make_tail_mask();
  steps(program_.call, {});
  steps(program_.call_hoists, {});
  Xbyak::Label row;
  align(32);
  L(row);
  load_pointers();
  steps(program_.row, {});
  steps(program_.row_hoists, {});
  row_loops();
  if (many_rows_) {
    advance_row();
    dec(qword[rdi + kOffsetRows]);
    jnz(row, T_NEAR);
  }
  epilogue();
  data();
}

void Emitter::assign_pointers() {
  // Narrow operands first: staging their tails (AVX2) needs the pointer in a register.
  pointer_register_.assign(operands_.size(), -1);
  int used = 0;
  for (const bool narrow : {true, false})
    for (size_t o = 0; o < operands_.size() && used < kPointerRegisters; ++o)
      if (operands_[o].level == Level::kBody && (operands_[o].bytes < 4) == narrow)
        pointer_register_[o] = kPointers[used++];
}

void Emitter::prologue() {
  const int vector = lanes() * 4;
  slots_at_ = 64;  // below: the caller's rsp, and the element index while a tail is staged
  spills_at_ = (slots_at_ + program_.n_slots * (wide() ? 4 : vector) + 63) / 64 * 64;
  stage_at_ = spills_at_ + program_.n_spills * vector;
  frame_bytes_ =
      (stage_at_ + (wide() ? 0 : static_cast<int>(operands_.size()) * vector) + 63) / 64 * 64;
  for (int r : kSaved) push(Xbyak::Reg64(r));
  mov(rsi, rsp);
  sub(rsp, frame_bytes_ + 64);
  and_(rsp, -64);
  mov(ptr[rsp], rsi);
}

void Emitter::epilogue() {
  vzeroupper();
  mov(rsp, ptr[rsp]);
  for (int i = static_cast<int>(std::size(kSaved)); i-- > 0;) pop(Xbyak::Reg64(kSaved[i]));
  ret();
}

void Emitter::make_tail_mask() {
  mov(edx, ecx);
  and_(edx, lanes() - 1);
  if (wide()) {
    mov(esi, -1);
    bzhi(esi, esi, edx);
    kmovw(k7, esi);
  } else {
    lea(rsi, ptr[rip + mask_table_]);
    neg(rdx);
    vmovups(tail_mask(), ptr[rsi + rdx * 4 + 32]);
  }
}

void Emitter::load_pointers() {
  for (size_t o = 0; o < operands_.size(); ++o)
    if (pointer_register_[o] >= 0)
      mov(Xbyak::Reg64(pointer_register_[o]), ptr[rdi + kOffsetOperands + 8 * static_cast<int>(o)]);
}

void Emitter::row_loops() {
  const int unroll = unroll_of(program_.body.size());
  xor_(eax, eax);
  for (const int copies : {unroll, 1}) {
    Xbyak::Label top, done;
    lea(rdx, ptr[rcx - copies * lanes()]);
    cmp(rax, rdx);
    jg(done, T_NEAR);
    align(32);
    L(top);
    for (int i = 0; i < copies; ++i) steps(program_.body, {i, false});
    add(rax, copies * lanes());
    cmp(rax, rdx);
    jle(top, T_NEAR);
    L(done);
    if (unroll == 1) break;
  }
  Xbyak::Label end;
  cmp(rax, rcx);
  jge(end, T_NEAR);
  tail();
  L(end);
}

void Emitter::tail() {
  const bool staged = !wide() && std::any_of(operands_.begin(), operands_.end(), [](const auto& o) {
    return o.level == Level::kBody && o.bytes < 4;
  });
  if (staged) stage(false);
  steps(program_.body, {0, true});
  if (staged) stage(true);
}

void Emitter::advance_row() {
  for (size_t o = 0; o < operands_.size(); ++o) {
    const int64_t step = operands_[o].row_bytes;
    if (step == 0) continue;
    const auto where = qword[rdi + kOffsetOperands + 8 * static_cast<int>(o)];
    if (step <= std::numeric_limits<int32_t>::max()) {
      add(where, static_cast<uint32_t>(step));
    } else {
      mov(rsi, step);
      add(where, rsi);
    }
  }
}

void Emitter::data() {
  align(64);
  L(literals_);
  for (uint32_t bits : program_.literals)
    for (int i = 0; i < (wide() ? 1 : lanes()); ++i) dd(bits);
  if (wide()) return;
  // Loading eight lanes from 8 - r before the middle gives a mask of r lanes.
  L(mask_table_);
  for (int i = 0; i < 16; ++i) dd(i < 8 ? 0xffffffffu : 0u);
}

MachineCode::MachineCode(const Program& program, std::span<const OperandAccess> operands, Isa isa,
                         bool many_rows) {
  try {
    emitter_ = std::make_unique<Emitter>(program, operands, isa, many_rows);
    function_ = emitter_->function();
  } catch (const Xbyak::Error& e) {
    fail_map(PLAIT_ERR_INTERNAL, std::string("the code generator failed: ") + e.what());
  }
}

MachineCode::~MachineCode() = default;

}  // namespace plait::cpu::jit
