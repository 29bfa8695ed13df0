#include <algorithm>
#include <cmath>

#include "plugins/devices/cpu/map/interp/tile_ops.hpp"

namespace plait::cpu::interp {
namespace {

using Scalar = double (*)(double a, double b, double c);

template <Scalar kOp, int kArity>
void tile(const double* a, const double* b, const double* c, double* dst, size_t n) {
  for (size_t i = 0; i < n; ++i)
    dst[i] = kOp(a[i], kArity > 1 ? b[i] : 0.0, kArity > 2 ? c[i] : 0.0);
}

double max_of(double a, double b) { return b != b || a < b ? b : a; }
double min_of(double a, double b) { return b != b || b < a ? b : a; }
double sign_of(double a) { return a > 0 ? 1.0 : a < 0 ? -1.0 : a; }

double sigmoid(double a) {
  const double z = std::exp(-std::abs(a));
  return (a < 0 ? z : 1.0) / (1.0 + z);
}

#define PLAIT_OP(arity, expression)                                                          \
  tile<[]([[maybe_unused]] double a, [[maybe_unused]] double b, [[maybe_unused]] double c) { \
    return static_cast<double>(expression);                                                  \
  },                                                                                         \
       arity>

constexpr TileOp<double> kTable[kMapOps] = {
    nullptr,
    nullptr,
    PLAIT_OP(2, a + b),
    PLAIT_OP(2, a - b),
    PLAIT_OP(2, a* b),
    PLAIT_OP(2, a / b),
    PLAIT_OP(2, max_of(a, b)),
    PLAIT_OP(2, min_of(a, b)),
    PLAIT_OP(2, std::pow(a, b)),
    PLAIT_OP(1, -a),
    PLAIT_OP(1, std::abs(a)),
    PLAIT_OP(1, std::exp(a)),
    PLAIT_OP(1, std::log(a)),
    PLAIT_OP(1, std::sqrt(a)),
    PLAIT_OP(1, 1.0 / std::sqrt(a)),
    PLAIT_OP(1, 1.0 / a),
    PLAIT_OP(1, std::tanh(a)),
    PLAIT_OP(1, sigmoid(a)),
    PLAIT_OP(1, std::erf(a)),
    PLAIT_OP(1, a < 0 ? 0.0 : a),
    PLAIT_OP(1, std::floor(a)),
    PLAIT_OP(1, sign_of(a)),
    PLAIT_OP(2, a < b),
    PLAIT_OP(2, a <= b),
    PLAIT_OP(2, a == b),
    PLAIT_OP(3, a != 0 ? b : c),
    PLAIT_OP(3, std::fma(a, b, c)),
    PLAIT_OP(1, std::expm1(a)),
    PLAIT_OP(1, std::log1p(a)),
    PLAIT_OP(1, std::isfinite(a)),
    PLAIT_OP(2, a != 0 && b != 0),
    PLAIT_OP(2, a != 0 || b != 0),
    PLAIT_OP(1, a == 0),
};
#undef PLAIT_OP

}  // namespace

const TileOp<double>* tile_ops_f64() { return kTable; }

}  // namespace plait::cpu::interp
