// statistics of f32: sums in vectors of double, threads over pieces. A tensor has the same pieces
// whatever the number of threads, and their results are joined in order.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plugins/devices/cpu/kernels/statistics.cpp"
#include "plugins/devices/cpu/kernels/simd_targets.hpp"

#include <hwy/foreach_target.h>

#include "kit/ops/statistics.hpp"
#include "plugins/devices/cpu/kernels/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {

// The largest f32 whose product with scale (above 0) is not above `most` (at least 0).
HWY_INLINE float largest_below(double most, double scale) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto below = [&](float x) { return static_cast<double>(x) * scale <= most; };
  auto x = static_cast<float>(std::min<double>(most / scale, std::numeric_limits<float>::max()));
  while (x > 0 && !below(x)) x = std::nextafter(x, 0.0F);
  for (float next = std::nextafter(x, kInfinity); next < kInfinity && below(next);
       next = std::nextafter(x, kInfinity))
    x = next;
  return x;
}

// Sums and extremes of x[0, n), each multiplied by scale; without a histogram. What is compared is
// compared as f32, which a scale above 0 keeps in order; sums are of x, and multiplied at the end.
void statistics_row(const float* x, int64_t n, double scale, double* sums, double* extremes) {
  using namespace kit;
  begin_statistics(sums, kStatisticsSums, extremes);
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  // Products of f32 with these are finite and not 0, and so are sums of their fourth powers.
  constexpr double kLeastScale = 0x1p-100, kMostScale = 0x1p100;
  if (scale >= kLeastScale && scale <= kMostScale) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const hn::CappedTag<float, 16> df;
    const hn::Half<decltype(df)> dh;
    const hn::Rebind<double, decltype(dh)> d;
    using F = hn::Vec<decltype(df)>;
    using V = hn::Vec<decltype(d)>;
    const auto w = static_cast<int64_t>(hn::Lanes(df));
    const F none = hn::Zero(df), infinity = hn::Set(df, kInfinity);
    const F e4m3 = hn::Set(df, largest_below(kHalfLeastE4m3, scale));
    const F e5m2 = hn::Set(df, largest_below(kHalfLeastE5m2, scale));
    const V zero = hn::Zero(d);
    V abs[2] = {zero, zero}, sum[2] = {zero, zero}, squares[2] = {zero, zero};
    V cubes[2] = {zero, zero}, fourths[2] = {zero, zero};
    F greatest = hn::Neg(infinity), smallest = infinity, smallest_abs = infinity;
    size_t zeros = 0, under4 = 0, under5 = 0;
    const auto add = [&](int k, V v) HWY_ATTR {
      const V square = hn::Mul(v, v);
      abs[k] = hn::Add(abs[k], hn::Abs(v));
      sum[k] = hn::Add(sum[k], v);
      squares[k] = hn::Add(squares[k], square);
      cubes[k] = hn::MulAdd(square, v, cubes[k]);
      fourths[k] = hn::MulAdd(square, square, fourths[k]);
    };
    for (; i + w <= n; i += w) {
      const F v = hn::LoadU(df, x + i), size = hn::Abs(v);
      if (!hn::AllTrue(df, hn::Lt(size, infinity))) {
        for (int64_t j = i; j < i + w; ++j)
          add_element(static_cast<double>(x[j]) * scale, false, sums, extremes);
        continue;
      }
      zeros += hn::CountTrue(df, hn::Eq(v, none));
      under4 += hn::CountTrue(df, hn::Le(size, e4m3));
      under5 += hn::CountTrue(df, hn::Le(size, e5m2));
      greatest = hn::Max(greatest, v);
      smallest = hn::Min(smallest, v);
      smallest_abs = hn::Min(smallest_abs, size);
      add(0, hn::PromoteTo(d, hn::LowerHalf(dh, v)));
      add(1, hn::PromoteTo(d, hn::UpperHalf(dh, v)));
    }
    const auto add_to = [&](int64_t to, const V(&v)[2], double by) HWY_ATTR {
      sums[to] += hn::GetLane(hn::SumOfLanes(d, hn::Add(v[0], v[1]))) * by;
    };
    const auto join = [&](int64_t to, float v) {
      extremes[to] = std::max(extremes[to], static_cast<double>(v) * scale);
    };
    sums[kZeros] += static_cast<double>(zeros);
    sums[kUnderflowE4m3] += static_cast<double>(under4 - zeros);
    sums[kUnderflowE5m2] += static_cast<double>(under5 - zeros);
    add_to(kAbs, abs, scale);
    add_to(kSum, sum, scale);
    add_to(kSquares, squares, scale * scale);
    add_to(kCubes, cubes, scale * scale * scale);
    add_to(kFourths, fourths, scale * scale * scale * scale);
    const float most = hn::GetLane(hn::MaxOfLanes(df, greatest));
    const float least = hn::GetLane(hn::MinOfLanes(df, smallest));
    join(kGreatest, most);
    join(kLeast, -least);
    join(kGreatestAbs, std::max(most, -least) + 0.0F);  // not -0
    join(kLeastAbs, -hn::GetLane(hn::MinOfLanes(df, smallest_abs)));
  }
