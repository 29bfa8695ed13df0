// Instruction sets: what the machine has and how wide its vectors are.
#pragma once

#include "plugins/devices/cpu/matmul/matmul.hpp"

namespace plait::cpu {

// The lesser of the machine's limit and the caller's.
Isa limit_isa(Isa max_isa);

// Why the machine can't run an instruction set; empty if it can.
std::string unsupported(Isa isa);

// Of one core.
int64_t second_level_cache_bytes();

// float lanes of one vector register.
constexpr int lanes_of(Isa isa) { return isa == Isa::avx512 ? 16 : isa == Isa::avx2 ? 8 : 1; }
// Vector registers the instruction set has.
constexpr int registers_of(Isa isa) { return isa == Isa::avx512 ? 32 : 16; }

}  // namespace plait::cpu
