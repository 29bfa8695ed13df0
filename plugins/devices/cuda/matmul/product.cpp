// Memory that holds y row by row holds the transpose of y column by column, as cuBLASLt wants it:
// yT = op(b)T op(a)T. So its A is b, its B is a, and its M is n. The bias, one number for each
// column of y, then lies along the rows of its D, as its epilogue demands.
#include "plugins/devices/cuda/matmul/product.hpp"

#include <algorithm>
#include <string>

#include "plugins/support/cuda/relaxed_capture.hpp"

namespace plait::cuda {
namespace {

constexpr double kOne = 1, kZero = 0;
constexpr float kOneF = 1, kZeroF = 0;

cudaDataType_t data_type(uint32_t type) {
  switch (type) {
    case PLAIT_F64:
      return CUDA_R_64F;
    case PLAIT_BF16:
      return CUDA_R_16BF;
    case PLAIT_F16:
      return CUDA_R_16F;
    case PLAIT_F8E4M3:
      return CUDA_R_8F_E4M3;
    case PLAIT_F8E5M2:
      return CUDA_R_8F_E5M2;
    default:
      return CUDA_R_32F;
  }
}

// 1 or 0 in the type of the sums; host memory, which a capture copies.
const void* scalar(uint32_t type, bool one) {
  if (type == PLAIT_F64) return one ? &kOne : &kZero;
  return one ? &kOneF : &kZeroF;
}

cublasLtEpilogue_t epilogue(const ProductDesc& d) {
  switch (d.epilogue) {
    case Epilogue::relu:
      return d.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Epilogue::gelu_tanh:  // cuBLASLt's GELU is the form with tanh
      return d.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    default:
      return d.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }
}

// Whether the library, and the header that this was compiled with, have scales of rows: CUDA 12.9.
bool has_scales_of_rows([[maybe_unused]] const CublasLt& lt) {
#if CUBLAS_VERSION >= 120900
  constexpr size_t kSince = 120900;
  return lt.version >= kSince;
#else
  return false;
#endif
}

// cuBLASLt does not write to descriptors and layouts, although its parameters are not const.
template <class Opaque>
Opaque* writable(const Opaque& o) {
  return const_cast<Opaque*>(&o);
}

}  // namespace

std::string text(const ProductDesc& d) {
  return "a product of " + std::to_string(d.batch) + " x (" + std::to_string(d.m) + ", " +
         std::to_string(d.k) + ") and (" + std::to_string(d.k) + ", " + std::to_string(d.n) + ")";
}

bool product_takes(uint32_t type, uint32_t y_type) {
  const bool half = type == PLAIT_BF16 || type == PLAIT_F16;
  return type == y_type || (half && y_type == PLAIT_F32);
}

uint64_t product_workspace(int64_t batch, int64_t m, int64_t n) {
  constexpr double kMost = 32 << 20, kLeast = 64 << 10, kSplits = 64, kSum = sizeof(float);
  const double wanted =
      kSplits * kSum * static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n);
  const auto bytes = static_cast<uint64_t>(std::clamp(wanted, kLeast, kMost));
  return (bytes + kProductAlignment - 1) / kProductAlignment * kProductAlignment;
}

Product::Product(CublasLtHandle& handle, const ProductDesc& desc) : handle_(handle), desc_(desc) {
  const CurrentContext current(handle.context());
  if (desc.scales == Scales::rows && !has_scales_of_rows(handle.lt())) return;
  describe();
  lay_out();
  const auto first = algorithms(1);
  found_ = !first.empty();
  if (found_) algorithm_ = first[0];
}

void Product::describe() {
  const CublasLt& lt = handle_.lt();
  const bool wide = desc_.type == PLAIT_F64;
  const cublasComputeType_t compute = wide         ? CUBLAS_COMPUTE_64F
                                      : desc_.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                   : CUBLAS_COMPUTE_32F;
  check(lt.cublasLtMatmulDescInit_internal(&operation_, sizeof operation_, compute,
                                           wide ? CUDA_R_64F : CUDA_R_32F),
        "describing " + text(desc_));
  const auto set = [&](cublasLtMatmulDescAttributes_t which, const auto& value) {
    check(lt.cublasLtMatmulDescSetAttribute(&operation_, which, &value, sizeof value),
          "describing " + text(desc_));
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, int32_t{desc_.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N});
  set(CUBLASLT_MATMUL_DESC_TRANSB, int32_t{desc_.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N});
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t{epilogue(desc_)});
  // The heuristic reads the alignment of the bias from its address; run() sets the true one.
  constexpr uintptr_t kAligned = 64;
  if (desc_.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, reinterpret_cast<const void*>(kAligned));
  if (desc_.scales == Scales::none) return;  // its A is our b
  for (const auto which :
       {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER})
    set(which, reinterpret_cast<const void*>(kAligned));
