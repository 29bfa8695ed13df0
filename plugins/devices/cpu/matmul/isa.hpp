// Instruction sets: support by the machine and width of the vectors.
#pragma once

#include "plugins/devices/cpu/matmul/matmul.hpp"

namespace plait::cpu {

// The lower of the machine's limit and the caller's.
Isa limit_isa(Isa max_isa);

// Why the machine can't run an instruction set; empty if it can.
std::string unsupported(Isa isa);

// Whether oneDNN multiplies bf16: where the machine has instructions for it (AVX512_BF16 or AMX).
// PLAIT_BF16_PRODUCTS=1: on any machine with AVX-512, where oneDNN emulates them slowly, for tests;
// 0: never, to compare.
bool has_bf16_products();

// Whether the machine multiplies pairs of bf16 in vectors (AVX512_BF16), and PLAIT_BF16_PRODUCTS is
// not 0.
bool has_pair_products();

// Instructions for products of bf16: AVX512_BF16, and AMX (whether the system grants its state is
// another question).
struct BlockInstructions {
  bool dots = false, tiles = false;
};
BlockInstructions block_instructions();

// Of one core.
int64_t second_level_cache_bytes();

// Floats per vector register.
constexpr int lanes_of(Isa isa) { return isa == Isa::avx512 ? 16 : isa == Isa::avx2 ? 8 : 1; }
// Vector registers of the instruction set.
constexpr int registers_of(Isa isa) { return isa == Isa::avx512 ? 32 : 16; }

}  // namespace plait::cpu
