// What the emulated cuBLASLt keeps in the opaque structs of cublasLt.h.
#pragma once

#pragma GCC visibility push(default)  // what it declares is exported
#include <cublasLt.h>
#pragma GCC visibility pop

#include <cstdint>
#include <cstring>

namespace emulated_lt {

// Each begins with a mark, so that memory that was not set up is found.
constexpr uint64_t kOperation = 0x6f70, kLayout = 0x6c61, kPreference = 0x7072, kAlgorithm = 0x616c;

// Scales of rows, which cublasLt.h has from CUDA 12.9 on: the attributes, and their value.
constexpr int kScaleModeOfA = 31, kScaleModeOfB = 32;
constexpr int32_t kOneScale = 0, kScalesOfRows = 3;
#if CUBLAS_VERSION >= 120900
static_assert(kScaleModeOfA == CUBLASLT_MATMUL_DESC_A_SCALE_MODE &&
              kScaleModeOfB == CUBLASLT_MATMUL_DESC_B_SCALE_MODE &&
              kOneScale == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F &&
              kScalesOfRows == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
#endif

struct Operation {
  uint64_t mark;
  int32_t compute, scale, transpose_a, transpose_b;
  uint32_t epilogue;
  const void* bias;
  const void *scale_a, *scale_b;  // f32 on the device; null: 1
  int32_t scale_mode_a, scale_mode_b;
  // Whether each row of the operands has a scale of its own.
  bool scales_of_rows() const { return scale_mode_a == kScalesOfRows; }
};
struct Layout {
  uint64_t mark, rows, columns;
  int64_t ld, stride;
  int32_t type, batch;
};
struct Preference {
  uint64_t mark, workspace;
  uint32_t reductions;
  uint32_t alignment[4];  // of A, B, C and D
};
// Serves the product that it was chosen for, and no other.
struct Algorithm {
  uint64_t mark, product, workspace;
  uint32_t alignment[4], bias_alignment;
  uint32_t number;  // the order of its sums: 0, 1, ..., kAlgorithms - 1
};
constexpr uint32_t kAlgorithms = 3;

// The contents of an opaque struct. Copies, since a caller may have copied the struct.
template <class T, class Opaque>
T contents(const Opaque* opaque) {
  static_assert(sizeof(T) <= sizeof(Opaque));
  T out;
  std::memcpy(&out, opaque, sizeof out);
  return out;
}
template <class T, class Opaque>
void keep(Opaque* opaque, const T& value) {
  static_assert(sizeof(T) <= sizeof(Opaque));
  std::memcpy(opaque, &value, sizeof value);
}

}  // namespace emulated_lt
