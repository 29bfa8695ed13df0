#include "engine/session/normal.hpp"

#include <bit>
#include <cmath>
#include <numbers>
#include <vector>

#include "kit/philox.hpp"

namespace plait::session {

double normal(uint64_t e, uint64_t stream, uint64_t seed) {
  const auto words = kit::philox(e / 4, stream, seed);
  const size_t pair = e % 4 / 2 * 2;
  const double r = std::sqrt(-2 * std::log(((words[pair] >> 8) + 1) * 0x1p-24));
  const double angle = 2 * std::numbers::pi * ((words[pair + 1] >> 8) * 0x1p-24);
  return e % 2 == 0 ? r * std::cos(angle) : r * std::sin(angle);
}

namespace {

// Each kernel is this code, inlined and compiled for one instruction set. The loops have a fixed
// trip count and work on local arrays, so that the compiler turns them into vector instructions.
#define PLAIT_INLINE static inline __attribute__((always_inline))

constexpr int kN = kNormalBlocks;

PLAIT_INLINE void philox_words(uint64_t block, uint64_t stream, uint64_t seed,
                               uint32_t (&w)[4][kN]) {
  for (int i = 0; i < kN; ++i) {
    const uint64_t n = block + static_cast<uint64_t>(i);
    w[0][i] = static_cast<uint32_t>(n);
    w[1][i] = static_cast<uint32_t>(n >> 32);
    w[2][i] = static_cast<uint32_t>(stream);
    w[3][i] = static_cast<uint32_t>(stream >> 32);
  }
  auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < kit::kPhiloxRounds; ++round) {
    for (int i = 0; i < kN; ++i) {
      const uint64_t a = uint64_t{kit::kPhiloxMul0} * w[0][i],
                     b = uint64_t{kit::kPhiloxMul1} * w[2][i];
      w[0][i] = static_cast<uint32_t>(b >> 32) ^ w[1][i] ^ key0;
      w[1][i] = static_cast<uint32_t>(b);
      w[2][i] = static_cast<uint32_t>(a >> 32) ^ w[3][i] ^ key1;
      w[3][i] = static_cast<uint32_t>(a);
    }
    key0 += kit::kPhiloxKey0;
    key1 += kit::kPhiloxKey1;
  }
}

// radius = sqrt(-2 log x), x = (word / 2^8 + 1) / 2^24. The logarithm as fdlibm's e_log.c has it.
PLAIT_INLINE void radii(const uint32_t (&word)[kN], double (&radius)[kN]) {
  double f[kN], k[kN];
  constexpr uint64_t kOne = 0x3FF0000000000000u, kRoot = 0x3FE6A09E667F3BCDu;  // 1, sqrt(1/2)
  for (int i = 0; i < kN; ++i) {  // x = 2^k (1 + f), 1 + f in [sqrt(1/2), sqrt(2))
    const auto x = static_cast<double>(static_cast<int32_t>((word[i] >> 8) + 1));
    const uint64_t bits = std::bit_cast<uint64_t>(x) + (kOne - kRoot);
    f[i] = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFu) + kRoot) - 1;
    k[i] = std::bit_cast<double>((bits >> 52) | 0x4330000000000000u) - (0x1p52 + 1023 + 24);
  }
  for (int i = 0; i < kN; ++i) {
    const double s = f[i] / (2 + f[i]), z = s * s, h = 0.5 * f[i] * f[i];
    const double r =
        z * (6.666666666666735130e-01 +
             z * (3.999999999940941908e-01 +
                  z * (2.857142874366239149e-01 +
                       z * (2.222219843214978396e-01 +
                            z * (1.818357216161805012e-01 +
                                 z * (1.531383769920937332e-01 + z * 1.479819860511658591e-01))))));
    const double log = k[i] * 6.93147180369123816490e-01 -
                       ((h - (s * (h + r) + k[i] * 1.90821492927058770002e-10)) - f[i]);
    radius[i] = std::sqrt(-2 * log);
  }
}

