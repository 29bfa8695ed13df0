// Element-wise functions: one `map` instruction each until the fusion pass joins them.
#include <array>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/program/rule.hpp"

namespace plait::program {
namespace {

struct Named {
  std::string_view name;
  Elementwise e;
};
constexpr Named kNames[] = {
    {"copy", {PLAIT_MAP_COPY, 1}},   {"cast", {PLAIT_MAP_COPY, 1}},
    {"add", {PLAIT_MAP_ADD, 2}},     {"sub", {PLAIT_MAP_SUB, 2}},
    {"mul", {PLAIT_MAP_MUL, 2}},     {"div", {PLAIT_MAP_DIV, 2}},
    {"max", {PLAIT_MAP_MAX, 2}},     {"min", {PLAIT_MAP_MIN, 2}},
    {"pow", {PLAIT_MAP_POW, 2}},     {"neg", {PLAIT_MAP_NEG, 1}},
    {"abs", {PLAIT_MAP_ABS, 1}},     {"exp", {PLAIT_MAP_EXP, 1}},
    {"log", {PLAIT_MAP_LOG, 1}},     {"sqrt", {PLAIT_MAP_SQRT, 1}},
    {"rsqrt", {PLAIT_MAP_RSQRT, 1}}, {"recip", {PLAIT_MAP_RECIP, 1}},
    {"tanh", {PLAIT_MAP_TANH, 1}},   {"sigmoid", {PLAIT_MAP_SIGMOID, 1}},
    {"erf", {PLAIT_MAP_ERF, 1}},     {"relu", {PLAIT_MAP_RELU, 1}},
    {"floor", {PLAIT_MAP_FLOOR, 1}}, {"sign", {PLAIT_MAP_SIGN, 1}},
    {"lt", {PLAIT_MAP_LT, 2}},       {"le", {PLAIT_MAP_LE, 2}},
    {"eq", {PLAIT_MAP_EQ, 2}},       {"select", {PLAIT_MAP_SELECT, 3}},
    {"expm1", {PLAIT_MAP_EXPM1, 1}}, {"log1p", {PLAIT_MAP_LOG1P, 1}},
    {"and", {PLAIT_MAP_AND, 2}},     {"or", {PLAIT_MAP_OR, 2}},
    {"not", {PLAIT_MAP_NOT, 1}},     {"is_finite", {PLAIT_MAP_IS_FINITE, 1}},
    {"fma", {PLAIT_MAP_FMA, 3}},
};

// Gradients of y = f(operands) with respect to each operand, times d; 0 where there is none. Where a derivative has a form
// in y it is used: then the operand need not be kept for the backward pass.
std::array<ValueId, 3> derivatives(Graph& g, uint32_t code, const std::array<ValueId, 3>& x,
                                   ValueId y, ValueId d) {
  auto op = [&](const char* name, ValueId a, ValueId b) { return binary(g, name, a, b); };
  auto un = [&](const char* name, ValueId a) { return g.apply1(name, {a}); };
  auto num = [&](double v) { return g.constant(v); };
  auto masked = [&](ValueId condition, ValueId v) {
    return g.apply1("select", {condition, v, num(0)});
  };
  const ValueId a = x[0], b = x[1], c = x[2];
  switch (code) {
    case PLAIT_MAP_COPY:
      return {d};
    case PLAIT_MAP_ADD:
      return {d, d};
    case PLAIT_MAP_SUB:
      return {d, un("neg", d)};
    case PLAIT_MAP_MUL:
      return {op("mul", d, b), op("mul", d, a)};
    case PLAIT_MAP_DIV: {
      const ValueId q = op("div", d, b);
      return {q, un("neg", op("mul", q, y))};
    }
    case PLAIT_MAP_MAX:  // ties go to the first operand
      return {masked(op("le", b, a), d), masked(op("lt", a, b), d)};
    case PLAIT_MAP_MIN:
      return {masked(op("le", a, b), d), masked(op("lt", b, a), d)};
    case PLAIT_MAP_POW:
      return {op("mul", d, op("mul", b, op("pow", a, op("sub", b, num(1))))),
              masked(op("lt", num(0), a), op("mul", d, op("mul", y, un("log", a))))};
    case PLAIT_MAP_NEG:
      return {un("neg", d)};
    case PLAIT_MAP_ABS:
      return {op("mul", d, un("sign", a))};
    case PLAIT_MAP_EXP:
      return {op("mul", d, y)};
    case PLAIT_MAP_EXPM1:
      return {op("mul", d, op("add", y, num(1)))};
    case PLAIT_MAP_LOG:
      return {op("div", d, a)};
    case PLAIT_MAP_LOG1P:
      return {op("div", d, op("add", a, num(1)))};
    case PLAIT_MAP_SQRT:
      return {op("div", op("mul", d, num(0.5)), y)};
    case PLAIT_MAP_RSQRT:  // -1/2 y^3
      return {op("mul", op("mul", d, num(-0.5)), op("mul", y, op("mul", y, y)))};
    case PLAIT_MAP_RECIP:
      return {un("neg", op("mul", d, op("mul", y, y)))};
    case PLAIT_MAP_TANH:
      return {op("mul", d, op("sub", num(1), op("mul", y, y)))};
    case PLAIT_MAP_SIGMOID:
      return {op("mul", d, op("mul", y, op("sub", num(1), y)))};
    case PLAIT_MAP_ERF:  // 2/sqrt(pi) exp(-a^2)
      return {
          op("mul", d, op("mul", num(1.1283791670955126), un("exp", un("neg", op("mul", a, a)))))};
    case PLAIT_MAP_RELU:
      return {masked(op("lt", num(0), y), d)};
    case PLAIT_MAP_SELECT:
      return {0, masked(a, d), g.apply1("select", {a, num(0), d})};
    case PLAIT_MAP_FMA:
      return {op("mul", d, b), op("mul", d, a), d};
    default:
      (void)c;
      return {};  // floor, sign, comparisons, truth values: flat almost everywhere
  }
}

std::vector<plait_shape> no_infer(const Application& a) {
  fail_internal(a.where() + " has no shape rule of its own");
}

}  // namespace

Elementwise elementwise(std::string_view name) {
  for (const Named& n : kNames)
    if (n.name == name) return n.e;
  return {};
}

std::vector<std::string> elementwise_names() {
  std::vector<std::string> names;
  for (const Named& n : kNames) names.emplace_back(n.name);
  return names;
}

void map_gradient(Use& use) {
  // Differentiation runs before fusion, so a map is one instruction on its inputs in order.
  const Op& op = use.op;
  if (op.in.empty() || use.d_out[0] == 0) return;
  if (op.map.instrs.size() != 1) fail_internal("[program] gradient of a fused map");
  std::array<ValueId, 3> x{};
  for (size_t i = 0; i < op.in.size(); ++i) x[i] = op.in[i];
  const auto d = derivatives(use.g, op.map.instrs[0].op, x, op.out[0], use.d_out[0]);
  for (size_t i = 0; i < op.in.size(); ++i)
    if (use.wanted[i] && d[i]) {
      ValueId v = sum_to(use.g, d[i], use.g.shape(op.in[i]));
      if (use.g.shape(v).dtype != use.g.shape(op.in[i]).dtype)
        v = use.g.apply1("cast", {v},
                         {attr("dtype", static_cast<int64_t>(use.g.shape(op.in[i]).dtype))});
      use.d_in[i] = v;
    }
}

extern const Rule kMap;
const Rule kMap{"map",
                no_infer,
                map_gradient,
                [](const Graph& g, const Op& op) {
                  return static_cast<double>(elements(g.shape(op.out[0]))) *
                         static_cast<double>(op.map.instrs.size());
                },
                false,
                CollectiveOp::kNone,
                shard_map};

}  // namespace plait::program
