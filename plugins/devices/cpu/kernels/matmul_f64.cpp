// The op `matmul` on f64: loops over rows that compilers turn into vectors, in one thread. For
// comparing, not for speed.
#include <algorithm>

#include "kit/ops/matmul.hpp"
#include "plugins/devices/cpu/kernels/kernels.hpp"
#include "plugins/support/activation.hpp"

namespace plait::cpu {
namespace {

constexpr int64_t kBlock = 64;  // rows of b that stay in the nearest cache while rows of a pass

class MatmulF64 {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::Matmul p = kit::parse_matmul(d);
    support::activation_named(p.activation);
    for (uint32_t i = 0; i < d.n_inputs + d.n_outputs; ++i)
      if ((i < d.n_inputs ? d.inputs[i] : d.outputs[i - d.n_inputs]).dtype != PLAIT_F64) {
        why = "takes f64 only";
        return false;
      }
    choice.workspace = 0;
    why = "blocked loops in f64, one thread";
    return true;
  }
  MatmulF64(plait_device*, const plait_op_desc& d)
      : p_(kit::parse_matmul(d)),
        activation_(support::activation_named(p_.activation)),
        y_(d.n_inputs) {}

  void run(plait_queue*, void* const* operands, void*) const {
    auto* y = static_cast<double*>(operands[y_]);
    double squares = 0;
    for (int64_t batch = 0; batch < p_.batch; ++batch) {
      double* c = y + batch * p_.m * p_.n;
      start(operands, batch, c);
      multiply(static_cast<const double*>(operands[0]) + batch * p_.stride_a,
               static_cast<const double*>(operands[1]) + batch * p_.stride_b, c);
      for (int64_t i = 0; i < p_.m * p_.n; ++i) {
        c[i] = support::activate(activation_, c[i]);
        squares += c[i] * c[i];
      }
    }
    if (p_.squares) *static_cast<double*>(operands[y_ + 1]) = squares;
  }

 private:
  // What the product is added to: the operand before y, the bias, or zeros.
  void start(void* const* operands, int64_t batch, double* c) const {
    const int64_t size = p_.m * p_.n;
    if (p_.accumulate) {
      const auto* from = static_cast<const double*>(operands[y_ - 1]) + batch * size;
      if (from != c) std::copy_n(from, size, c);
      return;
    }
    if (!p_.bias) return static_cast<void>(std::fill_n(c, size, 0.0));
    const auto* bias = static_cast<const double*>(operands[2]);
    for (int64_t i = 0; i < p_.m; ++i) std::copy_n(bias, p_.n, c + i * p_.n);
  }
  void multiply(const double* a, const double* b, double* c) const {
    const int64_t a_i = p_.transpose_a ? 1 : p_.k, a_k = p_.transpose_a ? p_.m : 1;
    for (int64_t first = 0; first < p_.k; first += kBlock) {
      const int64_t end = std::min(p_.k, first + kBlock);
      for (int64_t i = 0; i < p_.m; ++i)
        for (int64_t k = first; k < end; ++k) add_row(a[i * a_i + k * a_k], b, k, c + i * p_.n);
    }
  }
  void add_row(double factor, const double* b, int64_t k, double* row) const {
    if (p_.transpose_b)
      for (int64_t j = 0; j < p_.n; ++j) row[j] += factor * b[j * p_.k + k];
    else
      for (int64_t j = 0; j < p_.n; ++j) row[j] += factor * b[k * p_.n + j];
  }

  kit::Matmul p_;
  support::Activation activation_;
  uint32_t y_;  // operand
};

}  // namespace

void add_matmul_f64(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<MatmulF64>("f64", "matmul", kDevice, kFastPriority - 1));
}

}  // namespace plait::cpu
