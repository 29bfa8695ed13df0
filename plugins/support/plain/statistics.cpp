// statistics: element after element, in double.
#include "kit/ops/statistics.hpp"

#include "plugins/support/plain/operand.hpp"
#include "plugins/support/plain/plain.hpp"

namespace plait::support {
namespace {

class PlainStatistics {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    parse_statistics(d);
    choice.workspace = 0;
    why = "plain loops in double";
    return true;
  }
  PlainStatistics(plait_device*, const plait_op_desc& d)
      : s_(parse_statistics(d)), types_(operand_types(d)) {}
  void run(plait_queue*, void* const* operands, void*) const {
    const Operands op(types_, operands);
    const double scale = s_.scaled ? op.get(1, 0) : 1;
    const size_t first = s_.scaled ? 2 : 1;
    auto* sums = static_cast<double*>(operands[first]);
    auto* extremes = static_cast<double*>(operands[first + 1]);
    begin_statistics(sums, s_.sums(), extremes);
    for (int64_t i = 0; i < s_.n; ++i)
      add_element(op.get(0, i) * scale, s_.histogram, sums, extremes);
  }

 private:
  Statistics s_;
  std::vector<uint32_t> types_;
};

}  // namespace

void add_plain_statistics(std::vector<plait_kernel_item>& out, const char* device) {
  out.push_back(kernel<PlainStatistics>("plain", "statistics", device, 0));
}

}  // namespace plait::support
