#include "plugins/devices/cpu/matmul/isa.hpp"

#include <xbyak/xbyak_util.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace plait::cpu {

Isa machine_isa() {
  using Xbyak::util::Cpu;
  static const Isa isa = [] {
    const Cpu cpu;
    // The packing code uses DQ, BW and VL forms besides the foundation.
    if (cpu.has(Cpu::tAVX512F) && cpu.has(Cpu::tAVX512DQ) && cpu.has(Cpu::tAVX512BW) &&
        cpu.has(Cpu::tAVX512VL)) {
      return Isa::avx512;
    }
    return cpu.has(Cpu::tAVX2) && cpu.has(Cpu::tFMA) && cpu.has(Cpu::tF16C) ? Isa::avx2
                                                                            : Isa::plain;
  }();
  return isa;
}

Isa limit_isa(Isa max_isa) { return std::min(max_isa, machine_isa()); }

std::string unsupported(Isa isa) {
  if (limit_isa(isa) == isa) return {};
  return isa == Isa::avx512 ? "the machine has no AVX-512 (F, DQ, BW, VL)"
                            : "the machine has no AVX2 with FMA";
}

bool has_bf16_products() {
  using Xbyak::util::Cpu;
  static const bool has = [] {
    const Cpu cpu;
    const char* asked = std::getenv("PLAIT_BF16_PRODUCTS");
    if (asked && std::string_view(asked) == "0") return false;
    return machine_isa() == Isa::avx512 && (cpu.has(Cpu::tAVX512_BF16) || cpu.has(Cpu::tAMX_BF16) ||
                                            (asked && std::string_view(asked) == "1"));
  }();
  return has;
}

bool has_pair_products() {
  using Xbyak::util::Cpu;
  static const bool has = [] {
    const Cpu cpu;
    return has_bf16_products() && cpu.has(Cpu::tAVX512_BF16);
  }();
  return has;
}

BlockInstructions block_instructions() {
  using Xbyak::util::Cpu;
  const Cpu cpu;
  const bool wide = machine_isa() == Isa::avx512;
  return {wide && cpu.has(Cpu::tAVX512_BF16),
          wide && cpu.has(Cpu::tAMX_TILE) && cpu.has(Cpu::tAMX_BF16)};
}

int64_t second_level_cache_bytes() {
  static const int64_t bytes = [] {
    const Xbyak::util::Cpu cpu;
    constexpr int64_t kUnknown = 512 * 1024;
    return cpu.getDataCacheLevels() > 1 ? int64_t{cpu.getDataCacheSize(1)} : kUnknown;
  }();
  return bytes;
}

}  // namespace plait::cpu
