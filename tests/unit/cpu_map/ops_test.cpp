// Every operation in every kernel against the C library in double, on edges and on random numbers.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "plugins/devices/cpu/map/expr.hpp"
#include "tests/unit/cpu_map/map_case.hpp"

namespace plait::cpu::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<double> edge_values() {
  std::vector<double> v = {0.0,
                           -0.0,
                           1.0,
                           -1.0,
                           0.5,
                           -0.5,
                           2.0,
                           -2.0,
                           3.0,
                           -3.0,
                           kInf,
                           -kInf,
                           kNan,
                           1e-45,
                           -1e-45,
                           1e-40,
                           -1e-40,
                           1.17549435e-38,
                           3.4028234664e38,
                           -3.4028234664e38,
                           2.6e38,
                           1e30,
                           -1e30,
                           1e-30,
                           -1e-30,
                           88.0,
                           88.72,
                           88.7228394,
                           88.723,
                           89.0,
                           -87.0,
                           -87.4,
                           -88.0,
                           -100.0,
                           -103.9,
                           -104.1,
                           0.75,
                           1.5,
                           0.7499999,
                           1.4999999,
                           0.99999994,
                           1.0000001,
                           -0.99999994,
                           9.0,
                           9.02,
                           9.1,
                           -9.1,
                           4.05,
                           -4.05,
                           3.9,
                           1e-4,
                           -1e-4,
                           1e-7,
                           -1e-7,
                           3e-8,
                           1e-13,
                           0.3466,
                           -0.3466,
                           0.3465,
                           0.6931472,
                           17.0,
                           -17.5,
                           1e4,
                           16777216.0,
                           2147483648.0,
                           255.0,
                           256.0};
  for (double& x : v) x = static_cast<float>(x);
  return v;
}

bool exact(uint32_t op) {
  switch (op) {
    case PLAIT_MAP_POW:
    case PLAIT_MAP_EXP:
    case PLAIT_MAP_LOG:
    case PLAIT_MAP_TANH:
    case PLAIT_MAP_SIGMOID:
    case PLAIT_MAP_ERF:
    case PLAIT_MAP_EXPM1:
    case PLAIT_MAP_LOG1P:
      return false;
    default:
      return true;
  }
}

// Operand triples: edges crossed, then random ones of many magnitudes.
void make_operands(uint32_t op, Tensor* t) {
  const std::vector<double> edges = edge_values();
  const int64_t n = t[0].count(), e = static_cast<int64_t>(edges.size());
  std::mt19937 random(op + 1);
  std::uniform_real_distribution<double> unit(-1, 1), exponent(-30, 6);
  for (int64_t i = 0; i < n; ++i) {
    for (int k = 0; k < 3; ++k) {
      const double wide = unit(random) * std::exp2(exponent(random));
      const double near = unit(random) * 12;
      t[k].set(i, i & 1 ? wide : near);
    }
    if (i >= e * e) continue;
    t[0].set(i, edges[i % e]);
    t[1].set(i, edges[i / e]);
    t[2].set(i, edges[(i + i / e) % e]);
  }
}

void check_op(uint32_t op, const std::string& kernel) {
  const int arity = map_op_arity(op);
  const int64_t n = 30011;
  Tensor t[3] = {{PLAIT_F32, {n}}, {PLAIT_F32, {n}}, {PLAIT_F32, {n}}};
  Tensor y(PLAIT_F32, {n});
  make_operands(op, t);
  Exprs e(3);
  e.output(e.op(op, 0, 1, 2));
  run_map(e, kernel, {&t[0], &t[1], &t[2]}, {&y});
  const double rel = exact(op) ? 0 : op == PLAIT_MAP_POW ? 2e-6 : 3e-7;
  const double abs = exact(op) ? 0 : 1.5e-45;
  int wrong = 0;
  for (int64_t i = 0; i < n && wrong < 4; ++i) {
    const double a = t[0].get(i), b = arity > 1 ? t[1].get(i) : 0, c = arity > 2 ? t[2].get(i) : 0;
    const double want = static_cast<float>(reference_op(op, a, b, c));
    if (close(y.get(i), want, rel, abs)) continue;
    ++wrong;
    FAIL_CHECK(kernel << " " << std::string(map_op_name(op)) << "(" << a << ", " << b << ", " << c
                      << ") gives " << y.get(i) << ", expected " << want << ", relative "
                      << std::abs(y.get(i) / want - 1));
  }
}

}  // namespace

TEST_CASE("cpu map: every operation against the C library") {
  Tensor t(PLAIT_F32, {4});
  Exprs any(1);
  any.output(0);
  const plait_map map = any.map();
  const MapDesc desc{&map, {&t.desc, 1}, {&t.desc, 1}};
  for (const std::string& kernel : kernels_for(desc))
    for (uint32_t op = PLAIT_MAP_COPY; op < kMapOps; ++op) check_op(op, kernel);
}

TEST_CASE("cpu map: a constant, and a power with a constant exponent") {
  for (const double exponent : {-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0}) {
    Tensor x(PLAIT_F32, {37}), y(PLAIT_F32, {37}), z(PLAIT_F32, {37});
    for (int i = 0; i < 37; ++i) x.set(i, 0.1 * i);
    Exprs e(1);
    const uint32_t c = e.constant(exponent);
    e.output(e.op(PLAIT_MAP_POW, 0, c));
    e.output(c);
    const plait_map map = e.map();
    const MapTensor out[] = {y.desc, z.desc};
    for (const std::string& kernel : kernels_for({&map, {&x.desc, 1}, out})) {
      run_map(e, kernel, {&x}, {&y, &z});
      for (int i = 0; i < 37; ++i) {
        CHECK(close(y.get(i), std::pow(x.get(i), exponent), 1e-6, 0));
        CHECK(z.get(i) == exponent);
      }
    }
  }
}

}  // namespace plait::cpu::testing
