// Every dtype as input and output.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "plugins/devices/cpu/map/expr.hpp"
#include "tests/unit/cpu_map/map_case.hpp"

namespace plait::cpu::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The value read back after storing f32 `v` as `dtype`.
double stored(uint32_t dtype, double v) {
  double low = 0, high = 0;
  switch (dtype) {
    case PLAIT_BOOL:
      return v != 0;
    case PLAIT_I32:
      low = -0x1p31, high = 2147483520.0;
      break;
    case PLAIT_I64:
      low = -0x1p63, high = 0x1p63;
      break;
    case PLAIT_U8:
      high = 255;
      break;
    default: {
      Tensor t(dtype, {1});
      t.set(0, v);
      return t.get(0);
    }
  }
  if (std::isnan(v)) return 0;
  return std::min(std::max(std::trunc(v), low), high);
}

std::vector<double> values_for(uint32_t dtype) {
  if (dtype == PLAIT_BOOL) return {0, 1, 1, 0, 1};
  if (dtype == PLAIT_U8) return {0, 1, 2, 127, 128, 254, 255};
  if (dtype == PLAIT_I32 || dtype == PLAIT_I64)
    return {0, 1, -1, 100, -100, 16777216, -2147483648.0};
  return {0.0,        -0.0,         1.0,       -1.5,   0.1,    3.14159, 65504.0, 65519.9,
          65520.0,    -70000.0,     1e-5,      6e-8,   2.9e-8, 3e-8,    -6.1e-5, 1e-40,
          3.39e38,    1e30,         kInf,      -kInf,  kNan,   255.5,   -0.999,  1.00390625,
          1.01171875, 1.0009765625, 1.0014648, 2049.0, 2051.0, 3e9,     -3e9,    256.0};
}

}  // namespace

TEST_CASE("cpu map: a copy from each dtype to each dtype") {
  const uint32_t dtypes[] = {PLAIT_F32, PLAIT_F64, PLAIT_BF16, PLAIT_F16,
                             PLAIT_I32, PLAIT_I64, PLAIT_U8,   PLAIT_BOOL};
  Exprs e(1);
  e.output(e.op(PLAIT_MAP_COPY, 0));
  const plait_map map = e.map();
  for (const uint32_t from : dtypes)
    for (const uint32_t to : dtypes)
      for (const int64_t n : {1, 7, 64, 107}) {
        Tensor x(from, {n}), y(to, {n});
        x.fill(values_for(from));
        const bool f64 = dtype_bytes(from) == 8 || dtype_bytes(to) == 8;
        for (const std::string& kernel : kernels_for({&map, {&x.desc, 1}, {&y.desc, 1}})) {
          run_map(e, kernel, {&x}, {&y});
          for (int64_t i = 0; i < n; ++i) {
            double want = stored(to, x.get(i));
            if (f64 && to == PLAIT_I32 && x.get(i) > 2147483520.0)
              want = std::min(x.get(i), 2147483647.0);
            CAPTURE(kernel);
            CAPTURE(from);
            CAPTURE(to);
            CAPTURE(want);
            CHECK(close(y.get(i), want, 0, 0));
          }
        }
      }
}

TEST_CASE("cpu map: narrow inputs that repeat along the row, and mixed dtypes") {
  const uint32_t narrow[] = {PLAIT_BF16, PLAIT_F16, PLAIT_U8, PLAIT_BOOL, PLAIT_I32};
  Exprs e(3);
  e.output(e.op(PLAIT_MAP_FMA, 0, 1, 2));
  const plait_map map = e.map();
  for (const uint32_t dtype : narrow) {
    Tensor x(PLAIT_F32, {3, 21}), column(dtype, {3, 1}), scalar(dtype, {}), y(PLAIT_F16, {3, 21});
    x.fill({1, 2, 3, -4, 5});
    column.fill({1, 0, 3});
    scalar.fill({1});
    const MapTensor in[] = {x.desc, column.desc, scalar.desc};
    for (const std::string& kernel : kernels_for({&map, in, {&y.desc, 1}})) {
      run_map(e, kernel, {&x, &column, &scalar}, {&y});
      for (int64_t i = 0; i < y.count(); ++i) CHECK(y.get(i) == x.get(i) * column.get(i / 21) + 1);
    }
  }
}

TEST_CASE("cpu map: f64 operands make the arithmetic f64") {
  Exprs e(2);
  e.output(e.op(PLAIT_MAP_ADD, 0, 1));
  e.output(e.op(PLAIT_MAP_EXP, 0));
  Tensor a(PLAIT_F64, {9}), b(PLAIT_F32, {}), y(PLAIT_F64, {9}), z(PLAIT_F64, {9});
  for (int i = 0; i < 9; ++i) a.set(i, 1.0 + std::ldexp(i, -45));
  b.set(0, 1.0);
  run_map(e, "interpreter", {&a, &b}, {&y, &z});
  for (int i = 0; i < 9; ++i) {
    CHECK(y.get(i) == a.get(i) + 1.0);
    CHECK(z.get(i) == std::exp(a.get(i)));
  }
}

TEST_CASE("cpu map: f64 agrees with the C library for every operation") {
  for (uint32_t op = PLAIT_MAP_COPY; op < kMapOps; ++op) {
    Exprs e(3);
    e.output(e.op(op, 0, 1, 2));
    Tensor t[3] = {{PLAIT_F64, {50}}, {PLAIT_F64, {50}}, {PLAIT_F64, {50}}}, y(PLAIT_F64, {50});
    for (int i = 0; i < 50; ++i)
      for (int k = 0; k < 3; ++k) t[k].set(i, ((i * (k + 5)) % 17 - 8) * 0.25);
    run_map(e, "interpreter", {&t[0], &t[1], &t[2]}, {&y});
    for (int i = 0; i < 50; ++i) {
      CAPTURE(op);
      const double want = reference_op(op, t[0].get(i), t[1].get(i), t[2].get(i));
      CHECK(close(y.get(i), want, op == PLAIT_MAP_RSQRT ? 1e-7 : 1e-15, 0));
    }
  }
}

}  // namespace plait::cpu::testing
