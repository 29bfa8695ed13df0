// The limit of the arithmetic: fused multiply-adds on registers only, GFLOP/s of f32. AVX-512, AVX2
// and scalar code, as far as this machine supports them. With --bf16 of products of bf16, which are
// added up as f32, where the machine has tiles (AMX) or vectors of them (AVX512_BF16).
//   bench_fma [--threads N] [--seconds S] [--bf16]     one round for every line on stdin
#include <cpuid.h>
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

namespace {

volatile float sink;

// Each runs `n` multiply-adds on every accumulator; there are enough accumulators to hide the
// latency (4 cycles, 2 per cycle).
template <size_t... I>
__attribute__((target("avx512f"))) void run_avx512(std::index_sequence<I...>, long n) {
  __m512 sum[] = {_mm512_set1_ps(static_cast<float>(I))...};
  const __m512 factor = _mm512_set1_ps(0.999f), term = _mm512_set1_ps(0.001f);
  for (long i = 0; i < n; ++i) ((sum[I] = _mm512_fmadd_ps(sum[I], factor, term)), ...);
  __m512 total = _mm512_setzero_ps();
  ((total = _mm512_add_ps(total, sum[I])), ...);
  sink = _mm512_cvtss_f32(total);
}

template <size_t... I>
__attribute__((target("avx512f,avx512bf16"))) void run_bf16(std::index_sequence<I...>, long n) {
  __m512 sum[] = {_mm512_set1_ps(static_cast<float>(I))...};
  const __m512i ones = _mm512_set1_epi16(0x3f80);  // of bf16
  const auto factor = reinterpret_cast<const __m512bh&>(ones);
  for (long i = 0; i < n; ++i) ((sum[I] = _mm512_dpbf16_ps(sum[I], factor, factor)), ...);
  __m512 total = _mm512_setzero_ps();
  ((total = _mm512_add_ps(total, sum[I])), ...);
  sink = _mm512_cvtss_f32(total);
}

// Four products of tiles (16 x 32 by 32 x 16) in turn. A thread sets its tiles once, and never
// releases them: it computes nothing else.
constexpr long kTileProducts = 4;
__attribute__((target("amx-tile,amx-bf16"))) void run_tiles(long n) {
  struct alignas(64) Configuration {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16};
  };
  static constexpr Configuration kTiles;
  _tile_loadconfig(&kTiles);
  alignas(64) float result[256];
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  for (long i = 0; i < n; ++i) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_stored(0, result, 64);
  sink = result[0];
}
// Linux lets a process use tiles only after it asked for their state (ARCH_REQ_XCOMP_PERM).
bool has_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kTilesOfBf16 = 1u << 22 | 1u << 24;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & kTilesOfBf16) == kTilesOfBf16 &&
         syscall(SYS_arch_prctl, 0x1023, 18) == 0;
}

template <size_t... I>
__attribute__((target("avx2,fma"))) void run_avx2(std::index_sequence<I...>, long n) {
  __m256 sum[] = {_mm256_set1_ps(static_cast<float>(I))...};
  const __m256 factor = _mm256_set1_ps(0.999f), term = _mm256_set1_ps(0.001f);
  for (long i = 0; i < n; ++i) ((sum[I] = _mm256_fmadd_ps(sum[I], factor, term)), ...);
  __m256 total = _mm256_setzero_ps();
  ((total = _mm256_add_ps(total, sum[I])), ...);
  sink = _mm256_cvtss_f32(total);
}

template <size_t... I>
void run_plain(std::index_sequence<I...>, long n) {
  float sum[] = {static_cast<float>(I)...};
  for (long i = 0; i < n; ++i) ((sum[I] = sum[I] * 0.999f + 0.001f), ...);
  sink = (sum[I] + ...);
}

struct Unit {
  const char* name;
  void (*run)(long);
  double flops;  // of one of its n repetitions
};

Unit best_unit(bool bf16) {
  constexpr size_t kWide = 24, kNarrow = 12;
  if (bf16 && has_tiles())
    return {"amx_bf16", [](long n) { run_tiles(n / 64); }, 2.0 * 16 * 16 * 32 * kTileProducts / 64};
  if (bf16 && __builtin_cpu_supports("avx512bf16"))
    return {"avx512_bf16", [](long n) { run_bf16(std::make_index_sequence<kWide>(), n); },
            4 * 16 * kWide};
  if (__builtin_cpu_supports("avx512f"))
    return {"avx512", [](long n) { run_avx512(std::make_index_sequence<kWide>(), n); },
            2 * 16 * kWide};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {"avx2", [](long n) { run_avx2(std::make_index_sequence<kNarrow>(), n); },
            2 * 8 * kNarrow};
  return {"scalar", [](long n) { run_plain(std::make_index_sequence<kNarrow>(), n); }, 2 * kNarrow};
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<int> allowed_cores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) cores.push_back(i);
  return cores;
}

// GFLOP/s of one thread on one core. The best of many short measurements, since a limit must be
// free of disturbances.
double measure(const Unit& unit, int core, double seconds) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
  constexpr long kPiece = 200000;  // about 1 ms
  double best = 0;
  for (const double end = now() + seconds; now() < end;) {
    const double start = now();
    unit.run(kPiece);
    best = std::max(best, static_cast<double>(kPiece) * unit.flops / (now() - start) * 1e-9);
  }
  return best;
}

double measure_all(const Unit& unit, int threads, double seconds) {
  const std::vector<int> cores = allowed_cores();
  std::vector<double> rates(static_cast<size_t>(threads));
  std::vector<std::thread> workers;
  for (size_t i = 0; i < rates.size(); ++i)
    workers.emplace_back([&, i] { rates[i] = measure(unit, cores[i % cores.size()], seconds); });
  for (auto& w : workers) w.join();
  double sum = 0;
  for (const double r : rates) sum += r;
  return sum;
}

}  // namespace

int main(int count, char** values) {
  int threads = 1;
  double seconds = 0.5;
  bool bf16 = false;
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(values[i], "--bf16") == 0) bf16 = true;
    if (i + 1 < count && std::strcmp(values[i], "--threads") == 0)
      threads = std::atoi(values[i + 1]);
    if (i + 1 < count && std::strcmp(values[i], "--seconds") == 0)
      seconds = std::atof(values[i + 1]);
  }
  const Unit unit = best_unit(bf16);
  std::printf("{\"ready\": true, \"unit\": \"%s\"}\n", unit.name);
  std::fflush(stdout);
  for (int c; (c = std::getchar()) != EOF;) {
    if (c != '\n') continue;
    std::printf("{\"gflops\": %.2f, \"unit\": \"%s\"}\n", measure_all(unit, threads, seconds),
                unit.name);
    std::fflush(stdout);
  }
}
