#include <cstddef>

#include "plugins/devices/cpu/map/jit/emit.hpp"

namespace plait::cpu::jit {

// `broadcast`: an operand that repeats one element (AVX-512; AVX2 keeps whole vectors).
Xbyak::Address Emitter::frame(const OperandLocation& p, bool broadcast) {
  const int vector = lanes() * 4, single = wide() ? 4 : vector;
  if (p.kind == OperandLocation::kSpill) return ptr[rsp + spills_at_ + p.index * vector];
  if (p.kind == OperandLocation::kSlot) {
    const Xbyak::RegExp at = rsp + slots_at_ + p.index * single;
    return broadcast && wide() ? ptr_b[at] : ptr[at];
  }
  const Xbyak::RegRip at = rip + literals_ + p.index * single;
  return broadcast && wide() ? ptr_b[at] : ptr[at];
}

Xbyak::Address Emitter::staged(int operand) { return ptr[rsp + stage_at_ + operand * lanes() * 4]; }

// A register with the operand's pointer; rsi if there are more operands than registers.
Xbyak::Reg64 Emitter::pointer(int operand) {
  if (pointer_register_[operand] >= 0) return Xbyak::Reg64(pointer_register_[operand]);
  mov(rsi, ptr[rdi + static_cast<int>(offsetof(CallArgs, operands)) + 8 * operand]);
  return rsi;
}

Xbyak::Address Emitter::element(int operand, Spot spot) {
  const int bytes = operands_[operand].bytes;
  if (spot.tail && !wide() && bytes < 4) return staged(operand);
  return ptr[pointer(operand) + rax * bytes + spot.vector * lanes() * bytes];
}

void Emitter::load(const Step& s, Spot spot) {
  const OperandAccess& o = operands_[s.imm];
  if (o.level != Level::kBody) return load_once(o, s.imm, s.to);
  const Xbyak::Address from = element(s.imm, spot);
  if (spot.tail && !wide() && o.bytes == 4) return vmaskmovps(vec(s.to), tail_mask(), from);
  const Xbyak::Xmm to = spot.tail && wide() ? vec(s.to) | k7 | T_z : vec(s.to);
  if (o.bytes == 4) return vmovups(to, from);
  if (o.is_f16) return vcvtph2ps(to, from);
  return o.bytes == 2 ? vpmovzxwd(to, from) : vpmovzxbd(to, from);
}

// Broadcasts one element to all lanes.
void Emitter::load_once(const OperandAccess& o, int operand, int to) {
  mov(rsi, ptr[rdi + static_cast<int>(offsetof(CallArgs, operands)) + 8 * operand]);
  if (o.bytes == 4) return vbroadcastss(vec(to), dword[rsi]);
  const Xbyak::Xmm low(scratch().getIdx());
  o.bytes == 2 ? movzx(esi, word[rsi]) : movzx(esi, byte[rsi]);
  vmovd(low, esi);
  if (!o.is_f16) return vpbroadcastd(vec(to), low);
  vcvtph2ps(low, low);
  vbroadcastss(vec(to), low);
}

void Emitter::store(const Step& s, Spot spot) {
  const OperandAccess& o = operands_[s.imm];
  const Xbyak::Xmm from = vec(s.from[0].index);
  const Xbyak::Address whole = element(s.imm, spot);
  if (wide()) {
    const Xbyak::Address to = spot.tail ? whole | k7 : whole;
    if (o.bytes == 4) return vmovups(to, from);
    if (o.is_f16) return vcvtps2ph(to, from, 0);
    return o.bytes == 2 ? vpmovdw(to, from) : vpmovdb(to, from);
  }
  if (o.bytes == 4) return spot.tail ? vmaskmovps(whole, tail_mask(), from) : vmovups(whole, from);
  if (o.is_f16) return vcvtps2ph(whole, from, 0);
  const Xbyak::Ymm packed(scratch().getIdx());
  const Xbyak::Xmm low(scratch().getIdx());
  vpackusdw(packed, Xbyak::Ymm(from.getIdx()), Xbyak::Ymm(from.getIdx()));
  vpermq(packed, packed, 0x08);
  if (o.bytes == 2) return vmovups(whole, low);
  vpackuswb(low, low, low);
  vmovq(whole, low);
}

// AVX2 has no masked access to elements below 4 bytes: the last elements of a row are copied
// through the frame, one by one.
void Emitter::stage(bool outputs) {
  for (size_t i = 0; i < operands_.size(); ++i) {
    const OperandAccess& o = operands_[i];
    if (o.level != Level::kBody || o.bytes == 4 || o.is_output != outputs) continue;
    const Xbyak::Reg64 base = pointer(static_cast<int>(i));
    Xbyak::Label next;
    mov(ptr[rsp + 8], rax);
    // Sets rsi so that [rsi + rax * bytes] is the element's place in the frame.
    mov(rsi, rax);
    neg(rsi);
    lea(rsi, ptr[rsp + rsi * o.bytes + stage_at_ + static_cast<int>(i) * lanes() * 4]);
    L(next);
    const auto in_row = base + rax * o.bytes, in_frame = rsi + rax * o.bytes;
    const auto &from = outputs ? in_frame : in_row, &to = outputs ? in_row : in_frame;
    if (o.bytes == 2) {
      movzx(edx, word[from]);
      mov(word[to], dx);
    } else {
      movzx(edx, byte[from]);
      mov(byte[to], dl);
    }
    inc(rax);
    cmp(rax, rcx);
    jl(next);
    mov(rax, ptr[rsp + 8]);
  }
}

}  // namespace plait::cpu::jit
