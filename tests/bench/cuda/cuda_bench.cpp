// Single kernels of the CUDA device beside what limits them: products beside the best of cuBLASLt's
// algorithms, all others beside the rate of a copy.
//
//   cuda_bench PLUGIN.so [--seconds=N] [--only=TEXT]   40 by default; the lines with TEXT in them
//
// A line for each measurement, then all of them as JSON lines. Times are medians of launches of a
// graph that repeats the work, on operands that are no longer in the GPU's cache.
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "tests/bench/cuda/lab.hpp"

int main(int argc, char** argv) try {
  double seconds = 40;
  std::string path;
  cuda_bench::Report report;
  for (int i = 1; i < argc; ++i) {
    const std::string_view a = argv[i];
    if (a.starts_with("--seconds="))
      seconds = std::atof(argv[i] + 10);
    else if (a.starts_with("--only="))
      report.only(argv[i] + 7);
    else
      path = a;
  }
  if (path.empty()) {
    std::fprintf(stderr, "cuda_bench PLUGIN.so [--seconds=N] [--only=TEXT]\n");
    return 2;
  }
  const conformance::Plugin plugin(path);
  const conformance::Device device(plugin);
  plait_device_info info{};
  info.struct_size = sizeof info;
  conformance::check(device.item().info(device.get(), &info));
  std::printf("%s\n", info.summary);
  cuda_bench::Lab lab(device);
  constexpr double kShareOfOps = 0.4;
  cuda_bench::bench_ops(lab, report, kShareOfOps * seconds);
  conformance::check(device.item().info(device.get(), &info));
  std::printf("%s\n", info.summary);  // with what kernels used, such as cuDNN
  try {
    cuda_bench::bench_products(lab, report, seconds);
  } catch (const std::exception& e) {
    report.skipped("product", "all", e.what());
  }
  report.print_json();
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "[cuda_bench] %s\n", e.what());
  return 1;
}
