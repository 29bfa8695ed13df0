// The CPU device's attention: causal, forward and backward, at shapes of language models; and over
// a cache, one token of each sequence and a chunk of its first ones.
//
//   attention_bench PLUGIN.so [threads [bf16 | cached]]     default 1, f32 and both parts;
//                                                           bf16: the first part in bf16
//
// GFLOP/s are medians of rounds and count the multiplications of half of the scores, which is what
// a causal mask leaves. `bench_fma --threads N [--bf16]` measures the limit. Of one token the limit
// is reading the cache: GB/s of keys and values, the best round (part 3 of matmul_bench measures
// the rate).
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "tests/bench/cpu/launch_times.hpp"
#include "tests/conformance/runner.hpp"

namespace {

using namespace conformance;

struct Size {
  int64_t samples, tokens, heads, groups, channels;
};
constexpr Size kSizes[] = {{4, 256, 12, 12, 64},
                           {1, 1024, 12, 12, 64},
                           {1, 4096, 12, 12, 64},
                           {1, 2048, 16, 4, 128},
                           {8, 256, 6, 6, 64}};
constexpr int kRounds = 15;

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

// lse stays f32.
Case in_bf16(Case c) {
  const auto change = [](plait_shape& s) {
    if (s.ndim == 4) s.dtype = PLAIT_BF16;
  };
  for (Input& x : c.inputs) change(x.shape);
  for (plait_shape& y : c.outputs) change(y);
  return c;
}

struct Cached {
  int64_t samples, tokens, places, heads, groups, channels;
};
constexpr Cached kCached[] = {{1, 1, 1024, 12, 12, 64},  {8, 1, 1024, 12, 12, 64},
                              {1, 1, 4096, 32, 8, 128},  {8, 1, 2048, 32, 8, 128},
                              {1, 4, 1024, 12, 12, 64},  {1, 64, 1024, 12, 12, 64},
                              {1, 512, 1024, 12, 12, 64}};

// Queries at the last places of a cache that is full.
Case cached_of(const Cached& s) {
  const plait_shape q = f32({s.samples, s.tokens, s.heads, s.channels}),
                    k = f32({s.samples, s.places, s.groups, s.channels});
  Input slot{shape(PLAIT_I32, {s.samples}), 0, 1},
      at{shape(PLAIT_I32, {s.samples, s.tokens}), 0, 1};
  for (int64_t b = 0; b < s.samples; ++b) {
    slot.set.push_back({b, static_cast<double>(b)});
    for (int64_t i = 0; i < s.tokens; ++i)
      at.set.push_back({b * s.tokens + i, static_cast<double>(s.places - s.tokens + i)});
  }
  return {"",
          "attention_cached",
          {{q}, {k}, {k}, slot, at},
          {q},
          {real("scale", 1 / std::sqrt(static_cast<double>(s.channels)))}};
}

struct Times {
  double median, least;
};

// Seconds of one launch.
Times seconds_of(const Device& device, const Case& c) {
  const Desc desc(c, device.threads());
  const auto kernels = device.plugin().kernels(c.op);  // the plain one takes every call
  size_t first = 0;
  while (!select(*kernels.at(first), desc).taken) ++first;
  const plait_kernel_item& item = *kernels[first];
  const std::vector<double> times = launch_times(device, item, c, kRounds);
  return {times[times.size() / 2], times.front()};
}

void bench_cached(const Device& device) {
  std::printf("\n  B    t     S   H  G    d   ms, best    GB/s  GFLOP/s\n");
  for (const Cached& s : kCached) {
    const double seconds = seconds_of(device, cached_of(s)).least;
    const double keys = static_cast<double>(s.samples * s.places * s.channels);
    std::printf("%3ld %4ld %5ld %3ld %2ld %4ld   %8.3f  %6.1f  %7.1f\n",
                static_cast<long>(s.samples), static_cast<long>(s.tokens),
                static_cast<long>(s.places), static_cast<long>(s.heads),
                static_cast<long>(s.groups), static_cast<long>(s.channels), seconds * 1e3,
                8e-9 * keys * static_cast<double>(s.groups) / seconds,
                4e-9 * keys * static_cast<double>(s.heads * s.tokens) / seconds);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "attention_bench PLUGIN.so [threads [bf16 | cached]]\n");
    return 2;
  }
  const Plugin plugin(argv[1]);
  const OptionValues options{{"threads", argc > 2 ? argv[2] : "1"}};
  const Device device(plugin, options);
  const std::string part = argc > 3 ? argv[3] : "";
  if (part == "cached") return bench_cached(device), 0;
  std::printf("  B     T   H  G    d   forward ms  GFLOP/s   backward ms  GFLOP/s\n");
  for (const Size& s : kSizes) {
    const double product = static_cast<double>(s.samples * s.heads * s.tokens * s.tokens) *
                           static_cast<double>(s.channels);  // two FLOPs for half of the scores
    const auto typed = [&part](Case c) { return part == "bf16" ? in_bf16(std::move(c)) : c; };
    const double forward = seconds_of(device, typed(forward_of(s))).median,
                 backward = seconds_of(device, typed(backward_of(s))).median;
    std::printf("%3ld %5ld %3ld %2ld %4ld   %10.2f  %7.1f   %11.2f  %7.1f\n",
                static_cast<long>(s.samples), static_cast<long>(s.tokens),
                static_cast<long>(s.heads), static_cast<long>(s.groups),
                static_cast<long>(s.channels), forward * 1e3, 2e-9 * product / forward,
                backward * 1e3, 5e-9 * product / backward);
  }
  if (part.empty()) bench_cached(device);
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "[attention_bench] %s\n", e.what());
  return 1;
}
