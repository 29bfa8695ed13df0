// statistics, plain: the only kernel of the op, as it reads each element once.
#include "kit/ops/statistics.hpp"

#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/devices/cuda/kernels/statistics_args.hpp"

namespace plait::cuda {
namespace {

static_assert(kSumsOfStatistics == kit::kStatisticsSums &&
              kExtremesOfStatistics == kit::kStatisticsExtremes && kLowestOctave == kit::kLowest &&
              kHighestOctave == kit::kHighest && 1 << kBinBits == kit::kBinsPerOctave &&
              kBinsOfOneSign == kit::kBins && kit::kHalfLeastE4m3 == 0x1p-10 &&
              kit::kHalfLeastE5m2 == 0x1p-17);

// The parts follow from the number of elements alone, so that every card adds in one order. At most
// 512 of them, and none so long that a count of 32 bits could overflow before 2^41 elements.
constexpr int64_t kMostParts = 512, kLeastPart = 4096;
int64_t part_of(int64_t n) { return std::max((n + kMostParts - 1) / kMostParts, kLeastPart); }
int64_t parts_of(int64_t n) { return (n + part_of(n) - 1) / part_of(n); }

uint64_t bytes_of_figures(int64_t parts) {
  return static_cast<uint64_t>(parts) * kFiguresOfStatistics * sizeof(double);
}

class PlainStatistics {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::Statistics s = kit::parse_statistics(d);
    const auto parts = static_cast<uint64_t>(parts_of(s.n));
    choice.workspace = bytes_of_figures(parts_of(s.n)) +
                       (s.histogram ? parts * kBinsOfBothSigns * sizeof(uint32_t) : 0);
    why = "parts of the elements, then their sums, in double";
    return true;
  }
  PlainStatistics(plait_device* device, const plait_op_desc& d)
      : statistics_(kit::parse_statistics(d)),
        parts_(device, "statistics", "statistics_parts"),
        join_(device, "statistics", "statistics_join") {
    args_.n = statistics_.n;
    args_.part = part_of(args_.n);
    args_.parts = parts_of(args_.n);
    args_.x.dtype = d.inputs[0].dtype;
  }
  void run(plait_queue* queue, void* const* operands, void* workspace) const {
    const bool scaled = statistics_.scaled, histogram = statistics_.histogram;
    StatisticsArgs args = args_;
    args.x.data = operands[0];
    args.scale = scaled ? static_cast<const double*>(operands[1]) : nullptr;
    args.sums = static_cast<double*>(operands[scaled ? 2 : 1]);
    args.extremes = static_cast<double*>(operands[scaled ? 3 : 2]);
    args.figures = static_cast<double*>(workspace);
    if (histogram)
      args.bins = reinterpret_cast<uint32_t*>(args.figures + args.parts * kFiguresOfStatistics);
    parts_.launch(queue, {static_cast<unsigned>(args.parts)}, 256, args);
    const int64_t results = kFiguresOfStatistics + (histogram ? kBinsOfBothSigns : 0);
    join_.launch(queue, {blocks_for(results, 256)}, 256, args);
  }

 private:
  kit::Statistics statistics_;
  Function parts_, join_;
  StatisticsArgs args_{};
};

}  // namespace

void add_statistics(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<PlainStatistics>("plain", "statistics", "cuda", 0));
}

}  // namespace plait::cuda
