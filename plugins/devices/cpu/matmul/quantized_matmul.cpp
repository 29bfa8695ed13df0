#include <algorithm>

#include "plugins/devices/cpu/matmul/isa.hpp"
#include "plugins/devices/cpu/matmul/quantized.hpp"
#include "plugins/devices/cpu/parallel.hpp"

namespace plait::cpu {
namespace {

// Outputs of a thread come in whole groups and in whole lines of C.
constexpr int64_t kPart = 4 * kStreamGroup;

int64_t parts_of(const QuantizedDesc& d) { return (d.n + kPart - 1) / kPart; }

int threads_of(const QuantizedDesc& d) {
  // To read a weight, and to multiply it by eight rows.
  constexpr double kNanoseconds = 0.04;
  const double weights = static_cast<double>(d.n) * static_cast<double>(d.k);
  const double times = static_cast<double>((d.m + kMostStreamRows - 1) / kMostStreamRows);
  return choose_num_threads(static_cast<uint32_t>(d.threads), weights * times * kNanoseconds,
                            parts_of(d));
}

uint64_t lines(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

// Where the rows of 16 bits lie in the workspace, in this order.
struct NarrowBytes {
  uint64_t rows, scales;  // and as many bytes for the sums
  NarrowBytes(int64_t m, int64_t blocks)
      : rows(lines(static_cast<uint64_t>(m * blocks * kWeightBlock) * sizeof(int16_t))),
        scales(lines(static_cast<uint64_t>(m * blocks) * sizeof(float))) {}
  uint64_t all() const { return rows + 2 * scales; }
};

}  // namespace

std::string QuantizedMatmul::refusal() {
  return machine_isa() == Isa::plain ? "the machine has no AVX2 with FMA" : "";
}

QuantizedMatmul::QuantizedMatmul(const QuantizedDesc& desc, Isa max_isa)
    : desc_(desc),
      blocks_((desc.k + kWeightBlock - 1) / kWeightBlock),
      threads_(threads_of(desc)),
      avx512_(limit_isa(max_isa) == Isa::avx512) {
  const Isa isa = avx512_ ? Isa::avx512 : Isa::avx2;  // see refusal()
  functions_ = avx512_ ? quantized_avx512() : quantized_avx2();
  for (int64_t rows = 1; rows <= kMostStreamRows; ++rows)
    wide_[rows - 1] = avx512_ ? dots_avx512(rows, Half::none) : dots_avx2(rows, Half::none);
  activate_ = activation_function(desc.activation, isa);
}

std::string QuantizedMatmul::name() const {
  const char* how = desc_.m <= kMostNarrowRows   ? ", rows of 16 bits"
                    : desc_.m <= kMostStreamRows ? ""
                                                 : ", weights widened for many rows";
  return std::string(avx512_ ? "quantized_avx512" : "quantized_avx2") + how;
}

uint64_t QuantizedMatmul::workspace_bytes() const {
  if (desc_.m <= kMostNarrowRows) return NarrowBytes(desc_.m, blocks_).all();
  if (desc_.m <= kMostStreamRows) return 0;
  return static_cast<uint64_t>(threads_) *
         lines(static_cast<uint64_t>(kStreamGroup * desc_.k) * sizeof(float));
}

void QuantizedMatmul::run(const QuantizedArgs& args) const {
  if (desc_.m == 0 || desc_.n == 0) return;
  if (desc_.m <= kMostStreamRows)
    few_rows(args);
  else
    many_rows(args);
}

void QuantizedMatmul::few_rows(const QuantizedArgs& args) const {
  QuantizedCall call;
  call.rows = args.a;
  call.k = desc_.k;
  call.blocks = blocks_;
  if (desc_.m <= kMostNarrowRows) {
    const NarrowBytes bytes(desc_.m, blocks_);
    auto* at = static_cast<char*>(args.workspace);
    auto* narrow = reinterpret_cast<int16_t*>(at);
    auto* scales = reinterpret_cast<float*>(at + bytes.rows);
    auto* sums = reinterpret_cast<float*>(at + bytes.rows + bytes.scales);
    for (int64_t row = 0; row < desc_.m; ++row)
      functions_.narrow(args.a + row * desc_.k, desc_.k, narrow + row * blocks_ * kWeightBlock,
                        scales + row * blocks_, sums + row * blocks_);
    call.narrow = narrow;
    call.narrow_scales = scales;
    call.narrow_sums = sums;
  }
  in_parallel(threads_, parts_of(desc_), [&](int64_t first_part, int64_t last_part) {
    float sums[kMostStreamRows * kStreamGroup];
    QuantizedCall own = call;
    own.sums = sums;
    const int64_t last = std::min(last_part * kPart, desc_.n);
    for (int64_t j = first_part * kPart; j < last; j += kStreamGroup) {
      own.numbers = args.numbers + j * desc_.k;
      own.scales = args.scales + j * blocks_;
      own.outputs = std::min(kStreamGroup, last - j);
      functions_.dots[desc_.m - 1](own);
      store(args, sums, 0, desc_.m, j, own.outputs);
    }
  });
}

// A group of outputs at a time becomes f32, which all rows then read from a cache.
void QuantizedMatmul::many_rows(const QuantizedArgs& args) const {
  const uint64_t panel = lines(static_cast<uint64_t>(kStreamGroup * desc_.k) * sizeof(float));
  on_pool(threads_, [&](int64_t thread, int64_t all) {
    auto* weights = reinterpret_cast<float*>(static_cast<char*>(args.workspace) +
                                             static_cast<uint64_t>(thread) * panel);
    float sums[kMostStreamRows * kStreamGroup];
    const int64_t parts = parts_of(desc_);
    const int64_t last = std::min((thread + 1) * parts / all * kPart, desc_.n);
    for (int64_t j = thread * parts / all * kPart; j < last; j += kStreamGroup) {
      const int64_t outputs = std::min(kStreamGroup, last - j);
      for (int64_t i = 0; i < outputs; ++i)
        functions_.widen(args.numbers + (j + i) * desc_.k, args.scales + (j + i) * blocks_, desc_.k,
                         weights + i * desc_.k);
      for (int64_t row = 0; row < desc_.m; row += kMostStreamRows) {
        const int64_t rows = std::min(kMostStreamRows, desc_.m - row);
        wide_[rows - 1]({weights, args.a + row * desc_.k, sums, desc_.k, outputs});
        store(args, sums, row, rows, j, outputs);
      }
    }
  });
}

// `rows` rows of a group of outputs from `first` on.
void QuantizedMatmul::store(const QuantizedArgs& args, const float* sums, int64_t row, int64_t rows,
                            int64_t first, int64_t outputs) const {
  for (int64_t r = 0; r < rows; ++r) {
    const float* sum = sums + r * kStreamGroup;
    float* c = args.c + (row + r) * desc_.n + first;
    for (int64_t j = 0; j < outputs; ++j)
      c[j] = desc_.accumulate ? c[j] + sum[j] : desc_.bias ? sum[j] + args.bias[first + j] : sum[j];
    if (activate_ != nullptr) activate_(c, outputs);
  }
}

}  // namespace plait::cpu
