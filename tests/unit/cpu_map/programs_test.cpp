// Whole expressions: long ones that run out of registers, random ones, several outputs, an
// optimizer.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "plugins/devices/cpu/map/expr.hpp"
#include "tests/unit/cpu_map/map_case.hpp"

namespace plait::cpu::testing {
namespace {

// Runs `e` on random inputs of the given shapes and compares with evaluate(), bit for bit except
// for NaN.
void check_exact(const Exprs& e, const std::vector<std::vector<int64_t>>& shapes,
                 const std::vector<int64_t>& out_shape, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> value(-4, 4);
  std::vector<Tensor> inputs, outputs;
  for (const auto& s : shapes) inputs.emplace_back(PLAIT_F32, s);
  for (Tensor& t : inputs)
    for (int64_t i = 0; i < t.count(); ++i) t.set(i, random() % 9 ? value(random) : 0.0f);
  const plait_map map = e.map();
  for (uint32_t o = 0; o < map.n_outputs; ++o) outputs.emplace_back(PLAIT_F32, out_shape);
  std::vector<Tensor*> in, out;
  std::vector<MapTensor> in_desc, out_desc;
  for (Tensor& t : inputs) in.push_back(&t), in_desc.push_back(t.desc);
  for (Tensor& t : outputs) out.push_back(&t), out_desc.push_back(t.desc);
  for (const std::string& kernel : kernels_for({&map, in_desc, out_desc})) {
    run_map(e, kernel, in, out, static_cast<int>(1 + seed % 2));
    int wrong = 0;
    for (int64_t i = 0; i < outputs[0].count(); ++i) {
      std::vector<double> x;
      for (const Tensor& t : inputs) x.push_back(t.get(broadcast_index(t.desc, out_desc[0], i)));
      const std::vector<double> r = evaluate(map, x);
      for (uint32_t o = 0; o < map.n_outputs; ++o)
        wrong += !close(outputs[o].get(i), r[map.outputs[o]], 0, 0);
    }
    CAPTURE(kernel);
    CAPTURE(seed);
    CHECK(wrong == 0);
  }
}

// Operations with one correctly rounded result.
constexpr uint32_t kExact[] = {
    PLAIT_MAP_COPY,      PLAIT_MAP_ADD,   PLAIT_MAP_SUB,  PLAIT_MAP_MUL,    PLAIT_MAP_DIV,
    PLAIT_MAP_MAX,       PLAIT_MAP_MIN,   PLAIT_MAP_NEG,  PLAIT_MAP_ABS,    PLAIT_MAP_SQRT,
    PLAIT_MAP_RSQRT,     PLAIT_MAP_RECIP, PLAIT_MAP_RELU, PLAIT_MAP_SIGN,   PLAIT_MAP_FLOOR,
    PLAIT_MAP_LT,        PLAIT_MAP_LE,    PLAIT_MAP_EQ,   PLAIT_MAP_SELECT, PLAIT_MAP_FMA,
    PLAIT_MAP_IS_FINITE, PLAIT_MAP_AND,   PLAIT_MAP_OR,   PLAIT_MAP_NOT};

}  // namespace

TEST_CASE("cpu map: more live values than registers") {
  for (const uint32_t n_inputs : {12u, 25u}) {
    Exprs e(n_inputs);
    std::vector<uint32_t> products;
    // All pairs stay live until they are summed in another order.
    for (uint32_t i = 0; i < 6; ++i)
      for (uint32_t j = i + 1; j < n_inputs; ++j) products.push_back(e.op(PLAIT_MAP_MUL, i, j));
    uint32_t sum = e.constant(0.25);
    for (size_t k = 0; k < products.size(); ++k)
      sum = e.op(k % 3 ? PLAIT_MAP_ADD : PLAIT_MAP_FMA, sum,
                 products[(k * 7 + 3) % products.size()], products[k]);
    e.output(sum);
    e.output(products[0]);
    e.output(products.back());
    std::vector<std::vector<int64_t>> shapes(n_inputs, {3, 37});
    shapes[2] = {37};
    shapes[4] = {3, 1};
    shapes[7] = {};
    check_exact(e, shapes, {3, 37}, n_inputs);
  }
}

TEST_CASE("cpu map: random expressions agree to the bit with their definition") {
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    std::mt19937 random(seed);
    const uint32_t n_inputs = 1 + random() % 14, n_instrs = 1 + random() % 90;
    Exprs e(n_inputs);
    for (uint32_t i = 0, exist = n_inputs; i < n_instrs; ++i) {
      const auto any = [&] {  // often a recent one
        const bool recent = random() % 2;
        return static_cast<uint32_t>(recent ? exist - 1 - random() % std::min(exist, 5u)
                                            : random() % exist);
      };
      if (random() % 12 == 0) {
        exist = 1 + e.constant(static_cast<float>(random() % 64) / 8 - 4);
      } else {
        const uint32_t op = kExact[random() % std::size(kExact)];
        uint32_t a = any(), b = any(), c = any();
        // The sign of a zero from MAX, MIN and SIGN is unspecified; divisors must not expose it.
        if (op == PLAIT_MAP_DIV) b = e.op(PLAIT_MAP_ABS, b);
        if (op == PLAIT_MAP_RECIP || op == PLAIT_MAP_RSQRT) a = e.op(PLAIT_MAP_ABS, a);
        exist = 1 + e.op(op, a, b, c);
      }
    }
    const uint32_t n_outputs = 1 + random() % 4;
    for (uint32_t o = 0; o < n_outputs; ++o)
      e.output(o ? random() % e.n_registers() : e.n_registers() - 1);
    const int64_t rows = 1 + random() % 5, columns = 1 + random() % 70;
    const std::vector<int64_t> out = {rows, columns};
    std::vector<std::vector<int64_t>> shapes;
    for (uint32_t i = 0; i < n_inputs; ++i) {
      const std::vector<int64_t> kinds[] = {out, out, out, {out[1]}, {out[0], 1}, {}, {1, 1}};
      shapes.push_back(kinds[random() % 7]);
    }
    check_exact(e, shapes, out, seed);
  }
}

