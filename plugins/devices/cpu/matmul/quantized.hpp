// Products of rows with weights of 8 bits: c[m,n] = act(a[m,k] * w[n,k]^T + bias[n]), where w =
// scale * (number - 128), a scale for each row of w and block of 32 columns. The weights are read
// once by a few rows; many rows multiply them in blocks, as f32. Depends on nothing outside of this
// folder but the pool.
//   R rows of a call, B = ceil(k/32) blocks
#pragma once

#include <cstdint>
#include <memory>

#include "plugins/devices/cpu/matmul/activation.hpp"
#include "plugins/devices/cpu/matmul/matmul.hpp"
#include "plugins/devices/cpu/matmul/stream.hpp"

namespace plait::cpu {

constexpr int64_t kWeightBlock = 32;
constexpr int64_t weight_blocks(int64_t k) { return (k + kWeightBlock - 1) / kWeightBlock; }

// So many rows are rounded to 16 bits, which costs a weight fewer instructions: with a scale for
// each block, an error of at most its greatest absolute value / 65534 in each number.
constexpr int64_t kMostNarrowRows = 3;

// sums[r * kStreamGroup + j] = the sum over k of rows[r,k] * weights[j,k]. The order of a sum
// follows from k and R alone.
struct QuantizedCall {
  const uint8_t* numbers = nullptr;      // (outputs, k)
  const float* scales = nullptr;         // (outputs, B)
  const float* rows = nullptr;           // (R, k); with kMostNarrowRows or fewer those below
  const int16_t* narrow = nullptr;       // (R, 32 B): rows / narrow_scales, zeros behind k
  const float* narrow_scales = nullptr;  // (R, B)
  const float* narrow_sums = nullptr;    // (R, B): -128 * the sum of a block of the rows
  float* sums = nullptr;
  int64_t k = 0, blocks = 0;
  int64_t outputs = 0;  // at most kStreamGroup
};

// `k` weights of a row as f32, from the start of a block on.
using WidenQuantized = void (*)(const uint8_t* numbers, const float* scales, int64_t k, float* to);

// The functions of one instruction set. [thread: any] They do not allocate or throw.
struct QuantizedFunctions {
  // For 1 to kMostStreamRows rows, by their number - 1.
  void (*dots[kMostStreamRows])(const QuantizedCall&);
  // One row of k numbers as QuantizedCall has it.
  void (*narrow)(const float* row, int64_t k, int16_t* to, float* scales, float* sums);
  WidenQuantized widen;
};
QuantizedFunctions quantized_avx2();
QuantizedFunctions quantized_avx512();

struct QuantizedDesc {
  int64_t m = 0, n = 0, k = 0;
  bool bias = false, accumulate = false;  // as of MatmulDesc
  Activation activation = Activation::none;
  int threads = 1;
};
struct QuantizedArgs {
  const float* a = nullptr;
  const uint8_t* numbers = nullptr;
  const float *scales = nullptr, *bias = nullptr;
  float* c = nullptr;
  void* workspace = nullptr;  // 64-byte aligned
};

// Prepared once. Equal inputs give equal bits for any number of threads. Immutable.
class QuantizedMatmul {
 public:
  // What it does for a desc, without building it; or an empty name, and why the machine cannot.
  static KernelChoice choose(const QuantizedDesc& desc, Isa max_isa = Isa::avx512);
  // With the best instruction set up to max_isa, which is avx2 or above. Throws what make_matmul()
  // does.
  explicit QuantizedMatmul(const QuantizedDesc& desc, Isa max_isa = Isa::avx512);
  ~QuantizedMatmul();
  void run(const QuantizedArgs& args) const;  // [thread: compute]

 private:
  void few_rows(const QuantizedArgs& args, int64_t row, int64_t rows) const;
  void store(const QuantizedArgs& args, const float* sums, int64_t row, int64_t rows, int64_t first,
             int64_t outputs) const;
  QuantizedDesc desc_;
  int64_t blocks_;
  int threads_;
  QuantizedFunctions functions_;
  ActivationFunction activate_;
  std::unique_ptr<MatmulKernel> blocked_;  // of many rows
};

}  // namespace plait::cpu
