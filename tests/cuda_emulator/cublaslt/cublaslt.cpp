// libcublasLt for tests without a GPU: the entry points that the device plugin calls, on host
// memory, behind the emulated driver. It is stricter than the library: whatever NVIDIA's
// documentation does not promise is an error.
//
// PLAIT_CUDA_EMULATOR_LT: "plain" has no algorithm with an epilogue, "one_scale" none with scales
// of rows, "none" has none at all.
// PLAIT_CUDA_EMULATOR_LT_VERSION: the version that it names.
// PLAIT_CUDA_EMULATOR_LT_SLOW: digits of the algorithms that take 2 ms longer, "02".
// PLAIT_CUDA_EMULATOR_LT_COUNTS: at the end of the process stderr tells how often each was run.
#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

#include "tests/cuda_emulator/cublaslt/multiply.hpp"
#include "tests/cuda_emulator/stream.hpp"

struct cublasLtContext {};  // what cublasLtHandle_t points to

namespace {

using namespace emulated_lt;

constexpr size_t kVersion = 130100;

size_t version() {
  const char* set = std::getenv("PLAIT_CUDA_EMULATOR_LT_VERSION");
  return set ? std::strtoul(set, nullptr, 10) : kVersion;
}

bool is_hopper() {
  int major = 0;
  return cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0) ==
             CUDA_SUCCESS &&
         major == 9;
}

bool setting_is(std::string_view value) {
  const char* set = std::getenv("PLAIT_CUDA_EMULATOR_LT");
  return set && value == set;
}

// How often each algorithm was run.
class Runs {
 public:
  ~Runs() {
    if (!std::getenv("PLAIT_CUDA_EMULATOR_LT_COUNTS")) return;
    std::fprintf(stderr, "[cublasLt emulator] runs of each algorithm:");
    for (const auto& n : counts_) std::fprintf(stderr, " %lu", n.load());
    std::fprintf(stderr, "\n");
  }
  void note(uint32_t algorithm) {
    ++counts_[algorithm];
    const char* slow = std::getenv("PLAIT_CUDA_EMULATOR_LT_SLOW");
    if (slow && std::strchr(slow, static_cast<int>('0' + algorithm)))
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }

 private:
  std::atomic<unsigned long> counts_[kAlgorithms] = {};
};
Runs runs;
std::atomic<uint64_t> runs_with_scales_of_rows{0};

