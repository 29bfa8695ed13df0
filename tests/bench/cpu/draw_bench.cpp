// Drawing a token from each row of logits: the kernels of a device, the plain one among them, which
// is what the sampler of the host does; beside them an exponential of each logit by the C library.
//
//   draw_bench PLUGIN.so [threads]     default 1
//
// Microseconds of a launch, the best round, and nanoseconds of a logit.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "kit/draw_token.hpp"
#include "tests/bench/cpu/launch_times.hpp"
#include "tests/conformance/runner.hpp"

namespace {

using namespace conformance;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 25;

struct Kind {
  const char* name;
  plait::kit::DrawSettings settings;
};

std::vector<Kind> kinds() {
  plait::kit::DrawSettings all, nucleus, cut, greedy;
  all.log_probability = true;
  nucleus.top_p = 0.9;
  cut.temperature = 0.8, cut.top_k = 50, cut.top_p = 0.9;
  greedy.temperature = 0;
  return {{"all", {}},
          {"all, log-probability", all},
          {"top_p", nucleus},
          {"top_k, top_p", cut},
          {"greedy", greedy}};
}

Case draw_of(int64_t rows, int64_t v, plait::kit::DrawSettings s) {
  Input settings{f32({rows, plait::kit::kDrawSettings})},
      numbers{shape(PLAIT_I32, {rows, plait::kit::kDrawNumbers})};
  s.ids = v;
  for (int64_t r = 0; r < rows; ++r) {
    s.sequence = static_cast<uint64_t>(r);
    float of_row[plait::kit::kDrawSettings];
    int32_t words[plait::kit::kDrawNumbers];
    plait::kit::write_row(s, of_row, words);
    for (const float f : of_row) settings.set.emplace_back(settings.set.size(), f);
    for (const int32_t i : words) numbers.set.emplace_back(numbers.set.size(), i);
  }
  return {"",
          "draw_tokens",
          {{f32({rows, v}), -12, 4}, settings, numbers},
          {shape(PLAIT_I32, {rows}), f32({rows})}};
}

double seconds_of_exp(int64_t n) {
  std::vector<float> x(static_cast<size_t>(n));
  for (size_t i = 0; i < x.size(); ++i) x[i] = -static_cast<float>(i % 997) / 70;
  double best = 1e30;
  volatile float sink = 0;
  for (int i = 0; i < kRounds; ++i) {
    const Clock::time_point start = Clock::now();
    for (float& v : x) sink = std::exp(v);
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  static_cast<void>(sink);
  return best;
}

void print(const char* kernel, int64_t rows, int64_t v, const char* kind, double seconds) {
  std::printf("%-8s %3ld %7ld  %-22s %9.1f  %6.3f\n", kernel, static_cast<long>(rows),
              static_cast<long>(v), kind, seconds * 1e6,
              seconds * 1e9 / static_cast<double>(rows * v));
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "draw_bench PLUGIN.so [threads]\n");
    return 2;
  }
  const Plugin plugin(argv[1]);
  const OptionValues options{{"threads", argc > 2 ? argv[2] : "1"}};
  const Device device(plugin, options);
  std::printf("kernel     N       V  settings                     us   ns/id\n");
  for (const int64_t v : {50257, 128256}) {
    print("expf", 1, v, "one thread", seconds_of_exp(v));
    for (const int64_t rows : {1, 32})
      for (const Kind& kind : kinds())
        for (const auto* kernel : plugin.kernels("draw_tokens"))
          print(kernel->name, rows, v, kind.name,
                launch_times(device, *kernel, draw_of(rows, v, kind.settings), kRounds).front());
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "[draw_bench] %s\n", e.what());
  return 1;
}
