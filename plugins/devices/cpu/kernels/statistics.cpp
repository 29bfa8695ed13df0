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

// Sums and extremes of x[0, n), each multiplied by scale; without a histogram.
void statistics_row(const float* x, int64_t n, double scale, double* sums, double* extremes) {
  using namespace kit;
  begin_statistics(sums, kStatisticsSums, extremes);
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<double, 8> d;
  const hn::Rebind<float, decltype(d)> df;
  using V = hn::Vec<decltype(d)>;
  const auto w = static_cast<int64_t>(hn::Lanes(d));
  const V zero = hn::Zero(d), one = hn::Set(d, 1), factor = hn::Set(d, scale);
  const V infinity = hn::Set(d, std::numeric_limits<double>::infinity()), least = hn::Neg(infinity);
  const V e4m3 = hn::Set(d, kHalfLeastE4m3), e5m2 = hn::Set(d, kHalfLeastE5m2);
  V zeros = zero, under4 = zero, under5 = zero, abs = zero, sum = zero;
  V squares = zero, cubes = zero, fourths = zero;
  V greatest = least, smallest = least, greatest_abs = least, smallest_abs = least;
  for (; i + w <= n; i += w) {
    const V v = hn::Mul(hn::PromoteTo(d, hn::LoadU(df, x + i)), factor);
    const V size = hn::Abs(v);
    if (!hn::AllTrue(d, hn::Lt(size, infinity))) {
      for (int64_t j = i; j < i + w; ++j)
        add_element(static_cast<double>(x[j]) * scale, false, sums, extremes);
      continue;
    }
    const auto not_zero = hn::Gt(size, zero);
    zeros = hn::Add(zeros, hn::IfThenZeroElse(not_zero, one));
    under4 = hn::Add(under4, hn::IfThenElseZero(hn::And(not_zero, hn::Le(size, e4m3)), one));
    under5 = hn::Add(under5, hn::IfThenElseZero(hn::And(not_zero, hn::Le(size, e5m2)), one));
    const V square = hn::Mul(v, v);
    abs = hn::Add(abs, size);
    sum = hn::Add(sum, v);
    squares = hn::Add(squares, square);
    cubes = hn::MulAdd(square, v, cubes);
    fourths = hn::MulAdd(square, square, fourths);
    greatest = hn::Max(greatest, v);
    smallest = hn::Max(smallest, hn::Neg(v));
    greatest_abs = hn::Max(greatest_abs, size);
    smallest_abs = hn::Max(smallest_abs, hn::Neg(size));
  }
  const auto add = [&](int64_t to, V v) { sums[to] += hn::GetLane(hn::SumOfLanes(d, v)); };
  const auto join = [&](int64_t to, V v) {
    extremes[to] = std::max(extremes[to], hn::GetLane(hn::MaxOfLanes(d, v)));
  };
  add(kZeros, zeros);
  add(kUnderflowE4m3, under4);
  add(kUnderflowE5m2, under5);
  add(kAbs, abs);
  add(kSum, sum);
  add(kSquares, squares);
  add(kCubes, cubes);
  add(kFourths, fourths);
  join(kGreatest, greatest);
  join(kLeast, smallest);
  join(kGreatestAbs, greatest_abs);
  join(kLeastAbs, smallest_abs);
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
constexpr int64_t kPiece = 1 << 15, kPieces = 64;
constexpr double kNanoseconds = 0.6, kHistogramNanoseconds = 2;

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
