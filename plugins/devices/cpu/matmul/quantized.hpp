// Products of rows with quantized weights: c[m,n] = act(a[m,k] * b[k,n] + bias[n]), where b or its
// transpose is stored as kit/quantized.hpp says. The weights are read once by a few rows; many rows
// multiply them in blocks, as f32. Depends on nothing outside of this folder but the pool and that
// header.
//   R rows of a call; B = ceil(k/32) blocks of int8 weights (n, k)
#pragma once

#include <cstdint>
#include <memory>

#include "kit/quantized.hpp"
#include "plugins/devices/cpu/matmul/activation.hpp"
#include "plugins/devices/cpu/matmul/matmul.hpp"
#include "plugins/devices/cpu/matmul/stream.hpp"

namespace plait::cpu {

constexpr int64_t kWeightBlock = kit::kInt8Block;
constexpr int64_t weight_blocks(int64_t k) { return (k + kWeightBlock - 1) / kWeightBlock; }

// So many rows are rounded to 16 bits, which costs a weight fewer instructions: with a scale for
// each block, an error of at most its greatest absolute value / 65534 in each number.
constexpr int64_t kMostNarrowRows = 3;

// A row of weights.
struct QuantizedRow {
  const uint8_t* numbers = nullptr;
  const float* scales = nullptr;
  int64_t codes = 0;  // of nf4: the byte at which codes of scales begin
};
// Rows of weights: their distances in bytes and floats.
struct QuantizedRows {
  const uint8_t* numbers = nullptr;
  const float* scales = nullptr;
  int64_t bytes = 0, floats = 0, codes = 0;
  QuantizedRow row(int64_t i) const { return {numbers + i * bytes, scales + i * floats, codes}; }
};

// sums[r * kStreamGroup + j] = the sum over k of rows[r,k] * weights[j,k]. The order of a sum
// follows from k and R alone.
struct QuantizedCall : QuantizedRows {   // (outputs, k)
  const float* rows = nullptr;           // (R, k); of int8 and kMostNarrowRows or fewer those below
  const int16_t* narrow = nullptr;       // (R, 32 B): rows / narrow_scales, zeros behind k
  const float* narrow_scales = nullptr;  // (R, B)
  const float* narrow_sums = nullptr;    // (R, B): -128 * the sum of a block of the rows
  float* sums = nullptr;
  int64_t k = 0, blocks = 0;
  int64_t outputs = 0;  // at most kStreamGroup
};

// sums[r * stride + j] += the sum over k of rows[r,k] * weights[k,j], j from first to last, in the
// order of k. `first` is a multiple of 16.
struct QuantizedSumsCall : QuantizedRows {  // (k, columns)
  const float* rows = nullptr;              // (R, k)
  float* sums = nullptr;
  int64_t k = 0, stride = 0, first = 0, last = 0;
};

// Columns [first, first + n) of a row as f32. `first` is a multiple of 16.
using WidenQuantized = void (*)(const QuantizedRow& row, int64_t first, int64_t n, float* to);

// The functions of one instruction set. [thread: any] They do not allocate or throw.
struct QuantizedFunctions {
  using Dots = void (*)(const QuantizedCall&);
  using Sums = void (*)(const QuantizedSumsCall&);
  // For 1 to kMostStreamRows rows, by their number - 1.
  Dots dots[kMostStreamRows], dots_nf4[kMostStreamRows];
  Sums sums[kMostStreamRows], sums_nf4[kMostStreamRows];
  // One row of k numbers as QuantizedCall has it.
  void (*narrow)(const float* row, int64_t k, int16_t* to, float* scales, float* sums);
  WidenQuantized widen, widen_nf4;
};
QuantizedFunctions quantized_avx2();
QuantizedFunctions quantized_avx512();

struct QuantizedDesc {
  int64_t m = 0, n = 0, k = 0;
  bool bias = false, accumulate = false;  // as of MatmulDesc
  Activation activation = Activation::none;
  int threads = 1;
  kit::QuantFormat format = kit::QuantFormat::kInt8;
  bool transpose_b = true;  // the weights are (n, k), else (k, n)
  kit::QuantRow row() const { return {format, transpose_b ? k : n}; }
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
  void few_sums(const QuantizedArgs& args, int64_t row, int64_t rows) const;
  void store(const QuantizedArgs& args, const float* sums, int64_t row, int64_t rows, int64_t first,
             int64_t outputs) const;
  QuantizedDesc desc_;
  kit::QuantRow row_;
  int threads_;
  QuantizedFunctions functions_;
  ActivationFunction activate_;
  std::unique_ptr<MatmulKernel> blocked_;  // of many rows
};

}  // namespace plait::cpu
