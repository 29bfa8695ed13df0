// Code shared by the all-reduce programs: sizes, and rounds in which rank 0 leads and the other
// rank follows.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace bench_comm {

constexpr uint64_t kSizes[] = {4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20};  // bytes of f32

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Rank 0. tell(i, times) tells the other rank what comes next; all_reduce(i) runs it once. Every
// line on stdin is a round, which prints {"4096": µs, ..., "best_4096": µs, ...}: the median and
// the minimum of single calls, which change less than a mean if a rank is preempted now and then.
template <class Tell, class AllReduce>
void lead(double seconds, Tell&& tell, AllReduce&& all_reduce) {
  std::puts(R"({"ready": true})");
  std::fflush(stdout);
  std::vector<double> times;
  for (int c; (c = std::getchar()) != EOF;) {
    if (c != '\n') continue;
    const char* before = "{";
    for (uint64_t i = 0; i < std::size(kSizes); ++i) {
      times.clear();
      const double end = now() + seconds;
      do {
        const int batch = kSizes[i] < 1 << 20 ? 1000 : 5;
        tell(i, batch);
        for (int k = 0; k < batch; ++k) {
          const double begin = now();
          all_reduce(i);
          times.push_back(1e6 * (now() - begin));
        }
      } while (now() < end);
      std::sort(times.begin(), times.end());
      const auto bytes = static_cast<unsigned long long>(kSizes[i]);
      std::printf("%s\"%llu\": %.3f, \"best_%llu\": %.3f", before, bytes, times[times.size() / 2],
                  bytes, times[0]);
      before = ", ";
    }
    std::puts("}");
    std::fflush(stdout);
  }
}

}  // namespace bench_comm
