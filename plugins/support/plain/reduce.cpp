// reduce: sum, max, sum_squares over any axes. Each output element sums its inputs in their order
// in memory.
#include <cmath>
#include <limits>

#include "kit/ops/reduce.hpp"
#include "plugins/support/plain/operand.hpp"
#include "plugins/support/plain/plain.hpp"

namespace plait::support {
namespace {

class PlainReduce {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    parse_reduce(d);
    choice.workspace = 0;
    why = "plain loops in double";
    return true;
  }
  PlainReduce(plait_device*, const plait_op_desc& d)
      : types_(operand_types(d)), kind_(parse_reduce(d).kind) {
    const Reduce r = parse_reduce(d);
    outputs_ = r.kept;
    for (size_t i = 0; i < r.dims.size(); ++i)
      (r.reduced[i] ? summed_ : kept_).push_back(r.dims[i]);
  }
  void run(plait_queue*, void* const* operands, void*) const {
    const Operands op(types_, operands);
    for (int64_t i = 0; i < outputs_; ++i) op.set(1, i, fold(op, offset(kept_, i), 0));
  }

 private:
  // Where element i of a row-major tensor of these dims lies in x.
  static int64_t offset(const std::vector<Reduce::Dim>& dims, int64_t i) {
    int64_t at = 0;
    for (size_t j = dims.size(); j-- > 0; i /= dims[j].extent)
      at += i % dims[j].extent * dims[j].stride;
    return at;
  }
  double initial() const {
    return kind_ == ReduceKind::max ? -std::numeric_limits<double>::infinity() : 0;
  }
  double join(double a, double b) const {
    if (kind_ != ReduceKind::max) return a + b;
    return std::isnan(a) || a >= b ? a : b;  // NaN wins
  }
  double fold(const Operands& op, int64_t at, size_t dim) const {
    if (dim == summed_.size()) {
      const double v = op.get(0, at);
      return kind_ == ReduceKind::sum_squares ? v * v : v;
    }
    double total = initial();
    for (int64_t i = 0; i < summed_[dim].extent; ++i)
      total = join(total, fold(op, at + i * summed_[dim].stride, dim + 1));
    return total;
  }

  std::vector<uint32_t> types_;
  ReduceKind kind_;
  int64_t outputs_ = 0;
  std::vector<Reduce::Dim> kept_, summed_;
};

}  // namespace

void add_plain_reduce(std::vector<plait_kernel_item>& out, const char* device) {
  out.push_back(kernel<PlainReduce>("plain", "reduce", device, 0));
}

}  // namespace plait::support
