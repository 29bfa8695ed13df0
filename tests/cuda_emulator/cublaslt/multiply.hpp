// The arithmetic of the emulated cuBLASLt: plain loops over host memory.
#pragma once

#include "tests/cuda_emulator/cublaslt/descriptors.hpp"

namespace emulated_lt {

// One call of cublasLtMatmul(), complete: it is copied onto the stream.
struct Product {
  Operation operation;
  Layout a, b, d;
  double alpha, beta;
  const void *a_data, *b_data, *c_data;
  void* d_data;
  void* workspace;
  uint64_t workspace_bytes;  // that the algorithm uses
  uint32_t algorithm;        // its number

  int64_t m() const { return static_cast<int64_t>(d.rows); }
  int64_t n() const { return static_cast<int64_t>(d.columns); }
  int64_t k() const {
    return static_cast<int64_t>(operation.transpose_a == CUBLAS_OP_N ? a.columns : a.rows);
  }
};
void multiply(const Product& p);

}  // namespace emulated_lt
