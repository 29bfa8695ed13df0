// greatest_magnitude, quantize_f8 and matmul_f8: y = act(a b^T scale_a scale_b + bias), or y = c +
// a b^T scale_a scale_b. Products in double.
#include "kit/ops/float8.hpp"

#include <bit>

#include "plugins/support/activation.hpp"
#include "plugins/support/plain/operand.hpp"
#include "plugins/support/plain/plain.hpp"

namespace plait::support {
namespace {

// Which number an element belongs to.
int64_t shared(ScaleOf of, int64_t row, int64_t column) {
  return of == ScaleOf::kTensor ? 0 : of == ScaleOf::kRows ? row : column;
}

class PlainGreatestMagnitude {
 public:
  static bool select(const plait_op_desc& d, plait_choice&, std::string& why) {
    parse_greatest_magnitude(d);
    why = "plain loops";
    return true;
  }
  PlainGreatestMagnitude(plait_device*, const plait_op_desc& d)
      : p_(parse_greatest_magnitude(d)), count_(elements(d.outputs[0])), types_(operand_types(d)) {}

  void run(plait_queue*, void* const* data, void*) const {
    const Operands operands(types_, data);
    for (int64_t i = 0; i < count_; ++i) operands.set(1, i, 0);
    auto* most = static_cast<float*>(data[1]);
    for (int64_t row = 0; row < p_.rows; ++row)
      for (int64_t column = 0; column < p_.columns; ++column) {
        const double x = operands.get(0, row * p_.columns + column);
        float& to = most[shared(p_.of, row, column)];
        const uint32_t bits =
            std::max(std::bit_cast<uint32_t>(to), magnitude_bits(static_cast<float>(x)));
        to = std::bit_cast<float>(bits);
      }
  }

 private:
  GreatestMagnitude p_;
  int64_t count_;
  std::vector<uint32_t> types_;
};

class PlainQuantizeF8 {
 public:
  static bool select(const plait_op_desc& d, plait_choice&, std::string& why) {
    parse_quantize_f8(d);
    why = "plain loops";
    return true;
  }
  PlainQuantizeF8(plait_device*, const plait_op_desc& d)
      : p_(parse_quantize_f8(d)), types_(operand_types(d)) {}

  void run(plait_queue*, void* const* data, void*) const {
    const Operands operands(types_, data);
    for (int64_t i = 0; i < p_.scales(); ++i)
      operands.set(3, i, double{with_f8(p_.format, [&](auto format) {
                     return f8_scale<decltype(format)>(static_cast<float>(operands.get(1, i)));
                   })});
    for (int64_t row = 0; row < p_.rows; ++row)
      for (int64_t column = 0; column < p_.columns; ++column) {
        const int64_t from = row * p_.columns + column;
        const int64_t to = p_.transpose ? column * p_.rows + row : from;
        const auto scale = static_cast<float>(operands.get(3, shared(p_.of, row, column)));
        const float inverse = f8_inverse(scale);
        const auto x = static_cast<float>(operands.get(0, from));
        operands.set(2, to, inverse == 0 ? 0.0 : double{x * inverse});
      }
  }

 private:
  QuantizeF8 p_;
  std::vector<uint32_t> types_;
};

class PlainMatmulF8 {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const MatmulF8 p = parse_matmul_f8(d);
    activation_named(p.activation);
    choice.workspace = Scratch::bytes(2 * p.k);
    why = "plain loops in double";
    return true;
  }
  PlainMatmulF8(plait_device*, const plait_op_desc& d)
      : p_(parse_matmul_f8(d)),
        activation_(activation_named(p_.activation)),
        types_(operand_types(d)) {}

  void run(plait_queue*, void* const* data, void* workspace) const {
    Scratch scratch(workspace);
    const auto a = scratch.row(p_.k), b = scratch.row(p_.k);
    const Operands operands(types_, data);
    const size_t y = types_.size() - 1;
    for (int64_t j = 0; j < p_.n; ++j) {
      operands.read(1, j * p_.k, b);
      const double scale_b = operands.get(3, p_.rows_b ? j : 0);
      for (int64_t i = 0; i < p_.m; ++i) {
        operands.read(0, i * p_.k, a);
        double sum = 0;
        for (size_t k = 0; k < b.size(); ++k) sum += a[k] * b[k];
        sum *= operands.get(2, p_.rows_a ? i : 0) * scale_b;
        if (p_.accumulate) sum += operands.get(y - 1, i * p_.n + j);
        if (p_.bias) sum += operands.get(4, j);
        operands.set(y, i * p_.n + j, activate(activation_, sum));
      }
    }
  }

 private:
  MatmulF8 p_;
  Activation activation_;
  std::vector<uint32_t> types_;
};

}  // namespace

void add_plain_float8(std::vector<plait_kernel_item>& out, const char* device) {
  out.push_back(kernel<PlainGreatestMagnitude>("plain", "greatest_magnitude", device, 0));
  out.push_back(kernel<PlainQuantizeF8>("plain", "quantize_f8", device, 0));
  out.push_back(kernel<PlainMatmulF8>("plain", "matmul_f8", device, 0));
}

}  // namespace plait::support