#endif
  for (; i < n; ++i) add_element(static_cast<double>(x[i]) * scale, false, sums, extremes);
  sums[kCount] = static_cast<double>(n);
}

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <bit>
#include <cmath>

#include "plugins/devices/cpu/kernels/kernels.hpp"
#include "plugins/devices/cpu/kernels/simd.hpp"
#include "plugins/devices/cpu/kernels/widened.hpp"
#include "plugins/devices/cpu/parallel.hpp"

namespace plait::cpu {
namespace {

HWY_EXPORT(statistics_row);

// A piece has at least so many elements, and a tensor at most so many pieces, each of which has a
// histogram of its own.
constexpr int64_t kPiece = 1 << 13, kPieces = 64;
constexpr double kNanoseconds = 0.35, kHistogramNanoseconds = 2;

// counts (2 * kBins): see StatisticsSum. The bin of a number are the highest bits of its size.
void count_sizes(const float* x, int64_t n, double scale, double* counts) {
  static_assert(kit::kBinsPerOctave == 16);
  constexpr int64_t kFirst = int64_t{kit::kLowest + 1023} * kit::kBinsPerOctave;
  for (int64_t i = 0; i < n; ++i) {
    const double v = static_cast<double>(x[i]) * scale;
    if (v == 0 || !std::isfinite(v)) continue;
    const auto bits = std::bit_cast<uint64_t>(std::fabs(v));
    const int64_t bin =
        std::clamp<int64_t>(static_cast<int64_t>(bits >> 48) - kFirst, 0, kit::kBins - 1);
    ++counts[(v > 0 ? kit::kBins : 0) + bin];
  }
}

class CpuStatistics {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const CpuStatistics s(nullptr, d);
    if (d.inputs[0].dtype != PLAIT_F32) {
      why = "x is not f32";
      return false;
    }
    choice.workspace = static_cast<uint64_t>(s.pieces_ * s.numbers()) * sizeof(double);
    why = variant("vectors", s.threads_);
    return true;
  }
  CpuStatistics(plait_device*, const plait_op_desc& d)
      : s_(kit::parse_statistics(d)), row_(PLAIT_PICK(statistics_row)) {
    piece_ = std::max(kPiece, (s_.n + kPieces - 1) / kPieces);
    pieces_ = (s_.n + piece_ - 1) / piece_;
    const double each = kNanoseconds + (s_.histogram ? kHistogramNanoseconds : 0);
    threads_ = choose_num_threads(d.threads, static_cast<double>(s_.n) * each, pieces_);
  }

  void run(plait_queue*, void* const* operands, void* workspace) const {
    const auto* x = static_cast<const float*>(operands[0]);
    const double scale = s_.scaled ? *static_cast<const double*>(operands[1]) : 1;
    void* const* out = operands + (s_.scaled ? 2 : 1);
    auto* sums = static_cast<double*>(out[0]);
    auto* extremes = static_cast<double*>(out[1]);
    auto* parts = static_cast<double*>(workspace);
    in_parallel(threads_, pieces_, [&](int64_t first, int64_t last) {
      for (int64_t p = first; p < last; ++p) {
        double* part = parts + p * numbers();
        const int64_t begin = p * piece_, n = std::min(piece_, s_.n - begin);
        row_(x + begin, n, scale, part, part + s_.sums());
        if (!s_.histogram) continue;
        std::fill(part + kit::kStatisticsSums, part + s_.sums(), 0);
        count_sizes(x + begin, n, scale, part + kit::kStatisticsSums);
      }
    });
    kit::begin_statistics(sums, s_.sums(), extremes);
    for (int64_t p = 0; p < pieces_; ++p) {
      const double* part = parts + p * numbers();
      kit::join_statistics(part, s_.sums(), part + s_.sums(), sums, extremes);
    }
  }

 private:
  int64_t numbers() const { return s_.sums() + kit::kStatisticsExtremes; }

  kit::Statistics s_;
  int64_t piece_ = 0, pieces_ = 0;
  int threads_ = 1;
  void (*row_)(const float*, int64_t, double, double*, double*);
};

}  // namespace

void add_statistics(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<CpuStatistics>("simd", "statistics", kDevice, kFastPriority));
  out.push_back(kernel<Widened<CpuStatistics>>("widened", "statistics", kDevice, kWidenedPriority));
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
