#include "plugins/devices/cpu/map/expr.hpp"
#include "plugins/devices/cpu/map/jit/emit.hpp"

namespace plait::cpu::jit {

void Emitter::steps(const std::vector<Step>& list, Spot spot) {
  for (const Step& s : list) {
    switch (s.kind) {
      case Step::kMove:
        move(s.to, s.from[0]);
        break;
      case Step::kSpill:
        vmovaps(frame({OperandLocation::kSpill, s.to}, false), vec(s.from[0].index));
        break;
      case Step::kSaveSlot:
        if (wide()) {
          vmovss(frame({OperandLocation::kSlot, s.to}, false), Xbyak::Xmm(s.from[0].index));
        } else {
          vmovups(frame({OperandLocation::kSlot, s.to}, false), vec(s.from[0].index));
        }
        break;
      case Step::kStore:
        store(s, spot);
        break;
      case Step::kCompute:
        s.op == Vop::kLoad ? load(s, spot) : compute(s);
        break;
    }
  }
}

void Emitter::move(int to, OperandLocation from) {
  const Xbyak::Xmm v = vec(to);
  switch (from.kind) {
    case OperandLocation::kZero:
      vxorps(v, v, v);
      break;
    case OperandLocation::kRegister:
      vmovaps(v, vec(from.index));
      break;
    case OperandLocation::kSpill:
      vmovaps(v, frame(from, false));
      break;
    default:
      if (wide()) {
        vbroadcastss(v, frame(from, false));
      } else {
        vmovups(v, frame(from, false));
      }
  }
}

void Emitter::compute(const Step& s) {
  // Xbyak would encode it, and a machine without AVX-512 stop at it.
  if (!wide() && needs_avx512(s.op))
    fail_map(PLAIT_ERR_INTERNAL, "AVX2 code asks for an instruction of AVX-512");
  const Xbyak::Xmm to = vec(s.to), a = vec(s.from[0].index);
  // The second operand, in a register or memory; a placeholder for steps with one operand.
  const bool in_memory = s.from[1].in_memory();
  const Xbyak::Xmm b_register = vec(s.from[1].index);
  const Xbyak::Address b_memory = in_memory ? frame(s.from[1], wide()) : ptr[rsp];
  const Xbyak::Operand& b = in_memory ? static_cast<const Xbyak::Operand&>(b_memory)
                                      : static_cast<const Xbyak::Operand&>(b_register);
  switch (s.op) {
    case Vop::kAdd:
      return vaddps(to, a, b);
    case Vop::kSub:
      return vsubps(to, a, b);
    case Vop::kMul:
      return vmulps(to, a, b);
    case Vop::kDiv:
      return vdivps(to, a, b);
    case Vop::kMax:
      return vmaxps(to, a, b);
    case Vop::kMin:
      return vminps(to, a, b);
    case Vop::kAnd:
      return vandps(to, a, b);
    case Vop::kOr:
      return vorps(to, a, b);
    case Vop::kXor:
      return vxorps(to, a, b);
    case Vop::kIntAdd:
      return vpaddd(to, a, b);
    case Vop::kIntSub:
      return vpsubd(to, a, b);
    case Vop::kScale:
      return vscalefps(to, a, b);
    case Vop::kSqrt:
      return vsqrtps(to, a);
    case Vop::kFloor:
      return wide() ? vrndscaleps(to, a, 9) : vroundps(to, a, 9);
    case Vop::kRound:
      return wide() ? vrndscaleps(to, a, 8) : vroundps(to, a, 8);
    case Vop::kGetExp:
      return vgetexpps(to, a);
    case Vop::kGetMant:
      return vgetmantps(to, a, 0x0b);
    case Vop::kShiftLeft:
      return vpslld(to, a, s.imm);
    case Vop::kShiftRight:
      return vpsrld(to, a, s.imm);
    case Vop::kShiftRightSigned:
      return vpsrad(to, a, s.imm);
    case Vop::kIntToFloat:
      return vcvtdq2ps(to, a);
    case Vop::kFloatToInt:
      return vcvtps2dq(to, a);
    case Vop::kTruncToInt:
      return vcvttps2dq(to, a);
    case Vop::kFma:
    case Vop::kFnma:
      return multiply_add(s);
    case Vop::kSelect:
      return select(s);
    case Vop::kLit:
    case Vop::kLoad:
      return;
  }
}

void Emitter::multiply_add(const Step& s) {
  const bool minus = s.op == Vop::kFnma;
  const Xbyak::Xmm to = vec(s.to), a = vec(s.from[0].index), b = vec(s.from[1].index),
                   c = vec(s.from[2].index);
  const bool b_in_memory = s.from[1].in_memory(), c_in_memory = s.from[2].in_memory();
  if (b_in_memory) {
    const Xbyak::Address m = frame(s.from[1], wide());
    if (s.to == s.from[2].index) return minus ? vfnmadd231ps(to, a, m) : vfmadd231ps(to, a, m);
    if (s.to != s.from[0].index) vmovaps(to, a);
    return minus ? vfnmadd132ps(to, c, m) : vfmadd132ps(to, c, m);
  }
  if (!c_in_memory && s.to == s.from[2].index && s.to != s.from[0].index && s.to != s.from[1].index)
    return minus ? vfnmadd231ps(to, a, b) : vfmadd231ps(to, a, b);
  const bool onto_b = s.to == s.from[1].index && s.to != s.from[0].index;
  if (!onto_b && s.to != s.from[0].index) vmovaps(to, a);
  const Xbyak::Xmm other = onto_b ? a : b;
  if (c_in_memory) {
    const Xbyak::Address m = frame(s.from[2], wide());
    return minus ? vfnmadd213ps(to, other, m) : vfmadd213ps(to, other, m);
  }
  return minus ? vfnmadd213ps(to, other, c) : vfmadd213ps(to, other, c);
}

// to = from[0] <imm> from[1] ? from[2] : from[3]; from[3] may be zero.
void Emitter::select(const Step& s) {
  const Xbyak::Xmm to = vec(s.to), a = vec(s.from[0].index), b = vec(s.from[1].index),
                   c = vec(s.from[2].index), d = vec(s.from[3].index);
  const bool zero_else = s.from[3].kind == OperandLocation::kZero,
             c_in_memory = s.from[2].in_memory();
  if (!wide()) {
    if (s.from[1].in_memory()) {
      vcmpps(scratch(), a, frame(s.from[1], false), s.imm);
    } else {
      vcmpps(scratch(), a, b, s.imm);
    }
    if (c_in_memory) {
      const Xbyak::Address m = frame(s.from[2], false);
      return zero_else ? vandps(to, scratch(), m) : vblendvps(to, d, m, scratch());
    }
    return zero_else ? vandps(to, scratch(), c) : vblendvps(to, d, c, scratch());
  }
  if (s.from[1].in_memory()) {
    vcmpps(k1, a, frame(s.from[1], true), s.imm);
  } else {
    vcmpps(k1, a, b, s.imm);
  }
  if (zero_else) {
    const Xbyak::Xmm masked = to | k1 | T_z;
    if (!c_in_memory) return vmovaps(masked, c);
    if (s.from[2].kind == OperandLocation::kSpill) return vmovaps(masked, frame(s.from[2], false));
    return vbroadcastss(masked, frame(s.from[2], false));
  }
  if (c_in_memory) return vblendmps(to | k1, d, frame(s.from[2], true));
  vblendmps(to | k1, d, c);
}

}  // namespace plait::cpu::jit
