// Matrix products of the CPU device: C[m,n] = act(op(A)[m,k] * op(B)[k,n] + bias[n]), prepared once
// and run many times. Kernels are tried from the fastest to the simplest: code generated for the
// exact shape (AVX-512, then AVX2 with FMA; reading the operands in place, or packing both for
// large problems), oneDNN, plain loops. This component depends on nothing else in the tree but
// kit/half.hpp and kit/quantized.hpp.
//
// Letters: m rows of C, n columns of C, k the summed dimension. All matrices are row-major and
// dense.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "kit/quantized.hpp"

namespace plait::cpu {

enum class Activation { none, relu, tanh, sigmoid, gelu, gelu_tanh, silu };

// The 16-bit floats, and none of them.
enum class Half { none, bf16, f16 };

// The best instruction set that a kernel may use. The machine's own limit always applies too.
enum class Isa { plain, avx2, avx512 };

// The best instruction set of the machine. [thread: any]
Isa machine_isa();

// One product, or `batch` of them with the same shape.
struct MatmulDesc {
  int64_t batch = 1;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool transpose_a = false;    // A is stored [m,k], or [k,m] when set
  bool transpose_b = false;    // B is stored [k,n], or [n,k] when set
  int64_t batch_stride_a = 0;  // in elements; 0 means that all products share the matrix
  int64_t batch_stride_b = 0;
  int64_t batch_stride_c = 0;
  // Operands of 16-bit floats. B alone: see choose_stream(). Both of bf16, and C perhaps: see
  // choose_dot().
  Half half_a = Half::none, half_b = Half::none, half_c = Half::none;
  bool accumulate = false;  // C += A*B; excludes bias and activation
  bool bias = false;        // add bias[n] to every row
  // Also compute the sum of the squares of C; excludes accumulate, bias and activation.
  bool squares = false;
  Activation activation = Activation::none;
  // A or B holds 16-bit floats, of which this makes n of f32 while they are packed. Null: f32. The
  // blocked kernels alone take it: see choose_widening().
  void (*widen_a)(const uint16_t* from, float* to, int64_t n) = nullptr;
  void (*widen_b)(const uint16_t* from, float* to, int64_t n) = nullptr;
  // B is quantized (see quantized.hpp), which the blocked kernels alone take. Needs a batch of 1.
  bool quantized_b = false;
  kit::QuantFormat format_b = kit::QuantFormat::kInt8;
  int threads = 1;  // most threads that `run` may use; a small problem uses fewer
};

// Operands of one run. Borrowed; C must not overlap the others. `bias` is read only if the desc has
// it. `workspace` has `workspace_bytes()` bytes, 64-byte aligned, and may be null if that is 0. a,
// b and c need an alignment of 4; 64 is fastest.
struct MatmulArgs {
  const float* a = nullptr;  // of 16-bit floats where the desc says so or widens them, as b and c
  const float* b = nullptr;
  const float* bias = nullptr;
  float* c = nullptr;
  void* workspace = nullptr;
  float* squares = nullptr;         // one number, written if requested in the desc
  const float* scales_b = nullptr;  // of quantized_b
};

// A prepared product. One of oneDNN makes one run at a time; all others are immutable, and several
// threads may run one kernel, each with its own workspace.
class MatmulKernel {
 public:
  virtual ~MatmulKernel();
  MatmulKernel() = default;
  MatmulKernel(const MatmulKernel&) = delete;
  MatmulKernel& operator=(const MatmulKernel&) = delete;

  // Computes C. The order of every sum is fixed: equal inputs give equal bits. Starts OpenMP
  // threads only if the desc allows them and the problem is large enough. [thread: compute] Only
  // oneDNN allocates, internally; nothing locks or throws.
  virtual void run(const MatmulArgs& args) const = 0;
  virtual std::string_view name() const = 0;
  virtual size_t workspace_bytes() const = 0;
};

// The kernel that `make_matmul` would build.
struct KernelChoice {
  // jit_avx512, jit_avx512_blocked, stream_avx512, the same of avx2, onednn, plain; of bf16
  // jit_avx512_bf16 and onednn_bf16
  std::string kernel;
  std::string why;  // "name: reason; …" for the entries of the list before it; may be empty
  size_t workspace_bytes = 0;
};

// Decides without building: pure, and always the same for a desc on a machine. Throws
// std::invalid_argument if the desc contradicts itself (negative size, accumulate with bias or
// activation, overflow).
KernelChoice choose_matmul(const MatmulDesc& desc, Isa max_isa = Isa::avx512);

// The same for a desc with 16-bit operands: the blocked kernel of the machine, or an empty name and
// the reason where that would not pay.
KernelChoice choose_widening(const MatmulDesc& desc);

// The same for operands of bf16 and a C of f32 or bf16: a product by the machine's own instructions
// for it, ours or oneDNN's, or an empty name and the reason. It adds up in f32; the instructions
// take subnormal numbers as 0. `why` may tell why it is not ours.
KernelChoice choose_dot(const MatmulDesc& desc);

// Builds the kernel that `choose_matmul` names. Throws the same errors; std::runtime_error if
// memory for the code can't be allocated.
std::unique_ptr<MatmulKernel> make_matmul(const MatmulDesc& desc, Isa max_isa = Isa::avx512);

// Builds a named kernel, for tests and benchmarks. Throws std::invalid_argument with the reason if
// that kernel refuses the problem or the name is unknown.
std::unique_ptr<MatmulKernel> make_matmul(const MatmulDesc& desc, std::string_view kernel_name);

// The kernel that reads B once, which alone takes 16-bit floats there, where it pays; else an empty
// name and the reason. Throws the same errors.
KernelChoice choose_stream(const MatmulDesc& desc);

}  // namespace plait::cpu