// Copies an attribute; its size must be exact.
template <class T>
cublasStatus_t take(T& to, const void* from, size_t bytes) {
  if (!from || bytes != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

bool is_half(int32_t type) { return type == CUDA_R_16BF || type == CUDA_R_16F; }

bool is_f8(int32_t type) { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }

// Products of 8-bit floats: not of two e5m2, both operands along k, every extent a multiple of 16.
bool f8_fits(const Product& p) {
  const int32_t out = p.d.type;
  const bool both = p.a.type == CUDA_R_8F_E5M2 && p.b.type == CUDA_R_8F_E5M2;
  const bool along_k =
      p.operation.transpose_a == CUBLAS_OP_T && p.operation.transpose_b == CUBLAS_OP_N;
  return is_f8(p.b.type) && !both && along_k && p.m() % 16 == 0 && p.n() % 16 == 0 &&
         p.k() % 16 == 0 && p.operation.compute == CUBLAS_COMPUTE_32F &&
         p.operation.scale == CUDA_R_32F && p.d.batch == 1 && (out == CUDA_R_32F || is_half(out));
}

bool types_fit(const Product& p) {
  const int32_t in = p.a.type, out = p.d.type;
  if (is_f8(in)) return f8_fits(p);
  if (in != p.b.type || p.operation.scale_a || p.operation.scale_b || p.operation.scales_of_rows())
    return false;
  if (p.operation.compute == CUBLAS_COMPUTE_64F)
    return p.operation.scale == CUDA_R_64F && in == CUDA_R_64F && out == CUDA_R_64F;
  if (p.operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && in != CUDA_R_32F) return false;
  const bool kept = in == out && (in == CUDA_R_32F || is_half(in));
  return p.operation.scale == CUDA_R_32F && (kept || (is_half(in) && out == CUDA_R_32F));
}

// Whether a layout has the extents of its operand and columns that do not overlap.
bool fits(const Layout& l, int64_t rows, int64_t columns, int32_t batch) {
  return l.mark == kLayout && static_cast<int64_t>(l.rows) == rows &&
         static_cast<int64_t>(l.columns) == columns && rows > 0 && columns > 0 && l.ld >= rows &&
         l.batch == batch && batch > 0 && l.stride >= 0;
}

cublasStatus_t fault_of(const Product& p, const Layout& c) {
  const bool ta = p.operation.transpose_a == CUBLAS_OP_T;
  const bool tb = p.operation.transpose_b == CUBLAS_OP_T;
  const int64_t m = p.m(), n = p.n(), k = p.k();
  const int32_t batch = p.d.batch;
  const bool sound = p.operation.mark == kOperation && fits(p.d, m, n, batch) &&
                     fits(p.a, ta ? k : m, ta ? m : k, batch) &&
                     fits(p.b, tb ? n : k, tb ? k : n, batch) && fits(c, m, n, batch) &&
                     c.type == p.d.type && c.ld == p.d.ld && c.stride == p.d.stride &&
                     (batch == 1 || p.d.stride >= p.d.ld * n);
  if (!sound) return CUBLAS_STATUS_INVALID_VALUE;
  constexpr uint32_t kKnown = CUBLASLT_EPILOGUE_DEFAULT | CUBLASLT_EPILOGUE_RELU |
                              CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_GELU;
  const bool plain = p.operation.epilogue == CUBLASLT_EPILOGUE_DEFAULT;
  const bool both = p.operation.epilogue & CUBLASLT_EPILOGUE_RELU &&
                    p.operation.epilogue & CUBLASLT_EPILOGUE_GELU;
  if (!types_fit(p) || (p.operation.epilogue & ~kKnown) || both) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!plain && p.operation.compute == CUBLAS_COMPUTE_64F) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!plain && setting_is("plain")) return CUBLAS_STATUS_NOT_SUPPORTED;
  // Both operands or neither, each with its scales, and nothing behind the product.
  if (p.operation.scale_mode_a != p.operation.scale_mode_b) return CUBLAS_STATUS_INVALID_VALUE;
  if (p.operation.scales_of_rows() && (!p.operation.scale_a || !p.operation.scale_b || !plain))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (p.operation.scales_of_rows() && (setting_is("one_scale") || !is_hopper()))
    return CUBLAS_STATUS_INVALID_VALUE;
  return CUBLAS_STATUS_SUCCESS;
}

// A number of everything that decides the algorithm.
uint64_t product_id(const Product& p) {
  uint64_t id = 1469598103934665603u;
  const auto mix = [&](uint64_t v) { id = (id ^ v) * 1099511628211u; };
  for (const int32_t v : {p.operation.compute, p.operation.transpose_a, p.operation.transpose_b})
    mix(static_cast<uint32_t>(v));
  mix(p.operation.epilogue);
  mix(static_cast<uint32_t>(p.operation.scale_mode_a));
  for (const Layout* l : {&p.a, &p.b, &p.d})
    for (const uint64_t v :
         {l->rows, l->columns, static_cast<uint64_t>(l->ld), static_cast<uint64_t>(l->stride),
          static_cast<uint64_t>(l->type), static_cast<uint64_t>(l->batch)})
      mix(v);
  return id;
}

// The largest power of 2, at most 256, that divides an address.
uint32_t alignment_of(const void* p) {
  const auto at = reinterpret_cast<uintptr_t>(p) | 256;
  return static_cast<uint32_t>(at & (~at + 1));
}

