#include "plugins/devices/cpu/peak.hpp"

#include <immintrin.h>
#include <plait/tensor.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <utility>

#include "plugins/devices/cpu/half/block_products.hpp"
#include "plugins/devices/cpu/parallel.hpp"

namespace plait::cpu {
namespace {

// Enough accumulators to hide the latency of two units: 4 cycles each.
constexpr size_t kWide = 24, kNarrow = 12;

std::atomic<float> sink;  // keeps the results from being optimised away

template <size_t... I>
[[gnu::target("avx512f")]] void fma_avx512(std::index_sequence<I...>, long n) {
  __m512 sum[] = {_mm512_set1_ps(static_cast<float>(I))...};
  const __m512 factor = _mm512_set1_ps(0.999f), term = _mm512_set1_ps(0.001f);
  for (long i = 0; i < n; ++i) ((sum[I] = _mm512_fmadd_ps(sum[I], factor, term)), ...);
  __m512 total = _mm512_setzero_ps();
  ((total = _mm512_add_ps(total, sum[I])), ...);
  sink = _mm512_cvtss_f32(total);
}

template <size_t... I>
[[gnu::target("avx512f,avx512bf16")]] void dot_avx512(std::index_sequence<I...>, long n) {
  __m512 sum[] = {_mm512_set1_ps(static_cast<float>(I))...};
  const auto small = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3a033a03));  // bf16, 0.0005
  for (long i = 0; i < n; ++i) ((sum[I] = _mm512_dpbf16_ps(sum[I], small, small)), ...);
  __m512 total = _mm512_setzero_ps();
  ((total = _mm512_add_ps(total, sum[I])), ...);
  sink = _mm512_cvtss_f32(total);
}

// Four products of tiles, 16 x 32 by 32 x 16, in turn.
constexpr double kTileFlops = 4.0 * 2 * 16 * 32 * 16;
[[gnu::target("amx-tile,amx-bf16")]] void dot_tiles(long n) {
  const InBlockProducts using_tiles(block_products());
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
  float result[16 * 16];
  _tile_stored(0, result, 64);
  sink = result[0];
}

template <size_t... I>
[[gnu::target("avx2,fma")]] void fma_avx2(std::index_sequence<I...>, long n) {
  __m256 sum[] = {_mm256_set1_ps(static_cast<float>(I))...};
  const __m256 factor = _mm256_set1_ps(0.999f), term = _mm256_set1_ps(0.001f);
  for (long i = 0; i < n; ++i) ((sum[I] = _mm256_fmadd_ps(sum[I], factor, term)), ...);
  __m256 total = _mm256_setzero_ps();
  ((total = _mm256_add_ps(total, sum[I])), ...);
  sink = _mm256_cvtss_f32(total);
}

template <size_t... I>
void fma_sse(std::index_sequence<I...>, long n) {
  __m128 sum[] = {_mm_set1_ps(static_cast<float>(I))...};
  const __m128 factor = _mm_set1_ps(0.999f), term = _mm_set1_ps(0.001f);
  for (long i = 0; i < n; ++i) ((sum[I] = _mm_add_ps(_mm_mul_ps(sum[I], factor), term)), ...);
  __m128 total = _mm_setzero_ps();
  ((total = _mm_add_ps(total, sum[I])), ...);
  sink = _mm_cvtss_f32(total);
}

struct Unit {
  void (*run)(long);
  double flops;  // of one of its repetitions
};

Unit best_unit(bool bf16) {
  if (bf16 && block_products().tiles) return {dot_tiles, kTileFlops};
  if (bf16 && __builtin_cpu_supports("avx512bf16"))
    return {[](long n) { dot_avx512(std::make_index_sequence<kWide>(), n); }, 2 * 32 * kWide};
  if (__builtin_cpu_supports("avx512f"))
    return {[](long n) { fma_avx512(std::make_index_sequence<kWide>(), n); }, 2 * 16 * kWide};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {[](long n) { fma_avx2(std::make_index_sequence<kNarrow>(), n); }, 2 * 8 * kNarrow};
  return {[](long n) { fma_sse(std::make_index_sequence<kNarrow>(), n); }, 2 * 4 * kNarrow};
}

// A round takes about 0.1 ms, which is seldom interrupted; all together wake the clock of the wide
// units.
double best_rate(const Unit& unit) {
  using Clock = std::chrono::steady_clock;
  constexpr long kRepetitions = 20000;
  constexpr int kRounds = 60;
  double best = 0;
  for (int i = 0; i < kRounds; ++i) {
    const auto start = Clock::now();
    unit.run(kRepetitions);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (seconds > 0) best = std::max(best, kRepetitions * unit.flops / seconds);
  }
  return best;
}

double measure(bool bf16, uint32_t threads) {
  const Unit unit = best_unit(bf16);
  std::mutex mutex;
  double sum = 0;
  int64_t ran = 0;
  on_pool(static_cast<int>(threads), [&](int64_t, int64_t) {
    const double rate = best_rate(unit);
    const std::lock_guard lock(mutex);
    sum += rate;
    ++ran;
  });
  // The pool may have granted fewer threads than the kernels count on.
  return ran > 0 ? sum / static_cast<double>(ran) * threads : 0;
}

}  // namespace

double measured_peak(uint32_t dtype, uint32_t threads) {
  const bool bf16 = dtype == PLAIT_BF16;
  if (dtype != PLAIT_F32 && dtype != PLAIT_F64 && dtype != PLAIT_F16 && !bf16) return 0;
  static std::mutex mutex;
  static std::map<std::pair<bool, uint32_t>, double> known;
  const std::lock_guard lock(mutex);
  const auto [at, fresh] = known.try_emplace({bf16, threads}, 0);
  if (fresh) at->second = measure(bf16, threads);
  return dtype == PLAIT_F64 ? at->second / 2 : at->second;
}

}  // namespace plait::cpu
