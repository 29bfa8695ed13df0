// layer_norm, rms_norm and their gradients. R rows of C channels.
//   layer: xh = (x - mean) * rstd, rstd = 1/sqrt(var + eps)
//   rms:   xh = x * rstd, rstd = 1/sqrt(mean(x^2) + eps)
//   y = xh * gain (+ bias)
//   dx = rstd * (g - mean(g) - xh * mean(g * xh)) with g = dy * gain; rms lacks mean(g)
//   dgain = sum over rows of dy * xh, dbias = sum over rows of dy
#include <algorithm>
#include <cmath>

#include "kit/ops/norm.hpp"
#include "plugins/support/plain/operand.hpp"
#include "plugins/support/plain/plain.hpp"

namespace plait::support {
namespace {

template <bool kLayer>
class PlainNorm {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    choice.workspace = Scratch::bytes(3 * parse_norm(d, kLayer, false).x.cols);
    why = "plain loops in double";
    return true;
  }
  PlainNorm(plait_device*, const plait_op_desc& d)
      : shape_(parse_norm(d, kLayer, false)), types_(operand_types(d)) {}
  void run(plait_queue*, void* const* operands, void* workspace) const {
    const Operands op(types_, operands);
    Scratch scratch(workspace);
    const int64_t c = shape_.x.cols;
    const auto x = scratch.row(c), gain = scratch.row(c), bias = scratch.row(c);
    op.read(1, 0, gain);
    if constexpr (kLayer) op.read(2, 0, bias);
    constexpr size_t y = kLayer ? 3 : 2;
    for (int64_t r = 0; r < shape_.x.rows; ++r) {
      op.read(0, r * c, x);
      double mean = 0, square = 0;
      if constexpr (kLayer) {
        for (double v : x) mean += v;
        mean /= static_cast<double>(c);
        op.set(y + 1, r, mean);
      }
      for (double v : x) square += (v - mean) * (v - mean);
      const double rstd = 1 / std::sqrt(square / static_cast<double>(c) + shape_.eps);
      op.set(y + 1 + kLayer, r, rstd);
      for (size_t i = 0; i < x.size(); ++i)
        x[i] = (x[i] - mean) * rstd * gain[i] + (kLayer ? bias[i] : 0);
      op.write(y, r * c, x);
    }
  }

 private:
  Norm shape_;
  std::vector<uint32_t> types_;
};

template <bool kLayer>
class PlainNormGrad {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    choice.workspace = Scratch::bytes(5 * parse_norm(d, kLayer, true).x.cols);
    why = "plain loops in double";
    return true;
  }
  PlainNormGrad(plait_device*, const plait_op_desc& d)
      : shape_(parse_norm(d, kLayer, true)), types_(operand_types(d)) {}
  void run(plait_queue*, void* const* operands, void* workspace) const {
    const Operands op(types_, operands);
    Scratch scratch(workspace);
    const int64_t c = shape_.x.cols;
    const auto x = scratch.row(c), dy = scratch.row(c), gain = scratch.row(c);
    const auto dgain = scratch.row(c), dbias = scratch.row(c);
    op.read(1, 0, gain);
    std::fill(dgain.begin(), dgain.end(), 0.0);
    std::fill(dbias.begin(), dbias.end(), 0.0);
    constexpr size_t rstd_at = kLayer ? 3 : 2, dx = kLayer ? 5 : 4;
    for (int64_t r = 0; r < shape_.x.rows; ++r) {
      op.read(0, r * c, x);
      op.read(rstd_at + 1, r * c, dy);
      const double mean = kLayer ? op.get(2, r) : 0, rstd = op.get(rstd_at, r);
      double mean_g = 0, mean_gx = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] = (x[i] - mean) * rstd;
        dgain[i] += dy[i] * x[i];
        dbias[i] += dy[i];
        mean_g += dy[i] * gain[i];
        mean_gx += dy[i] * gain[i] * x[i];
      }
      mean_g = kLayer ? mean_g / static_cast<double>(c) : 0;
      mean_gx /= static_cast<double>(c);
      for (size_t i = 0; i < x.size(); ++i)
        x[i] = rstd * (dy[i] * gain[i] - mean_g - x[i] * mean_gx);
      op.write(dx, r * c, x);
    }
    op.write(dx + 1, 0, dgain);
    if constexpr (kLayer) op.write(dx + 2, 0, dbias);
  }

 private:
  Norm shape_;
  std::vector<uint32_t> types_;
};

}  // namespace

void add_plain_norm(std::vector<plait_kernel_item>& out, const char* device) {
  out.push_back(kernel<PlainNorm<true>>("plain", "layer_norm", device, 0));
  out.push_back(kernel<PlainNorm<false>>("plain", "rms_norm", device, 0));
  out.push_back(kernel<PlainNormGrad<true>>("plain", "layer_norm_grad", device, 0));
  out.push_back(kernel<PlainNormGrad<false>>("plain", "rms_norm_grad", device, 0));
}

}  // namespace plait::support