// The library loads the code of an algorithm when it is first run: not allowed in a capture, unless
// the thread relaxes it.
bool load_code() {
  CUmodule module = nullptr;
  return cuModuleLoadData(&module, "code of a product") == CUDA_SUCCESS &&
         cuModuleUnload(module) == CUDA_SUCCESS;
}

Product product_of(cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                   cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t d) {
  Product p{};
  p.operation = contents<Operation>(operation);
  p.a = contents<Layout>(a);
  p.b = contents<Layout>(b);
  p.d = contents<Layout>(d);
  return p;
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* out) {
  *out = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion(void) { return version(); }
const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "the functionality requested is not supported";
    default:
      return "an internal operation failed";
  }
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t desc, size_t size,
                                               cublasComputeType_t compute, cudaDataType_t scale) {
  if (size < sizeof(Operation)) return CUBLAS_STATUS_ALLOC_FAILED;
  keep(desc, Operation{kOperation, compute, scale, CUBLAS_OP_N, CUBLAS_OP_N,
                       CUBLASLT_EPILOGUE_DEFAULT, nullptr, nullptr, nullptr, kOneScale, kOneScale});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t which,
                                              const void* from, size_t bytes) {
  auto o = contents<Operation>(desc);
  cublasStatus_t s = CUBLAS_STATUS_INVALID_VALUE;
  if (o.mark != kOperation) return s;
  if (which == CUBLASLT_MATMUL_DESC_TRANSA) s = take(o.transpose_a, from, bytes);
  if (which == CUBLASLT_MATMUL_DESC_TRANSB) s = take(o.transpose_b, from, bytes);
  if (which == CUBLASLT_MATMUL_DESC_EPILOGUE) s = take(o.epilogue, from, bytes);
  if (which == CUBLASLT_MATMUL_DESC_BIAS_POINTER) s = take(o.bias, from, bytes);
  if (which == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER) s = take(o.scale_a, from, bytes);
  if (which == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER) s = take(o.scale_b, from, bytes);
  constexpr size_t kScaleModes = 120900;  // the first version that has them
  if (version() >= kScaleModes) {
    if (which == kScaleModeOfA) s = take(o.scale_mode_a, from, bytes);
    if (which == kScaleModeOfB) s = take(o.scale_mode_b, from, bytes);
  }
  keep(desc, o);
  return s;
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t size,
                                                 cudaDataType type, uint64_t rows, uint64_t columns,
                                                 int64_t ld) {
  if (size < sizeof(Layout)) return CUBLAS_STATUS_ALLOC_FAILED;
  keep(layout, Layout{kLayout, rows, columns, ld, 0, type, 1});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t which,
                                                const void* from, size_t bytes) {
  auto l = contents<Layout>(layout);
  cublasStatus_t s = CUBLAS_STATUS_INVALID_VALUE;
  if (l.mark != kLayout) return s;
  if (which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) s = take(l.batch, from, bytes);
  if (which == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) s = take(l.stride, from, bytes);
  keep(layout, l);
  return s;
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference,
                                                     size_t size) {
  if (size < sizeof(Preference)) return CUBLAS_STATUS_ALLOC_FAILED;
  keep(preference,
       Preference{kPreference, 0, CUBLASLT_REDUCTION_SCHEME_MASK, {256, 256, 256, 256}});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    const void* from, size_t bytes) {
  auto p = contents<Preference>(preference);
  cublasStatus_t s = CUBLAS_STATUS_INVALID_VALUE;
  if (p.mark != kPreference) return s;
  if (which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) s = take(p.workspace, from, bytes);
  if (which == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) s = take(p.reductions, from, bytes);
  for (int i = 0; i < 4; ++i)
    if (which == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i)
      s = take(p.alignment[i], from, bytes);
  keep(preference, p);
  return s;
}

