// y[.., m, n] = op(a)[.., m, k] * op(b)[.., k, n] (+ bias[n]). B leading dims, m rows, k inner, n
// columns.
#include "kit/ops/matmul.hpp"

#include "engine/program/float8.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/per_sample.hpp"
#include "engine/program/quantize.hpp"
#include "engine/program/shard_product.hpp"

namespace plait::program {
namespace {

struct Transposed {
  explicit Transposed(const Op& op)
      : a(op.attrs.integer("transpose_a", 0) != 0), b(op.attrs.integer("transpose_b", 0) != 0) {}
  bool a, b;
};

bool stays_wide(const Op& op) { return op.attrs.integer("wide", 0) != 0; }

bool has_bias(const Op& op) { return op.attrs.integer("bias", 0) != 0; }

std::vector<plait_shape> infer(const InferContext& c) {
  return {
      make_shape(result_type(c, c.in[0].dtype), kit::parse_matmul(c.desc, kit::Tf32::kKnown).out)};
}

// d(op(a)) = d * op(b)^T and d(op(b)) = op(a)^T * d, each returned in its stored orientation.
void vjp(VjpContext& u) {
  Graph& g = u.g;
  const Transposed t(u.op);
  const ValueId a = u.op.in[0], b = u.op.in[1], d = u.d_out[0];
  const bool marked = is_marked(u.op), wide = stays_wide(u.op);
  auto mm = [&](ValueId x, bool tx, ValueId y, bool ty, ProductOf operands) {
    Attrs attrs{attr("transpose_a", tx), attr("transpose_b", ty)};
    if (marked) attrs.set(mark(operands));
    if (wide) attrs.set(attr("wide", true));
    return g.apply1("matmul", {x, y}, std::move(attrs));
  };
  if (u.wanted[0])
    u.d_in[0] = t.a ? mm(b, t.b, d, true, ProductOf::kWeightGradient)
                    : mm(d, false, b, !t.b, ProductOf::kGradientWeight);
  if (u.wanted[1]) {
    ValueId x = a, dy = d;
    if (g.shape(b).ndim == 2 && g.shape(a).ndim > 2) {  // rows of all leading dims add up
      const plait_shape &sa = g.shape(a), &sd = g.shape(d);
      const int64_t k = sa.dims[sa.ndim - 1], n = sd.dims[sd.ndim - 1];
      const int64_t rows = k ? elements(sa) / k : (n ? elements(sd) / n : 0);
      x = reshaped(g, a, {rows, k});
      dy = reshaped(g, d, {rows, n});
    }
    u.d_in[1] = t.b ? mm(dy, true, x, t.a, ProductOf::kGradientInput)
                    : mm(x, !t.a, dy, false, ProductOf::kInputGradient);
  }
  if (u.op.in.size() > 2 && u.wanted[2]) u.d_in[2] = sum_to(g, d, g.shape(u.op.in[2]));
}

double flops(const Graph& g, const Op& op) {
  const plait_shape& x = g.shape(op.in[0]);
  const int64_t k = x.dims[x.ndim - (Transposed(op).a ? 2 : 1)];
  return 2.0 * static_cast<double>(k) * static_cast<double>(elements(g.shape(op.out[0])));
}

bool shard(const Graph& g, const Op& op, const std::vector<Placement>& have, int64_t, Sharding& s) {
  const Transposed t(op);
  return shard_product(g, op, {t.a, t.b, op.in[1], has_bias(op) ? size_t{2} : 0}, have, s);
}

// The bias.
size_t addend(const Op& op, Op& without) {
  if (!has_bias(op)) return 0;
  const Transposed t(op);
  without = op;
  without.in.resize(2);
  without.attrs.set(attr("bias", false));
  return 2;
}

std::optional<size_t> reads_weight(const Graph& g, const Op& op) {
  const bool plain = op.in.size() == (has_bias(op) ? 3 : 2) && op.out.size() == 1;
  if (!plain || stays_wide(op) || Transposed(op).a || g.shape(op.in[1]).ndim != 2)
    return std::nullopt;
  return 1;
}
ValueId write_quantized(Graph& g, const Op& op, const QuantizedRows& rows) {
  std::vector<ValueId> in{op.in[0], rows.numbers, rows.scales};
  if (has_bias(op)) in.push_back(op.in[2]);
  Attrs attrs{attr("bias", has_bias(op)), attr("transpose_b", Transposed(op).b),
              attr("format", rows.format), attr("columns", g.shape(op.in[1]).dims[1])};
  if (const uint32_t type = g.shape(op.out[0]).dtype; type != g.shape(op.in[0]).dtype)
    attrs.set(attr("dtype", static_cast<int64_t>(type)));
  return g.apply1("matmul_quantized", std::move(in), std::move(attrs));
}

std::optional<WeightUse> weight_use(const Graph& g, const Op& op) {
  const Transposed t(op);
  if (t.a || g.shape(op.in[1]).ndim != 2) return std::nullopt;
  return WeightUse{.bias = has_bias(op) ? size_t{2} : 0, .out_in = t.b};
}

// Rows of a sample by the matrix of its own: a product of N leading dims.
PerSampleResult per_sample(PerSampleContext& c) {
  using Kind = PerSampleContext::Kind;
  Graph& g = c.g;
  const bool transpose_a = c.attrs.integer("transpose_a", 0) != 0;
  if (c.in.size() != 2) return {.refused = "with a bias it does not; add that behind it"};
  if (!c.has_rows()) {
    if (!c.is(0, Kind::kStack)) return {.refused = "its first operand is the same for all samples"};
    return {c.apply({c.in[0].value, c.in[1].value}), true};
  }
  if (!c.is(0, Kind::kRows) || transpose_a || c.ndim(1) != 2)
    return {.refused = "it multiplies rows of the samples by matrices of their own, nothing else"};
  const ValueId x = c.in[0].value;
  Dims dims = c.dims(0);
  if (dims.size() < 2) return {.refused = "a sample has one number, " + text(g.shape(x))};
  int64_t rows = 1;
  for (size_t d = 1; d + 1 < dims.size(); ++d) rows *= dims[d];
  const ValueId y = c.apply({reshaped(g, x, {dims[0], rows, dims.back()}), c.of_samples(1)});
  dims.back() = g.shape(y).dims[2];
  return {reshaped(g, y, dims)};
}

std::vector<OpExample> examples() {
  std::vector<OpExample> all;
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      const Attrs t = {attr("transpose_a", ta), attr("transpose_b", tb)};
      const Dims a = ta ? Dims{4, 3} : Dims{3, 4}, b = tb ? Dims{2, 4} : Dims{4, 2};
      all.push_back({.inputs = {a, b}, .attrs = t});
      Dims ba = a, bb = b;
      ba.insert(ba.begin(), 2);
      bb.insert(bb.begin(), 2);
      all.push_back({.inputs = {ba, bb}, .attrs = t});
      if (!ta) all.push_back({.inputs = {ba, b}, .attrs = t});
    }
  all.push_back(
      {.inputs = {{3, 4}, {2, 4}, {2}}, .attrs = {attr("transpose_b", true), attr("bias", true)}});
  return all;
}

}  // namespace

std::span<const OpDef> matmul_ops() {
  static const OpDef kOps[] = {
      {.name = "matmul",
       .help = "matrix products over the last two axes; a b of rank 2 serves all leading dims",
       .signature = "a (.., m, k), b (.., k, n) or (k, n) [, bias (n)] -> y (.., m, n)",
       .dtypes = "a and b floats of one type, bias floats",
       .attrs = kit::kMatmulAttrs,
       .rewrite_attrs = kit::kMatmulFolds,
       .infer = infer,
       .vjp = vjp,
       .flops = flops,
       .is_product = true,
       .takes_mark = true,
       .folds = kFoldBias | kFoldActivation | kFoldAccumulate | kFoldSquares,
       .precision = PrecisionClass::kLow,
       .stays_wide = stays_wide,
       .typed_operands = 2,
       .writes_any_float = true,
       .takes_tf32 = true,
       .weight_use = weight_use,
       .shard = shard,
       .addend = addend,
       .reads_weight = reads_weight,
       .write_quantized = write_quantized,
       .per_sample = per_sample,
       .examples = examples}};
  return kOps;
}

}  // namespace plait::program