TEST_CASE("cpu map: functions deep in a long expression") {
  // The sum of softplus, gelu, silu and others, compared with double.
  Exprs e(2);
  const uint32_t half = e.constant(0.5), one = e.constant(1.0),
                 root = e.constant(0.70710678118654752);
  const uint32_t softplus = e.op(PLAIT_MAP_LOG1P, e.op(PLAIT_MAP_EXP, 0));
  const uint32_t erf = e.op(PLAIT_MAP_ERF, e.op(PLAIT_MAP_MUL, 0, root));
  const uint32_t gelu =
      e.op(PLAIT_MAP_MUL, e.op(PLAIT_MAP_MUL, 0, half), e.op(PLAIT_MAP_ADD, erf, one));
  const uint32_t silu = e.op(PLAIT_MAP_MUL, 0, e.op(PLAIT_MAP_SIGMOID, 0));
  const uint32_t power = e.op(PLAIT_MAP_POW, e.op(PLAIT_MAP_ABS, 1), 0);
  const uint32_t tanh = e.op(PLAIT_MAP_TANH, 1);
  const uint32_t log = e.op(PLAIT_MAP_LOG, e.op(PLAIT_MAP_ABS, 1));
  const uint32_t expm1 = e.op(PLAIT_MAP_EXPM1, 1);
  uint32_t sum = e.op(PLAIT_MAP_ADD, softplus, gelu);
  for (const uint32_t r : {silu, power, tanh, log, expm1}) sum = e.op(PLAIT_MAP_ADD, sum, r);
  e.output(sum);
  const int64_t n = 3001;
  Tensor x(PLAIT_F32, {n}), y(PLAIT_F32, {n}), z(PLAIT_F32, {n});
  for (int64_t i = 0; i < n; ++i) x.set(i, i * 0.004 - 6), y.set(i, 3 - i * 0.0021);
  const plait_map map = e.map();
  const MapTensor in[] = {x.desc, y.desc};
  for (const std::string& kernel : kernels_for({&map, in, {&z.desc, 1}})) {
    run_map(e, kernel, {&x, &y}, {&z});
    int wrong = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double a = x.get(i), b = y.get(i);
      const double parts[] = {std::log1p(std::exp(a)),
                              0.5 * a * (1 + std::erf(a * std::sqrt(0.5))),
                              a / (1 + std::exp(-a)),
                              std::pow(std::abs(b), a),
                              std::tanh(b),
                              std::log(std::abs(b)),
                              std::expm1(b)};
      double want = 0, size = 0;
      for (const double p : parts) want += p, size += std::abs(p);
      wrong += !close(z.get(i), want, 0, size * 1e-6);
    }
    CAPTURE(kernel);
    CHECK(wrong == 0);
  }
}

