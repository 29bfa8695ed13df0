// softmax, log_softmax and their gradients. R rows of C elements; each row is read before it is
// written.
#include <cmath>
#include <limits>

#include "kit/ops/rows.hpp"
#include "plugins/support/plain/operand.hpp"
#include "plugins/support/plain/plain.hpp"

namespace plait::support {
namespace {

// NaN if any element is, so that it spreads over the row.
double row_max(std::span<const double> x) {
  double m = -std::numeric_limits<double>::infinity();
  for (double v : x) m = std::isnan(v) || v > m ? v : m;
  return m;
}

void softmax(std::span<double> x, std::span<double>) {
  const double m = row_max(x);
  double sum = 0;
  for (double& v : x) sum += v = std::exp(v - m);
  for (double& v : x) v /= sum;
}

void log_softmax(std::span<double> x, std::span<double>) {
  const double m = row_max(x);
  double sum = 0;
  for (double v : x) sum += std::exp(v - m);
  const double lse = m + std::log(sum);
  for (double& v : x) v -= lse;
}

// dx = y * (dy - sum(dy * y)), left in y.
void softmax_grad(std::span<double> y, std::span<double> dy) {
  double sum = 0;
  for (size_t i = 0; i < y.size(); ++i) sum += dy[i] * y[i];
  for (size_t i = 0; i < y.size(); ++i) y[i] *= dy[i] - sum;
}

// dx = dy - exp(y) * sum(dy), left in y.
void log_softmax_grad(std::span<double> y, std::span<double> dy) {
  double sum = 0;
  for (double v : dy) sum += v;
  for (size_t i = 0; i < y.size(); ++i) y[i] = dy[i] - std::exp(y[i]) * sum;
}

// Applies F to each row of the first input (and the second), in place of the first.
template <auto F, uint32_t kInputs>
class PlainRows {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    choice.workspace = Scratch::bytes(kInputs * parse_rows(d, kInputs).cols);
    why = "plain loops in double";
    return true;
  }
  PlainRows(plait_device*, const plait_op_desc& d)
      : shape_(parse_rows(d, kInputs)), types_(operand_types(d)) {}
  void run(plait_queue*, void* const* operands, void* workspace) const {
    const Operands op(types_, operands);
    Scratch scratch(workspace);
    const auto a = scratch.row(shape_.cols), b = scratch.row(kInputs == 2 ? shape_.cols : 0);
    for (int64_t r = 0; r < shape_.rows; ++r) {
      op.read(0, r * shape_.cols, a);
      if (kInputs == 2) op.read(1, r * shape_.cols, b);
      F(a, b);
      op.write(kInputs, r * shape_.cols, a);
    }
  }

 private:
  Rows shape_;
  std::vector<uint32_t> types_;
};

}  // namespace

void add_plain_softmax(std::vector<plait_kernel_item>& out, const char* device) {
  out.push_back(kernel<PlainRows<softmax, 1>>("plain", "softmax", device, 0));
  out.push_back(kernel<PlainRows<log_softmax, 1>>("plain", "log_softmax", device, 0));
  out.push_back(kernel<PlainRows<softmax_grad, 2>>("plain", "softmax_grad", device, 0));
  out.push_back(kernel<PlainRows<log_softmax_grad, 2>>("plain", "log_softmax_grad", device, 0));
}

}  // namespace plait::support