#if CUBLAS_VERSION >= 120900
  if (desc_.scales != Scales::rows) return;
  for (const auto which : {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_MODE})
    set(which, int32_t{CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F});
#endif
}

void Product::lay_out() {
  const CublasLt& lt = handle_.lt();
  const auto lay = [&](cublasLtMatrixLayoutOpaque_t& layout, uint32_t type, int64_t rows,
                       int64_t columns, int64_t stride) {
    const std::string doing = "describing a matrix of " + text(desc_);
    check(lt.cublasLtMatrixLayoutInit_internal(&layout, sizeof layout, data_type(type),
                                               static_cast<uint64_t>(rows),
                                               static_cast<uint64_t>(columns), rows),
          doing);
    if (desc_.batch == 1) return;
    const auto batch = static_cast<int32_t>(desc_.batch);
    check(lt.cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                              sizeof batch),
          doing);
    check(lt.cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                              &stride, sizeof stride),
          doing);
  };
  const ProductDesc& d = desc_;
  lay(a_, d.type_b ? d.type_b : d.type, d.transpose_b ? d.k : d.n, d.transpose_b ? d.n : d.k,
      d.stride_b);
  lay(b_, d.type, d.transpose_a ? d.m : d.k, d.transpose_a ? d.k : d.m, d.stride_a);
  lay(d_, d.y_type, d.n, d.m, d.m * d.n);
}

std::vector<cublasLtMatmulAlgo_t> Product::algorithms(int most) const {
  const CublasLt& lt = handle_.lt();
  const std::string doing = "choosing an algorithm for " + text(desc_);
  cublasLtMatmulPreferenceOpaque_t preference{};
  check(lt.cublasLtMatmulPreferenceInit_internal(&preference, sizeof preference), doing);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t which, const auto& value) {
    check(lt.cublasLtMatmulPreferenceSetAttribute(&preference, which, &value, sizeof value), doing);
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, desc_.workspace);
  // No sums of parts in the type of y, which would round them, and none in place, which keeps
  // counters in the workspace.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  constexpr uint32_t kAligned = 64;  // what the engine gives operands; cuBLASLt assumes 256
  for (const auto which :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(which, kAligned);
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(most));
  int n = 0;
  const cublasStatus_t s = lt.cublasLtMatmulAlgoGetHeuristic(
      handle_.get(), writable(operation_), writable(a_), writable(b_), writable(d_), writable(d_),
      &preference, most, results.data(), &n);
  // Whether a library that has no product with scales of rows calls them no valid value, its
  // documentation leaves open.
  if (s == CUBLAS_STATUS_NOT_SUPPORTED ||
      (s == CUBLAS_STATUS_INVALID_VALUE && desc_.scales == Scales::rows))
    n = 0;
  else
    check(s, doing);
  std::vector<cublasLtMatmulAlgo_t> found;
  for (int i = 0; i < n; ++i)
    if (const auto& r = results[static_cast<size_t>(i)];
        r.state == CUBLAS_STATUS_SUCCESS && r.workspaceSize <= desc_.workspace)
      found.push_back(r.algo);
  return found;
}

void Product::run(CUstream stream, const ProductOperands& o) const {
  const CublasLt& lt = handle_.lt();
  cublasLtMatmulDescOpaque_t operation = operation_;  // of this call: bias and scales differ
  const auto set = [&](cublasLtMatmulDescAttributes_t which, const void* const& at,
                       const char* doing) {
    check(lt.cublasLtMatmulDescSetAttribute(&operation, which, &at, sizeof at), doing);
  };
  if (desc_.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, o.bias, "naming the bias of a product");
  if (desc_.scales != Scales::none) {
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, o.scale_b, "naming a scale of a product");
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, o.scale_a, "naming a scale of a product");
  }
  const RelaxedCapture relaxed;
  const cublasStatus_t s = lt.cublasLtMatmul(
      handle_.get(), &operation, scalar(desc_.type, true), o.b, writable(a_), o.a, writable(b_),
      scalar(desc_.type, desc_.accumulate), desc_.accumulate ? o.c : o.y, writable(d_), o.y,
      writable(d_), &algorithm_, o.workspace, desc_.workspace, stream);
  if (s != CUBLAS_STATUS_SUCCESS) check(s, text(desc_));
}

}  // namespace plait::cuda
