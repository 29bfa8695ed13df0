// The limit of memory: reading 512 MiB in order, GB/s, with 1 and 2 threads; the best of several
// rounds. Prints one JSON line.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

namespace {

constexpr size_t kWords = size_t{64} << 20;

// In vectors, from eight places at a time, as a memory of several channels likes it.
template <class Vector>
[[gnu::always_inline]] inline uint64_t sum_in(const uint64_t* at, size_t n) {
  constexpr size_t kPlaces = 8, kLanes = sizeof(Vector) / sizeof(uint64_t);
  const size_t part = n / kPlaces;
  Vector sums[kPlaces] = {};
  for (size_t i = 0; i + kLanes <= part; i += kLanes)
    for (size_t k = 0; k < kPlaces; ++k)
      sums[k] += *reinterpret_cast<const Vector*>(at + k * part + i);
  uint64_t total = 0;
  for (const Vector& s : sums)
    for (size_t k = 0; k < kLanes; ++k) total += s[k];
  return total;
}
typedef uint64_t Wide [[gnu::vector_size(64), gnu::aligned(8), gnu::may_alias]];
typedef uint64_t Narrow [[gnu::vector_size(32), gnu::aligned(8), gnu::may_alias]];

[[gnu::target("avx512f")]] uint64_t sum_avx512(const uint64_t* at, size_t n) {
  return sum_in<Wide>(at, n);
}
[[gnu::target("avx2")]] uint64_t sum_avx2(const uint64_t* at, size_t n) {
  return sum_in<Narrow>(at, n);
}
uint64_t sum_of(const uint64_t* at, size_t n) {
  if (__builtin_cpu_supports("avx512f")) return sum_avx512(at, n);
  if (__builtin_cpu_supports("avx2")) return sum_avx2(at, n);
  uint64_t total = 0;
  for (size_t i = 0; i < n; ++i) total += at[i];
  return total;
}

double rate_of(const std::vector<uint64_t>& data, size_t threads) {
  double best = 0;
  for (int round = 0; round < 7; ++round) {
    std::vector<uint64_t> sums(threads);
    std::vector<std::thread> pool;
    const auto start = std::chrono::steady_clock::now();
    for (size_t t = 0; t < threads; ++t)
      pool.emplace_back(
          [&, t] { sums[t] = sum_of(data.data() + t * (kWords / threads), kWords / threads); });
    for (std::thread& one : pool) one.join();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    volatile uint64_t sink = sums[0];  // the sums are needed
    (void)sink;
    best = std::max(best, 8e-9 * kWords / took.count());
  }
  return best;
}

}  // namespace

int main() {
  std::vector<uint64_t> data(kWords);
  for (size_t i = 0; i < kWords; ++i) data[i] = i;
  std::printf("{\"threads_1\": %.2f, \"threads_2\": %.2f}\n", rate_of(data, 1), rate_of(data, 2));
}
