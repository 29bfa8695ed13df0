// Copies blocks of a matrix between row-major memory and the panels of the generated kernels.
// Letters: k rows of a panel, l lanes (its columns), w its padded width, a multiple of the vector
// length.
#pragma once

#include <cstdint>

#include "plugins/devices/cpu/matmul/matmul.hpp"

namespace plait::cpu {

// Functions for one instruction set; obtained once, when a kernel is built. [thread: any]
struct PackFunctions {
  // panel (k,w) = the transpose of source (l,k), whose rows are `stride` floats apart. Lanes l..w
  // become copies or 0.
  void (*transpose_in)(const float* source, int64_t stride, int64_t l, int64_t k, int64_t w,
                       float* panel);
  // panel (k,w) = source (k,l), whose rows are `stride` floats apart. Lanes l..w become
  // copies or 0.
  void (*copy_in)(const float* source, int64_t stride, int64_t l, int64_t k, int64_t w,
                  float* panel);
  // For products of bf16, whose panels hold pairs of summands; null without instructions for them.
  // panel (k,w) of pairs = rows 2i and 2i+1 of source (2k,l), side by side. Lanes l..w become 0.
  void (*pair_in)(const uint16_t* source, int64_t stride, int64_t l, int64_t k, int64_t w,
                  float* panel);
  // n numbers as f32, and rounded to nearest even.
  void (*widen)(const uint16_t* from, float* to, int64_t n);
  void (*narrow)(const float* from, uint16_t* to, int64_t n);
  // target (l,r), whose rows are `stride` floats apart, = the transpose of panel (r,w); += if
  // `add`.
  void (*transpose_out)(const float* panel, int64_t r, int64_t l, int64_t w, bool add,
                        float* target, int64_t stride);
};

// `isa` must be avx2 or avx512 and supported by the machine.
PackFunctions pack_functions(Isa isa);

PackFunctions pack_functions_avx2();
PackFunctions pack_functions_avx512();

}  // namespace plait::cpu
