// quantize, dequantize, gather_quantized, and matmul_quantized: y = act(a b + bias), or y = c +
// a b, where b is the weights or their transpose. Products in double, a column of b at a time.
#include "kit/ops/quantized.hpp"

#include <limits>

#include "plugins/support/activation.hpp"
#include "plugins/support/plain/operand.hpp"
#include "plugins/support/plain/plain.hpp"

namespace plait::support {
namespace {

class PlainQuantize {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    parse_quantize(d);
    choice.workspace = 0;
    why = "plain loops";
    return true;
  }
  PlainQuantize(plait_device*, const plait_op_desc& d)
      : p_(parse_quantize(d)), types_(operand_types(d)) {}

  void run(plait_queue*, void* const* data, void*) const {
    const Operands operands(types_, data);
    const int64_t step = p_.part();
    float w[kNf4Group];
    for (int64_t row = 0; row < p_.rows; ++row) {
      auto* q = static_cast<uint8_t*>(data[1]) + row * p_.bytes();
      auto* scales = static_cast<float*>(data[2]) + row * p_.floats();
      for (int64_t first = 0; first < p_.columns; first += step) {
        const int64_t n = std::min(step, p_.columns - first);
        for (int64_t i = 0; i < n; ++i)
          w[i] = static_cast<float>(operands.get(0, row * p_.columns + first + i));
        quantize_part(p_, w, first, n, q, scales);
      }
    }
  }

 private:
  Quantized p_;
  std::vector<uint32_t> types_;
};

class PlainDequantize {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    parse_dequantize(d);
    choice.workspace = 0;
    why = "plain loops";
    return true;
  }
  PlainDequantize(plait_device*, const plait_op_desc& d)
      : p_(parse_dequantize(d)), types_(operand_types(d)) {}

  void run(plait_queue*, void* const* data, void*) const {
    const Operands operands(types_, data);
    for (int64_t row = 0; row < p_.rows; ++row)
      for (int64_t i = 0; i < p_.columns; ++i)
        operands.set(2, row * p_.columns + i, weight_at(p_, data[0], data[1], row, i));
  }

 private:
  Quantized p_;
  std::vector<uint32_t> types_;
};

// An index outside of the table, and a row of another part of it: as gather.
class PlainGatherQuantized {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    parse_gather_quantized(d);
    choice.workspace = 0;
    why = "plain loops";
    return true;
  }
  PlainGatherQuantized(plait_device*, const plait_op_desc& d)
      : p_(parse_gather_quantized(d)), types_(operand_types(d)) {}

  void run(plait_queue*, void* const* data, void*) const {
    const Operands operands(types_, data);
    for (int64_t i = 0; i < p_.count; ++i) {
      const int64_t id = operands.index(2, i), row = p_.known(id) ? id - p_.first : -1;
      const bool here = row >= 0 && row < p_.rows;
      const double other = p_.known(id) ? 0 : std::numeric_limits<double>::quiet_NaN();
      for (int64_t j = 0; j < p_.width; ++j)
        operands.set(3, i * p_.width + j,
                     here ? weight_at(p_.weights, data[0], data[1], row, j) : other);
    }
  }

 private:
  GatherQuantized p_;
  std::vector<uint32_t> types_;
};

class PlainMatmulQuantized {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const MatmulQuantized p = parse_matmul_quantized(d);
    activation_named(p.activation);
    choice.workspace = Scratch::bytes(2 * p.k);
    why = "plain loops in double";
    return true;
  }
  PlainMatmulQuantized(plait_device*, const plait_op_desc& d)
      : p_(parse_matmul_quantized(d)),
        activation_(activation_named(p_.activation)),
        types_(operand_types(d)) {}

  void run(plait_queue*, void* const* data, void* workspace) const {
    Scratch scratch(workspace);
    const auto a = scratch.row(p_.k), w = scratch.row(p_.k);
    const Operands operands(types_, data);
    const size_t y = types_.size() - 1;
    for (int64_t j = 0; j < p_.n; ++j) {
      for (int64_t k = 0; k < p_.k; ++k)
        w[static_cast<size_t>(k)] =
            weight_at(p_.weights, data[1], data[2], p_.transpose_b ? j : k, p_.transpose_b ? k : j);
      for (int64_t i = 0; i < p_.m; ++i) {
        operands.read(0, i * p_.k, a);
        double sum = p_.accumulate ? operands.get(y - 1, i * p_.n + j)
                     : p_.bias     ? operands.get(3, j)
                                   : 0;
        for (size_t k = 0; k < w.size(); ++k) sum += a[k] * w[k];
        operands.set(y, i * p_.n + j, activate(activation_, sum));
      }
    }
  }

 private:
  MatmulQuantized p_;
  Activation activation_;
  std::vector<uint32_t> types_;
};

}  // namespace

void add_plain_quantized(std::vector<plait_kernel_item>& out, const char* device) {
  out.push_back(kernel<PlainQuantize>("plain", "quantize", device, 0));
  out.push_back(kernel<PlainDequantize>("plain", "dequantize", device, 0));
  out.push_back(kernel<PlainGatherQuantized>("plain", "gather_quantized", device, 0));
  out.push_back(kernel<PlainMatmulQuantized>("plain", "matmul_quantized", device, 0));
}

}  // namespace plait::support
