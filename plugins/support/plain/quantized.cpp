// quantize: rows as numbers of 8 bits with a scale for each 32. matmul_quantized: y = act(a w^T +
// bias), or y = c + a w^T, where w = scale * (q - 128). Products in double, a row of w at a time.
#include "kit/ops/quantized.hpp"

#include "plugins/support/activation.hpp"
#include "plugins/support/plain/operand.hpp"
#include "plugins/support/plain/plain.hpp"

namespace plait::support {
namespace {

class PlainQuantize {
 public:
  static bool select(const plait_op_desc& d, plait_choice&, std::string& why) {
    parse_quantize(d);
    why = "plain loops";
    return true;
  }
  PlainQuantize(plait_device*, const plait_op_desc& d)
      : p_(parse_quantize(d)), types_(operand_types(d)) {}

  void run(plait_queue*, void* const* data, void*) const {
    const Operands operands(types_, data);
    auto* q = static_cast<uint8_t*>(data[1]);
    for (int64_t row = 0; row < p_.rows; ++row)
      for (int64_t block = 0; block < p_.blocks; ++block) {
        const int64_t first = block * kQuantBlock, n = std::min(kQuantBlock, p_.columns - first);
        const int64_t at = row * p_.columns + first;
        float w[kQuantBlock];
        for (int64_t i = 0; i < n; ++i) w[i] = static_cast<float>(operands.get(0, at + i));
        operands.set(2, row * p_.blocks + block, double{quantize_block(w, n, q + at)});
      }
  }

 private:
  Quantize p_;
  std::vector<uint32_t> types_;
};

class PlainMatmulQuantized {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const MatmulQuantized p = parse_matmul_quantized(d);
    need(activation_named(p.activation).has_value(), "unknown activation '" + p.activation + "'");
    choice.workspace = Scratch::bytes(2 * p.k + p.blocks);
    why = "plain loops in double";
    return true;
  }
  PlainMatmulQuantized(plait_device*, const plait_op_desc& d)
      : p_(parse_matmul_quantized(d)),
        activation_(*activation_named(p_.activation)),
        types_(operand_types(d)) {}

  void run(plait_queue*, void* const* data, void* workspace) const {
    Scratch scratch(workspace);
    const auto a = scratch.row(p_.k), w = scratch.row(p_.k), scale = scratch.row(p_.blocks);
    const Operands operands(types_, data);
    const size_t y = types_.size() - 1;
    for (int64_t j = 0; j < p_.n; ++j) {
      operands.read(1, j * p_.k, w);
      operands.read(2, j * p_.blocks, scale);
      for (size_t k = 0; k < w.size(); ++k) w[k] = scale[k / kQuantBlock] * (w[k] - 128);
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
  out.push_back(kernel<PlainMatmulQuantized>("plain", "matmul_quantized", device, 0));
}

}  // namespace plait::support