TEST_CASE("cpu map: AdamW in place, scalars as inputs") {
  enum : uint32_t { kP, kG, kM, kV, kRate, kBeta1, kBeta2, kEps, kDecay, kFix1, kFix2 };
  Exprs e(11);
  const uint32_t one = e.constant(1.0);
  const uint32_t m =
      e.op(PLAIT_MAP_FMA, kM, kBeta1, e.op(PLAIT_MAP_MUL, kG, e.op(PLAIT_MAP_SUB, one, kBeta1)));
  const uint32_t gg = e.op(PLAIT_MAP_MUL, kG, kG);
  const uint32_t v =
      e.op(PLAIT_MAP_FMA, kV, kBeta2, e.op(PLAIT_MAP_MUL, gg, e.op(PLAIT_MAP_SUB, one, kBeta2)));
  const uint32_t root = e.op(PLAIT_MAP_SQRT, e.op(PLAIT_MAP_MUL, v, kFix2));
  const uint32_t down = e.op(PLAIT_MAP_ADD, root, kEps);
  const uint32_t step = e.op(PLAIT_MAP_DIV, e.op(PLAIT_MAP_MUL, m, kFix1), down);
  const uint32_t kept = e.op(PLAIT_MAP_SUB, one, e.op(PLAIT_MAP_MUL, kRate, kDecay));
  const uint32_t p =
      e.op(PLAIT_MAP_SUB, e.op(PLAIT_MAP_MUL, kP, kept), e.op(PLAIT_MAP_MUL, step, kRate));
  for (const uint32_t r : {p, m, v}) e.output(r);
  const plait_map map = e.map();
  const int64_t n = 40007;
  const double scalars[] = {1e-3, 0.9, 0.999, 1e-8, 0.01, 1 / (1 - 0.9), 1 / (1 - 0.999)};
  std::vector<Tensor> s;
  for (const double x : scalars)
    s.emplace_back(PLAIT_F32, std::vector<int64_t>{}), s.back().set(0, x);
  Tensor start[4] = {{PLAIT_F32, {n}}, {PLAIT_F32, {n}}, {PLAIT_F32, {n}}, {PLAIT_F32, {n}}};
  for (int64_t i = 0; i < n; ++i)
    for (int k = 0; k < 4; ++k)
      start[k].set(i, k < 3 ? std::sin(i * 0.37 + k) : 0.5 + 0.4 * std::sin(i));
  std::vector<MapTensor> in(4, start[0].desc), out(3, start[0].desc);
  for (const Tensor& t : s) in.push_back(t.desc);
  for (const std::string& kernel : kernels_for({&map, in, out})) {
    Tensor t[4] = {start[0], start[1], start[2], start[3]};
    std::vector<Tensor*> inputs = {&t[0], &t[1], &t[2], &t[3]};
    for (Tensor& x : s) inputs.push_back(&x);
    run_map(e, kernel, inputs, {&t[0], &t[2], &t[3]}, 2);
    int wrong = 0;
    for (int64_t i = 0; i < n; ++i) {
      std::vector<double> x;
      for (const Tensor& k : start) x.push_back(k.get(i));
      for (const Tensor& k : s) x.push_back(k.get(0));
      const std::vector<double> r = evaluate(map, x);
      wrong += t[0].get(i) != r[p] || t[2].get(i) != r[m] || t[3].get(i) != r[v];
    }
    CAPTURE(kernel);
    CHECK(wrong == 0);
  }
}

}  // namespace plait::cpu::testing