// cosine and sine of 2 pi u, u = word / 2^32 in 24 bits: fdlibm's k_cos.c and k_sin.c.
PLAIT_INLINE void directions(const uint32_t (&word)[kN], double (&cosine)[kN], double (&sine)[kN]) {
  for (int i = 0; i < kN; ++i) {
    const double u = static_cast<double>(static_cast<int32_t>(word[i] >> 8)) * 0x1p-24;
    constexpr double kShift = 0x1.8p52;  // adding it rounds to an integer, kept in the low bits
    const double shifted = u * 4 + kShift;
    const uint64_t q = std::bit_cast<uint64_t>(shifted);
    const double t = u - (shifted - kShift) * 0.25;  // u = q / 4 + t, |t| <= 1/8, exactly
    const double y = t * (2 * std::numbers::pi), z = y * y;
    const double s =
        y +
        y * z *
            (-1.66666666666666324348e-01 +
             z * (8.33333333332248946124e-03 +
                  z * (-1.98412698298579493134e-04 +
                       z * (2.75573137070700676789e-06 +
                            z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)))));
    const double c =
        1 - 0.5 * z +
        z * z *
            (4.16666666666666019037e-02 +
             z * (-1.38888888888741095749e-03 +
                  z * (2.48015872894767294178e-05 +
                       z * (-2.75573143513906633035e-07 +
                            z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)))));
    // (cosine, sine) by q mod 4: (c, s), (-s, c), (-c, -s), (s, -c)
    const uint64_t cb = std::bit_cast<uint64_t>(c), sb = std::bit_cast<uint64_t>(s);
    const uint64_t odd = 0 - (q & 1);
    cosine[i] = std::bit_cast<double>(((sb & odd) | (cb & ~odd)) ^ (((q + 1) & 2) << 62));
    sine[i] = std::bit_cast<double>(((cb & odd) | (sb & ~odd)) ^ ((q & 2) << 62));
  }
}

// normal() and the polynomials differ by less than this times the radius: the angle is rounded to
// 2^-51 at most there, and each function is within an ulp or two.
constexpr double kError = 3e-15;

PLAIT_INLINE bool normals(uint64_t block, uint64_t stream, uint64_t seed, double mean,
                          double deviation, float* out) {
  uint32_t w[4][kN];
  philox_words(block, stream, seed, w);
  float low[4][kN];
  uint32_t differ[kN] = {};
  for (int pair = 0; pair < 2; ++pair) {
    double radius[kN], part[2][kN];
    radii(w[2 * pair], radius);
    directions(w[2 * pair + 1], part[0], part[1]);
    for (int half = 0; half < 2; ++half)
      for (int i = 0; i < kN; ++i) {
        const double v = mean + deviation * (radius[i] * part[half][i]);
        const double error = std::abs(deviation) * radius[i] * kError + std::abs(v) * 3e-16;
        const auto a = static_cast<float>(v - error), b = static_cast<float>(v + error);
        low[2 * pair + half][i] = a;
        differ[i] |= std::bit_cast<uint32_t>(a) ^ std::bit_cast<uint32_t>(b);
      }
  }
  for (int i = 0; i < kN; ++i)
    for (int k = 0; k < 4; ++k) out[4 * i + k] = low[k][i];
  uint32_t any = 0;
  for (int i = 0; i < kN; ++i) any |= differ[i];
  return any == 0;
}

bool normals_plain(uint64_t block, uint64_t stream, uint64_t seed, double mean, double deviation,
                   float* out) {
  return normals(block, stream, seed, mean, deviation, out);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) bool normals_avx2(uint64_t block, uint64_t stream,
                                                      uint64_t seed, double mean, double deviation,
                                                      float* out) {
  return normals(block, stream, seed, mean, deviation, out);
}
__attribute__((target("avx512f,avx512dq,avx512vl"))) bool normals_avx512(
    uint64_t block, uint64_t stream, uint64_t seed, double mean, double deviation, float* out) {
  return normals(block, stream, seed, mean, deviation, out);
}
#endif

#undef PLAIT_INLINE

std::vector<NormalKernel> supported() {
  std::vector<NormalKernel> kernels;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    kernels.push_back(normals_avx512);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    kernels.push_back(normals_avx2);
#endif
  kernels.push_back(normals_plain);
  return kernels;
}

}  // namespace

std::span<const NormalKernel> normal_kernels() {
  static const std::vector<NormalKernel> kernels = supported();
  return kernels;
}

}  // namespace plait::session