// Up to three algorithms. Each uses all of the workspace that parts of the sums would fill, so that
// a caller who gives less, or keeps data there, is found.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  *found = 0;
  const auto pref = contents<Preference>(preference);
  if (!handle || requested < 1 || pref.mark != kPreference) return CUBLAS_STATUS_INVALID_VALUE;
  const Product p = product_of(operation, a, b, d);
  if (const cublasStatus_t s = fault_of(p, contents<Layout>(c)); s != CUBLAS_STATUS_SUCCESS)
    return s;
  if (setting_is("none")) return CUBLAS_STATUS_NOT_SUPPORTED;
  Algorithm algorithm{kAlgorithm, product_id(p), 0, {}, alignment_of(p.operation.bias), 0};
  constexpr uint64_t kSplits = 2;
  algorithm.workspace = std::min(pref.workspace, kSplits * sizeof(float) * p.d.rows * p.d.columns);
  std::copy(pref.alignment, pref.alignment + 4, algorithm.alignment);
  *found = std::min(requested, static_cast<int>(kAlgorithms));
  for (int i = 0; i < *found; ++i) {
    algorithm.number = static_cast<uint32_t>(i);
    results[i] = {};
    keep(&results[i].algo, algorithm);
    results[i].workspaceSize = algorithm.workspace;
    results[i].state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void* alpha, const void* A, cublasLtMatrixLayout_t a,
                              const void* B, cublasLtMatrixLayout_t b, const void* beta,
                              const void* C, cublasLtMatrixLayout_t c, void* D,
                              cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  if (!handle || !alpha || !beta || !A || !B || !D || !algo) return CUBLAS_STATUS_INVALID_VALUE;
  Product p = product_of(operation, a, b, d);
  if (const cublasStatus_t s = fault_of(p, contents<Layout>(c)); s != CUBLAS_STATUS_SUCCESS)
    return s;
  const auto algorithm = contents<Algorithm>(algo);
  if (algorithm.mark != kAlgorithm || algorithm.product != product_id(p) ||
      algorithm.number >= kAlgorithms || algorithm.workspace > workspace_bytes ||
      (algorithm.workspace > 0 && (!workspace || alignment_of(workspace) < 256)))
    return CUBLAS_STATUS_INVALID_VALUE;
  const auto scalar = [&](const void* at) {
    return p.operation.scale == CUDA_R_64F ? *static_cast<const double*>(at)
                                           : double{*static_cast<const float*>(at)};
  };
  p.alpha = scalar(alpha);
  p.beta = scalar(beta);
  const void* const operands[] = {A, B, p.beta != 0 ? C : D, D};
  for (int i = 0; i < 4; ++i)
    if (!operands[i] || alignment_of(operands[i]) < algorithm.alignment[i])
      return CUBLAS_STATUS_INVALID_VALUE;
  if (p.operation.epilogue & CUBLASLT_EPILOGUE_BIAS &&
      (!p.operation.bias || alignment_of(p.operation.bias) < algorithm.bias_alignment))
    return CUBLAS_STATUS_INVALID_VALUE;
  p.a_data = A;
  p.b_data = B;
  p.c_data = C;
  p.d_data = D;
  p.workspace = workspace;
  p.workspace_bytes = algorithm.workspace;
  p.algorithm = algorithm.number;
  if (!load_code()) return CUBLAS_STATUS_EXECUTION_FAILED;
  const auto run = [](const void* at) {
    const Product& product = *static_cast<const Product*>(at);
    multiply(product);
    runs.note(product.algorithm);
    if (product.operation.scales_of_rows()) ++runs_with_scales_of_rows;
  };
  return emulator_enqueue(stream, run, &p, sizeof p) == 0 ? CUBLAS_STATUS_SUCCESS
                                                          : CUBLAS_STATUS_EXECUTION_FAILED;
}

// How many products with scales of rows this process has run.
extern "C" __attribute__((visibility("default"))) uint64_t cublaslt_emulator_scales_of_rows() {
  return runs_with_scales_of_rows;
}
