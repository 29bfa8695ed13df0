// Element-wise functions: one `map` instruction each until the fusion pass joins them. Each name
// (add, tanh, ...) is a definition that becomes the op `map`.
#include <algorithm>
#include <array>

#include "engine/base/error.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/per_sample.hpp"
#include "engine/program/shard.hpp"
#include "kit/op_attrs.hpp"

namespace plait::program {
namespace {

constexpr plait_option kCastAttrs[] = {
    kit::int_option("dtype", "0",
                    "PLAIT_F32, ...: the type of the result; 0: the float type of the program"),
};
constexpr plait_option kFillAttrs[] = {
    kit::real_option("value", "0.0", "of each element"),
    kit::ints_option("shape", nullptr, "of the result"),
    kit::int_option("dtype", "0", "PLAIT_F32, ...; 0: the float type of the program"),
};

// Gradients of y = f(operands) with respect to each operand, times d; 0 where there is none. Where
// a derivative has a form in y it is used: then the operand need not be kept for the backward pass.
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

void vjp(VjpContext& use) {
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

// Result type of element-wise arithmetic: the widest float that takes part, weak operands left
// out; the program's float type when there is none.
uint32_t arithmetic_dtype(const InferContext& c) {
  uint32_t best = 0;
  for (size_t i = 0; i < c.in.size(); ++i) {
    const plait_shape& s = c.in[i];
    if (c.weak[i]) continue;
    if (s.dtype == PLAIT_F64) return PLAIT_F64;
    if (s.dtype == PLAIT_F32) best = PLAIT_F32;
    if (is_float(s.dtype) && best == 0) best = s.dtype;
    if (is_float(s.dtype) && best != s.dtype) best = PLAIT_F32;  // bf16 with f16
  }
  return best == 0 ? c.float_type : best;
}

Dims common_dims(const InferContext& c) {
  Dims dims = dims_of(c.in[0]);
  for (const auto& s : c.in) dims = broadcast(make_shape(PLAIT_F32, dims), s, c.where());
  return dims;
}

template <uint32_t code, uint32_t operands>
std::vector<plait_shape> lower(const InferContext& c, const Graph& g, Op& op) {
  c.arity(operands, operands);
  const plait_shape out = make_shape(arithmetic_dtype(c), common_dims(c));
  op = g.map_op(std::move(op.in), {{code, 0, operands > 1 ? 1u : 0u, operands > 2 ? 2u : 0u, 0}},
                {operands});
  return {out};
}

// Attribute `dtype`; 0: the float type of the program.
uint32_t dtype_attr(const InferContext& c) {
  const auto dtype = static_cast<uint32_t>(c.attrs.integer("dtype", 0));
  return dtype == 0 ? c.float_type : dtype;
}

std::vector<plait_shape> lower_cast(const InferContext& c, const Graph& g, Op& op) {
  c.arity(1, 1);
  const uint32_t dtype = dtype_attr(c);
  op = g.map_op(std::move(op.in), {{PLAIT_MAP_COPY, 0, 0, 0, 0}}, {1});
  return {make_shape(dtype, dims_of(c.in[0]))};
}

std::vector<plait_shape> lower_fill(const InferContext& c, const Graph& g, Op& op) {
  c.arity(0, 0);
  op = g.map_op({}, {{PLAIT_MAP_CONST, 0, 0, 0, c.attrs.real("value", 0)}}, {0});
  return {make_shape(dtype_attr(c), c.attrs.ints("shape"))};
}

double flops(const Graph& g, const Op& op) {
  return static_cast<double>(elements(g.shape(op.out[0]))) *
         static_cast<double>(op.map.instrs.size());
}

// How an operand lies where the result, which it is broadcast to, is sharded along `dim`:
// replicated where it repeats there.
Placement under(const plait_shape& s, const plait_shape& out, int32_t dim) {
  const int32_t own = dim - static_cast<int32_t>(out.ndim - s.ndim);
  return own >= 0 && s.dims[own] == out.dims[dim] ? shard_along(own) : kReplicated;
}

bool keeps_zeros(const Op& op, const Sharding& s) {
  switch (op.map.instrs[0].op) {
    case PLAIT_MAP_COPY:
    case PLAIT_MAP_NEG:
    case PLAIT_MAP_RELU:
    case PLAIT_MAP_TANH:
    case PLAIT_MAP_MUL:
      return true;
    case PLAIT_MAP_ADD:
    case PLAIT_MAP_SUB:  // what is not sharded would be added to the padding, too
      return std::find(s.in.begin(), s.in.end(), kReplicated) == s.in.end();
    default:
      return false;
  }
}

// The inputs follow the largest one that is sharded.
bool shard(const Graph& g, const Op& op, const std::vector<Placement>& have, int64_t, Sharding& s) {
  const plait_shape& out = g.shape(op.out[0]);
  int32_t dim = -1;
  int64_t largest = 0;
  for (size_t i = 0; i < op.in.size(); ++i) {
    const plait_shape& in = g.shape(op.in[i]);
    if (!have[i].is_shard() || elements(in) <= largest) continue;
    const int32_t at = have[i].dim + static_cast<int32_t>(out.ndim - in.ndim);
    if (out.dims[at] != in.dims[have[i].dim]) continue;
    dim = at;
    largest = elements(in);
  }
  if (dim < 0) return false;
  for (size_t i = 0; i < op.in.size(); ++i) s.in[i] = under(g.shape(op.in[i]), out, dim);
  s.out[0] = shard_along(dim);
  s.keeps_zeros = keeps_zeros(op, s);
  return true;
}

// A part of a tensor of one number is made, not cut out; so is what follows from such parts alone,
// as a dropout mask from random numbers.
bool can_make_part(const PartQuery& q) {
  if (q.padded) return false;
  const plait_shape& out = q.from.shape(q.op.out[0]);
  for (size_t i = 0; i < q.op.in.size(); ++i) {
    const Placement p = under(q.from.shape(q.op.in[i]), out, q.dim);
    if (p.is_shard() && !q.can_make(i, p.dim)) return false;
  }
  return true;
}
ValueId make_part(ShardContext& u, int32_t dim, const plait_shape& part) {
  Op copy = u.op;
  copy.out.clear();
  for (size_t i = 0; i < copy.in.size(); ++i)
    copy.in[i] = u.input(i, under(u.from.shape(u.op.in[i]), u.from.shape(u.op.out[0]), dim));
  return u.to.append(std::move(copy), {part})[0];
}

// Sums of several tensors; a number in their place would be added by every rank.
bool is_linear(const Op& op) {
  const uint32_t code = op.map.instrs.size() == 1 ? op.map.instrs[0].op : PLAIT_MAP_CONST;
  return code == PLAIT_MAP_ADD || code == PLAIT_MAP_SUB || code == PLAIT_MAP_NEG;
}

std::vector<OpExample> unary_examples() { return {{.inputs = {{3, 5}}}}; }
std::vector<OpExample> positive_examples() { return {{.inputs = {{3, 5}}, .low = 0.3, .high = 2}}; }
std::vector<OpExample> step_examples() { return {{.inputs = {{7}}, .low = 0.1, .high = 0.9}}; }
std::vector<OpExample> step_pair_examples() {
  return {{.inputs = {{7}, {7}}, .low = 0.1, .high = 0.9}};
}
std::vector<OpExample> binary_examples() {
  return {{.inputs = {{3, 5}, {3, 5}}},
          {.inputs = {{3, 5}, {5}}},
          {.inputs = {{3, 1}, {4, 1, 5}}},
          {.inputs = {{2, 3}, {}}}};
}
std::vector<OpExample> positive_pair_examples() {
  return {{.inputs = {{3, 5}, {5}}, .low = 0.5, .high = 2}};
}
std::vector<OpExample> fma_examples() { return {{.inputs = {{3, 5}, {5}, {3, 1}}}}; }
std::vector<OpExample> select_examples() {
  return {{.inputs = {{4}, {4}, {4}}, .low = 0.2, .high = 1, .flat = {0}}};
}
std::vector<OpExample> cast_examples() {
  std::vector<OpExample> all;
  for (const int64_t to : {PLAIT_F32, PLAIT_F64})
    all.push_back({.inputs = {{3, 5}}, .attrs = {attr("dtype", to)}});
  return all;
}
std::vector<OpExample> fill_examples() {
  return {{.inputs = {}, .attrs = {attr("value", 2.0), attr("shape", Dims{2, 3})}}};
}

using Examples = std::vector<OpExample> (*)();

template <uint32_t code, uint32_t operands>
OpDef element(const char* name, const char* help, Examples examples) {
  constexpr const char* kSignatures[] = {"", "a (..) -> y (..)", "a (..), b (..) -> y (..)",
                                         "a (..), b (..), c (..) -> y (..)"};
  return {
      .name = name,
      .help = help,
      .signature = kSignatures[operands],
      .dtypes =
          "any; the result is the widest float among them, the program's float type without one",
      .lower = lower<code, operands>,
      .vjp = vjp,
      .is_elementwise = true,
      .per_sample = map_per_sample,
      .examples = examples};
}

}  // namespace

std::span<const OpDef> map_ops() {
  static const OpDef kOps[] = {
      {.name = "map",
       .help = "an expression over elements, see plait/map.h; element-wise names become it",
       .signature = "x0 (..), x1 (..), .. -> y0 (..), ..",
       .dtypes = "any",
       .audience = Audience::kEngine,
       .vjp = vjp,
       .flops = flops,
       .cheap_to_recompute = true,
       .is_map = true,
       .shard = shard,
       .can_make_part = can_make_part,
       .make_part = make_part,
       .is_linear = is_linear},
      {.name = "fill",
       .help = "a tensor of one number",
       .signature = "-> y (shape)",
       .dtypes = "y: dtype",
       .attrs = kFillAttrs,
       .lower = lower_fill,
       .vjp = vjp,
       .examples = fill_examples},
      {.name = "cast",
       .help = "the same numbers in another type",
       .signature = "a (..) -> y (..)",
       .dtypes = "any",
       .attrs = kCastAttrs,
       .lower = lower_cast,
       .vjp = vjp,
       .per_sample = map_per_sample,
       .examples = cast_examples},
      element<PLAIT_MAP_COPY, 1>("copy", "a", unary_examples),
      element<PLAIT_MAP_NEG, 1>("neg", "-a", unary_examples),
      element<PLAIT_MAP_ABS, 1>("abs", "|a|", unary_examples),
      element<PLAIT_MAP_EXP, 1>("exp", "e^a", unary_examples),
      element<PLAIT_MAP_EXPM1, 1>("expm1", "e^a - 1", unary_examples),
      element<PLAIT_MAP_LOG, 1>("log", "natural logarithm of a", positive_examples),
      element<PLAIT_MAP_LOG1P, 1>("log1p", "log(1 + a)", positive_examples),
      element<PLAIT_MAP_SQRT, 1>("sqrt", "square root of a", positive_examples),
      element<PLAIT_MAP_RSQRT, 1>("rsqrt", "1 / sqrt(a)", positive_examples),
      element<PLAIT_MAP_RECIP, 1>("recip", "1 / a", positive_examples),
      element<PLAIT_MAP_TANH, 1>("tanh", "tanh(a)", unary_examples),
      element<PLAIT_MAP_SIGMOID, 1>("sigmoid", "1 / (1 + exp(-a))", unary_examples),
      element<PLAIT_MAP_ERF, 1>("erf", "error function of a", unary_examples),
      element<PLAIT_MAP_RELU, 1>("relu", "max(a, 0); not a number stays", unary_examples),
      element<PLAIT_MAP_FLOOR, 1>("floor", "greatest integer not above a; its gradient is 0",
                                  step_examples),
      element<PLAIT_MAP_SIGN, 1>("sign", "-1, 0 or 1; its gradient is 0", step_examples),
      element<PLAIT_MAP_ADD, 2>("add", "a + b", binary_examples),
      element<PLAIT_MAP_SUB, 2>("sub", "a - b", binary_examples),
      element<PLAIT_MAP_MUL, 2>("mul", "a * b", binary_examples),
      element<PLAIT_MAP_DIV, 2>("div", "a / b", positive_pair_examples),
      element<PLAIT_MAP_MAX, 2>("max", "the greater one; not a number stays", binary_examples),
      element<PLAIT_MAP_MIN, 2>("min", "the smaller one; not a number stays", binary_examples),
      element<PLAIT_MAP_POW, 2>("pow", "a^b", positive_pair_examples),
      element<PLAIT_MAP_LT, 2>("lt", "1 where a < b, else 0; its gradient is 0",
                               step_pair_examples),
      element<PLAIT_MAP_LE, 2>("le", "1 where a <= b, else 0; its gradient is 0",
                               step_pair_examples),
      element<PLAIT_MAP_EQ, 2>("eq", "1 where a = b, else 0; its gradient is 0",
                               step_pair_examples),
      element<PLAIT_MAP_AND, 2>("and", "1 where both are not 0, else 0; its gradient is 0",
                                step_pair_examples),
      element<PLAIT_MAP_OR, 2>("or", "1 where one is not 0, else 0; its gradient is 0",
                               step_pair_examples),
      element<PLAIT_MAP_NOT, 1>("not", "1 where a is 0, else 0; its gradient is 0", step_examples),
      element<PLAIT_MAP_IS_FINITE, 1>(
          "is_finite", "1 where a is a finite number, else 0; its gradient is 0", step_examples),
      element<PLAIT_MAP_SELECT, 3>("select", "b where a is not 0, else c", select_examples),
      element<PLAIT_MAP_FMA, 3>("fma", "a * b + c", fma_examples)};
  return kOps;
}

}  // namespace plait::program
