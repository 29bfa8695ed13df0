// One product of matrices by cuBLASLt, in the terms of the op: matrices are stored by rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plugins/devices/cuda/matmul/cublaslt.hpp"

namespace plait::cuda {

// What cuBLASLt does to a sum before it rounds it to the type of y.
enum class Epilogue { none, relu, gelu_tanh };

// Scales of operands of 8-bit floats, f32 on the device, that the product is multiplied with.
enum class Scales {
  none,
  one,   // for each operand
  rows,  // for each row of op(a), m, and each column of op(b), n: by cuBLASLt 12.9 on Hopper
};

// y[b,m,n] = epilogue(op(a)[b,m,k] op(b)[b,k,n] + bias[n]), or c + op(a) op(b). No extent is 0.
struct ProductDesc {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  int64_t stride_a = 0, stride_b = 0;  // elements between the matrices of a batch; 0: shared
  bool transpose_a = false, transpose_b = false;
  uint32_t type = 0;        // of a and b
  uint32_t y_type = 0;      // of y, bias and c
  bool tf32 = false;        // a and b, of f32, are rounded to TF32
  bool bias = false;        // excludes accumulate
  bool accumulate = false;  // c is added
  Epilogue epilogue = Epilogue::none;
  uint64_t workspace = 0;  // bytes that run() gives
  uint32_t type_b = 0;     // of b where it differs, as 8-bit floats may; 0: as a
  Scales scales = Scales::none;
};

// "a product of 1 x (2, 3) and (3, 4)".
std::string text(const ProductDesc& d);
// Whether cuBLASLt multiplies operands of `type` into a y of y_type.
bool product_takes(uint32_t type, uint32_t y_type);
// Bytes of workspace that a product may use on any GPU: what NVIDIA advises for Hopper, less for a
// small y. They decide which algorithms cuBLASLt considers, and so the bits of y.
uint64_t product_workspace(int64_t batch, int64_t m, int64_t n);
// The workspace of run() is aligned to this.
inline constexpr uint64_t kProductAlignment = 256;

struct ProductOperands {
  const void *a, *b, *bias, *c;  // bias and c: where the product has them
  void* y;                       // may be c
  void* workspace;
  const void *scale_a = nullptr, *scale_b = nullptr;  // f32, where the product has them
};

// The algorithm is the first that cuBLASLt's heuristic names for the description: a function of it,
// the library's version and the GPU's model. Another is used after use(), as precision.tune does.
class Product {
 public:
  Product(CublasLtHandle& handle, const ProductDesc& desc);
  // Whether cuBLASLt has an algorithm; run() needs one.
  bool found() const { return found_; }
  // The algorithms that the heuristic names, best first, at most so many; and to use one of them.
  std::vector<cublasLtMatmulAlgo_t> algorithms(int most) const;
  void use(const cublasLtMatmulAlgo_t& algorithm) { algorithm_ = algorithm; }
  const cublasLtMatmulAlgo_t& algorithm() const { return algorithm_; }
  // Enqueues. Modifies nothing, so several queues may run one product.
  void run(CUstream stream, const ProductOperands& operands) const;

 private:
  void describe();
  void lay_out();

  CublasLtHandle& handle_;
  ProductDesc desc_;
  cublasLtMatmulDescOpaque_t operation_{};
  // Named as cuBLASLt has them: column by column, so its A is our b.
  cublasLtMatrixLayoutOpaque_t a_{}, b_{}, d_{};
  cublasLtMatmulAlgo_t algorithm_{};
  bool found_ = false;
};

}  // namespace plait::cuda
