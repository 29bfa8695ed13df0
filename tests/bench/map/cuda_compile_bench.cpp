// How long NVRTC takes to compile generated maps, without a GPU: each in a program of its own, on
// one thread and on several; and many in one program, for comparison.
//
//   cuda_compile_bench [MAPS]   32 by default
//
// MAPS different maps of the tests' random expressions, for sm_90. Times are of this machine's
// cores.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>
#include <vector>

#include "plugins/devices/cuda/map/compiler.hpp"
#include "tests/cuda_map/cases.hpp"

namespace {

using plait::cuda::map::Compiler;

// Milliseconds until `threads` threads have compiled all texts.
double milliseconds(const Compiler& compiler, const std::vector<std::string>& texts,
                    unsigned threads) {
  const auto begin = std::chrono::steady_clock::now();
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < texts.size(); i = next++)
      (void)compiler.compile(texts[i], Compiler::options("sm_90"));
  };
  std::vector<std::thread> others;
  for (unsigned t = 1; t < threads; ++t) others.emplace_back(work);
  work();
  for (std::thread& t : others) t.join();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

// The sources in programs of `each`.
std::vector<std::string> programs_of(const std::vector<cuda_map::Generated>& all, size_t each) {
  std::vector<std::string> texts((all.size() + each - 1) / each);
  for (size_t i = 0; i < all.size(); ++i) texts[i / each] += all[i].source.text;
  return texts;
}

}  // namespace

int main(int argc, char** argv) try {
  const uint32_t maps = argc > 1 ? static_cast<uint32_t>(std::atoi(argv[1])) : 32;
  const Compiler compiler(CUDA_MAP_LIBRARIES);
  if (!compiler) {
    std::printf("skipped: %s\n", compiler.why().c_str());
    return 0;
  }
  std::vector<cuda_map::Case> cases;
  for (uint32_t seed = 1; seed <= 2 * maps; ++seed) cases.push_back(cuda_map::random_case(seed));
  auto all = cuda_map::generate(cases);
  all.resize(std::min<size_t>(all.size(), maps));
  milliseconds(compiler, {all[0].source.text}, 1);  // opens what NVRTC itself opens
  const unsigned cores = std::max(std::thread::hardware_concurrency(), 1u);
  std::printf("%zu maps, NVRTC %d.%d, %u cores\n", all.size(), compiler.version() / 1000,
              compiler.version() / 10 % 100, cores);
  std::printf("%-22s %8s %12s %10s\n", "maps of a program", "threads", "ms in all", "ms a map");
  for (const size_t each : {size_t{1}, size_t{8}, all.size()})
    for (unsigned threads = 1; threads <= std::min(cores, 8u); threads *= 2) {
      const auto texts = programs_of(all, each);
      if (threads > texts.size()) continue;
      const double all_ms = milliseconds(compiler, texts, threads);
      std::printf("%-22zu %8u %12.0f %10.1f\n", each, threads, all_ms,
                  all_ms / static_cast<double>(all.size()));
    }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "[cuda_compile_bench] %s\n", e.what());
  return 1;
}
