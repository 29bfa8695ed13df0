// Instruction sets: support by the machine and width of the vectors.
#pragma once

#include "plugins/devices/cpu/matmul/matmul.hpp"

namespace plait::cpu {

// The lower of the machine's limit and the caller's.
Isa limit_isa(Isa max_isa);

// Why the machine can't run an instruction set; empty if it can.
std::string unsupported(Isa isa);

// Whether the machine multiplies bf16 in hardware (AVX512_BF16 or AMX). PLAIT_BF16_PRODUCTS=1 says
// so for any machine with AVX-512, whose products oneDNN then emulates: slow, for tests.
bool has_bf16_products();

// Of one core.
int64_t second_level_cache_bytes();

// Floats per vector register.
constexpr int lanes_of(Isa isa) { return isa == Isa::avx512 ? 16 : isa == Isa::avx2 ? 8 : 1; }
// Vector registers of the instruction set.
constexpr int registers_of(Isa isa) { return isa == Isa::avx512 ? 32 : 16; }

}  // namespace plait::cpu
