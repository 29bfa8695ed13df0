// cross_entropy and its gradient. R rows of C logits; or a part of the classes (first, total), of
// which the forward op makes what the parts add up to: loss less log-sum-exp, and the log-sum-exp
// of the part. A label below 0 is ignored: loss and gradient 0. A label from C on is an error of
// the data: loss and gradient NaN, so that it can't pass unseen; memory out of bounds is never
// read.
#include <cmath>
#include <limits>

#include "kit/ops/cross_entropy.hpp"
#include "plugins/support/plain/operand.hpp"
#include "plugins/support/plain/plain.hpp"

namespace plait::support {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <bool kGrad>
class PlainCrossEntropy {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    choice.workspace = Scratch::bytes(parse_cross_entropy(d, kGrad).x.cols);
    why = "plain loops in double";
    return true;
  }
  PlainCrossEntropy(plait_device*, const plait_op_desc& d)
      : shape_(parse_cross_entropy(d, kGrad)), types_(operand_types(d)) {}
  void run(plait_queue*, void* const* operands, void* workspace) const {
    const Operands op(types_, operands);
    const auto x = Scratch(workspace).row(shape_.x.cols);
    for (int64_t r = 0; r < shape_.x.rows; ++r) {
      op.read(0, r * shape_.x.cols, x);
      const auto classes = x.first(static_cast<size_t>(shape_.valid));
      if constexpr (kGrad)
        grad_row(op, r, x);
      else
        loss_row(op, r, classes);
    }
  }

 private:
  // loss = lse - (1-s) x[label] - s/C sum(x)
  void loss_row(const Operands& op, int64_t r, std::span<const double> x) const {
    double m = -std::numeric_limits<double>::infinity(), sum = 0, total = 0;
    for (double v : x) m = std::isnan(v) || v > m ? v : m;
    for (double v : x) sum += std::exp(v - m), total += v;
    // Other parts may have classes that are possible.
    const bool nothing = shape_.part && m == -std::numeric_limits<double>::infinity();
    const double lse = nothing ? m : m + std::log(sum), s = shape_.smoothing;
    const int64_t label = op.index(1, r), at = local_row(label, shape_.first);
    const double to_label = at >= 0 && at < shape_.valid ? (1 - s) * x[static_cast<size_t>(at)] : 0;
    double loss = 0;
    if (label >= shape_.total)
      loss = kNan;
    else if (label >= 0)
      loss = (shape_.part ? 0 : lse) - to_label -
             (s > 0 ? s / static_cast<double>(shape_.total) * total : 0);
    op.set(2, r, loss);
    op.set(3, r, lse);
  }
  // dlogits = dloss * (exp(x - lse) - (1-s) onehot - s/C), 0 in the padding
  void grad_row(const Operands& op, int64_t r, std::span<double> x) const {
    const double lse = op.get(2, r), dloss = op.get(3, r), s = shape_.smoothing;
    const int64_t label = op.index(1, r), at = local_row(label, shape_.first);
    for (int64_t i = 0; i < shape_.x.cols; ++i) {
      double& v = x[static_cast<size_t>(i)];
      const double target = (i == at ? 1 - s : 0) + s / static_cast<double>(shape_.total);
      v = label < 0 || i >= shape_.valid ? 0
          : label >= shape_.total        ? kNan
                                         : dloss * (std::exp(v - lse) - target);
    }
    op.write(4, r * shape_.x.cols, x);
  }

  CrossEntropy shape_;
  std::vector<uint32_t> types_;
};

}  // namespace

void add_plain_cross_entropy(std::vector<plait_kernel_item>& out, const char* device) {
  out.push_back(kernel<PlainCrossEntropy<false>>("plain", "cross_entropy", device, 0));
  out.push_back(kernel<PlainCrossEntropy<true>>("plain", "cross_entropy_grad", device, 0));
}

}  // namespace plait::support
