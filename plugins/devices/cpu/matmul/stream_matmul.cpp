// A few rows times weights (n,k) that are larger than a cache, as when a language model makes one
// token: the time is that of reading the weights. They are neither packed nor read twice; lanes run
// along k, and threads divide the outputs.

#include <algorithm>

#include "plugins/devices/cpu/matmul/activation.hpp"
#include "plugins/devices/cpu/matmul/candidates.hpp"
#include "plugins/devices/cpu/matmul/isa.hpp"
#include "plugins/devices/cpu/matmul/stream.hpp"
#include "plugins/devices/cpu/parallel.hpp"

namespace plait::cpu {
namespace {

// Outputs of a thread come in whole groups and in whole lines of C.
constexpr int64_t kPart = 4 * kStreamGroup;

int64_t parts_of(const MatmulDesc& d) { return (d.n + kPart - 1) / kPart; }

int threads_of(const MatmulDesc& d) {
  constexpr double kNanosecondsPerByte = 0.08;
  const double bytes = static_cast<double>(d.n) * static_cast<double>(d.k) * sizeof(float);
  return choose_num_threads(static_cast<uint32_t>(d.threads), bytes * kNanosecondsPerByte,
                            parts_of(d));
}

class StreamMatmul final : public MatmulKernel {
 public:
  StreamMatmul(const MatmulDesc& desc, Isa isa)
      : desc_(desc),
        isa_(isa),
        threads_(threads_of(desc)),
        dots_(isa == Isa::avx512 ? dots_avx512(desc.m, desc.half_b)
                                 : dots_avx2(desc.m, desc.half_b)),
        activate_(activation_function(desc.activation, isa)) {}

  void run(const MatmulArgs& args) const override {
    in_parallel(threads_, parts_of(desc_), [&](int64_t first, int64_t last) {
      outputs(args, first * kPart, std::min(last * kPart, desc_.n));
    });
  }
  std::string_view name() const override {
    return isa_ == Isa::avx512 ? "stream_avx512" : "stream_avx2";
  }
  size_t workspace_bytes() const override { return 0; }

 private:
  // Columns [first, last) of C.
  void outputs(const MatmulArgs& args, int64_t first, int64_t last) const {
    if (first >= last) return;
    for (int64_t j = first; j < last; j += kStreamGroup)
      group(args, j, std::min(kStreamGroup, last - j));
    if (activate_ != nullptr)
      for (int64_t row = 0; row < desc_.m; ++row)
        activate_(args.c + row * desc_.n + first, last - first);
  }

  const void* weights_at(const MatmulArgs& args, int64_t output) const {
    if (desc_.half_b == Half::none) return args.b + output * desc_.k;
    return reinterpret_cast<const uint16_t*>(args.b) + output * desc_.k;
  }
  void group(const MatmulArgs& args, int64_t first, int64_t outputs) const {
    float sums[kMostStreamRows * kStreamGroup];
    dots_({weights_at(args, first), args.a, sums, desc_.k, outputs});
    for (int64_t row = 0; row < desc_.m; ++row) {
      const float* sum = sums + row * kStreamGroup;
      float* c = args.c + row * desc_.n + first;
      for (int64_t j = 0; j < outputs; ++j)
        c[j] = desc_.accumulate ? c[j] + sum[j]
               : desc_.bias     ? sum[j] + args.bias[first + j]
                                : sum[j];
    }
  }

  const MatmulDesc desc_;
  const Isa isa_;
  const int threads_;
  const DotFunction dots_;
  const ActivationFunction activate_;
};

}  // namespace

Capability stream_capability(const MatmulDesc& d, Isa isa) {
  Capability capability;
  capability.refusal = unsupported(isa);
  if (!capability.refusal.empty()) return capability;
  if (d.batch != 1) capability.refusal = "takes one product";
  if (d.m < 1 || d.m > kMostStreamRows)
    capability.refusal = "takes 1 to " + std::to_string(kMostStreamRows) + " rows";
  if (d.n < 1 || d.k < 1) capability.refusal = "nothing to read";
  if (!d.transpose_b || (d.transpose_a && d.m != 1))
    capability.refusal = "takes rows and weights whose summed dimension is contiguous";
  if (d.squares) capability.refusal = "takes no sum of squares";
  return capability;
}

std::unique_ptr<MatmulKernel> make_stream(const MatmulDesc& desc, Isa isa) {
  return std::make_unique<StreamMatmul>(desc, isa);
}

}  // namespace plait::cpu
