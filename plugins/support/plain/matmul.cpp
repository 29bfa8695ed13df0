// matmul: y[b,m,n] = act(op(a)[b,m,k] op(b)[b,k,n] + bias[n]), or y = c + op(a) op(b); on request
// also the sum of the squares of y. One row of y at a time, in double.
#include "kit/ops/matmul.hpp"
#include "plugins/support/activation.hpp"
#include "plugins/support/plain/operand.hpp"
#include "plugins/support/plain/plain.hpp"

namespace plait::support {
namespace {

class PlainMatmul {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const Matmul p = parse_matmul(d);
    activation_named(p.activation);
    choice.workspace = Scratch::bytes(2 * p.n + p.k);
    why = "plain loops in double";
    return true;
  }
  PlainMatmul(plait_device*, const plait_op_desc& d)
      : p_(parse_matmul(d)),
        activation_(activation_named(p_.activation)),
        types_(operand_types(d)) {}

  void run(plait_queue*, void* const* operands, void* workspace) const {
    Scratch scratch(workspace);
    const auto sum = scratch.row(p_.n), b = scratch.row(p_.n), a = scratch.row(p_.k);
    const size_t y = types_.size() - (p_.squares ? 2 : 1);
    double squares = 0;
    for (int64_t batch = 0; batch < p_.batch; ++batch)
      for (int64_t i = 0; i < p_.m; ++i) {
        const int64_t at = (batch * p_.m + i) * p_.n;
        if (p_.accumulate)
          read_elements(types_[y - 1], operands[y - 1], at, 1, p_.n, sum.data());
        else if (p_.bias)
          read_elements(types_[2], operands[2], 0, 1, p_.n, sum.data());
        else
          for (double& v : sum) v = 0;
        const int64_t first_a = batch * p_.stride_a + (p_.transpose_a ? i : i * p_.k);
        read_elements(types_[0], operands[0], first_a, p_.transpose_a ? p_.m : 1, p_.k, a.data());
        for (int64_t k = 0; k < p_.k; ++k) {
          const int64_t first_b = batch * p_.stride_b + (p_.transpose_b ? k : k * p_.n);
          read_elements(types_[1], operands[1], first_b, p_.transpose_b ? p_.k : 1, p_.n, b.data());
          for (size_t j = 0; j < sum.size(); ++j) sum[j] += a[static_cast<size_t>(k)] * b[j];
        }
        for (double& v : sum) {
          v = activate(activation_, v);
          squares += v * v;
        }
        write_elements(types_[y], operands[y], at, 1, p_.n, sum.data());
      }
    if (p_.squares) write_elements(types_[y + 1], operands[y + 1], 0, 1, 1, &squares);
  }

 private:
  Matmul p_;
  Activation activation_;
  std::vector<uint32_t> types_;
};

}  // namespace

void add_plain_matmul(std::vector<plait_kernel_item>& out, const char* device) {
  out.push_back(kernel<PlainMatmul>("plain", "matmul", device, 0));
}

}  // namespace plait::support
