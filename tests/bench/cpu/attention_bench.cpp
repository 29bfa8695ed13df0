// The CPU device's attention: causal, f32, forward and backward, at shapes of language models.
//
//   attention_bench PLUGIN.so [threads]     default 1
//
// GFLOP/s are medians of rounds and count the multiplications of half of the scores, which is what
// a causal mask leaves. `bench_fma --threads N` measures the limit.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <vector>

#include "tests/conformance/runner.hpp"

namespace {

using namespace conformance;
using Clock = std::chrono::steady_clock;

struct Size {
  int64_t samples, tokens, heads, groups, channels;
};
constexpr Size kSizes[] = {{4, 256, 12, 12, 64},
                           {1, 1024, 12, 12, 64},
                           {1, 4096, 12, 12, 64},
                           {1, 2048, 16, 4, 128},
                           {8, 256, 6, 6, 64}};
constexpr int kRounds = 9;

Case forward_of(const Size& s) {
  const plait_shape q = f32({s.samples, s.tokens, s.heads, s.channels}),
                    k = f32({s.samples, s.tokens, s.groups, s.channels});
  return {"",
          "dot_product_attention",
          {{q}, {k}, {k}},
          {q, f32({s.samples, s.heads, s.tokens})},
          {real("scale", 1 / std::sqrt(static_cast<double>(s.channels)))}};
}
Case backward_of(const Size& s) {
  Case c = forward_of(s);
  const plait_shape q = c.inputs[0].shape, k = c.inputs[1].shape;
  c.op = "dot_product_attention_grad";
  c.inputs.push_back({q});
  c.inputs.push_back({c.outputs[1], 5, 6});
  c.inputs.push_back({q});
  c.outputs = {q, k, k};
  return c;
}

// Seconds of one launch.
double seconds_of(const Device& device, const Case& c) {
  const plait_kernel_item& item = *device.plugin().kernels(c.op).at(0);
  const Desc desc(c, device.threads());
  const Selection chosen = select(item, desc);
  if (!chosen.taken) throw std::runtime_error("the first kernel of " + c.op + " refuses");
  plait_kernel* kernel = nullptr;
  check(item.prepare(device.plugin().host(), device.get(), &desc.get(), &kernel));
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<void*> operands;
  const auto add = [&](uint64_t bytes) {
    buffers.push_back(std::make_unique<Buffer>(device, bytes));
    return buffers.back()->data();
  };
  for (const Bytes& data : fill(c)) {
    operands.push_back(add(data.size()));
    buffers.back()->put(data);
  }
  for (const plait_shape& y : c.outputs) operands.push_back(add(bytes_of(y)));
  void* workspace = add(chosen.workspace);
  std::vector<double> rounds;
  for (int i = 0; i < kRounds; ++i) {
    const Clock::time_point start = Clock::now();
    check(device.item().enqueue(device.queue(), &item, kernel, operands.data(),
                                static_cast<uint32_t>(operands.size()), workspace));
    check(device.item().sync(device.queue()));
    rounds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  item.release(kernel);
  std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
  return rounds[kRounds / 2];
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "attention_bench PLUGIN.so [threads]\n");
    return 2;
  }
  const Plugin plugin(argv[1]);
  const OptionValues options{{"threads", argc > 2 ? argv[2] : "1"}};
  const Device device(plugin, options);
  std::printf("  B     T   H  G    d   forward ms  GFLOP/s   backward ms  GFLOP/s\n");
  for (const Size& s : kSizes) {
    const double product = static_cast<double>(s.samples * s.heads * s.tokens * s.tokens) *
                           static_cast<double>(s.channels);  // two FLOPs for half of the scores
    const double forward = seconds_of(device, forward_of(s)),
                 backward = seconds_of(device, backward_of(s));
    std::printf("%3ld %5ld %3ld %2ld %4ld   %10.2f  %7.1f   %11.2f  %7.1f\n",
                static_cast<long>(s.samples), static_cast<long>(s.tokens),
                static_cast<long>(s.heads), static_cast<long>(s.groups),
                static_cast<long>(s.channels), forward * 1e3, 2e-9 * product / forward,
                backward * 1e3, 5e-9 * product / backward);
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "[attention_bench] %s\n", e.what());
  return 1;
}
