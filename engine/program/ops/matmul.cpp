// y[.., m, n] = op(a)[.., m, k] * op(b)[.., k, n] (+ bias[n]). B leading dims, m rows, k inner, n
// columns.
#include "kit/ops/matmul.hpp"

#include <plait/comm.h>

#include "engine/program/op_def.hpp"
#include "engine/program/quantize.hpp"
#include "engine/program/shard.hpp"

namespace plait::program {
namespace {

struct Transposed {
  explicit Transposed(const Op& op)
      : a(op.attrs.integer("transpose_a", 0) != 0), b(op.attrs.integer("transpose_b", 0) != 0) {}
  bool a, b;
};

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
  auto mm = [&](ValueId x, bool tx, ValueId y, bool ty) {
    return g.apply1("matmul", {x, y}, {attr("transpose_a", tx), attr("transpose_b", ty)});
  };
  if (u.wanted[0]) u.d_in[0] = t.a ? mm(b, t.b, d, true) : mm(d, false, b, !t.b);
  if (u.wanted[1]) {
    ValueId x = a, dy = d;
    if (g.shape(b).ndim == 2 && g.shape(a).ndim > 2) {  // rows of all leading dims add up
      const plait_shape &sa = g.shape(a), &sd = g.shape(d);
      const int64_t k = sa.dims[sa.ndim - 1], n = sd.dims[sd.ndim - 1];
      const int64_t rows = k ? elements(sa) / k : (n ? elements(sd) / n : 0);
      x = reshaped(g, a, {rows, k});
      dy = reshaped(g, d, {rows, n});
    }
    u.d_in[1] = t.b ? mm(dy, true, x, t.a) : mm(x, !t.a, dy, false);
  }
  if (u.op.in.size() > 2 && u.wanted[2]) u.d_in[2] = sum_to(g, d, g.shape(u.op.in[2]));
}

double flops(const Graph& g, const Op& op) {
  const plait_shape& x = g.shape(op.in[0]);
  const int64_t k = x.dims[x.ndim - (Transposed(op).a ? 2 : 1)];
  return 2.0 * static_cast<double>(k) * static_cast<double>(elements(g.shape(op.out[0])));
}

// Whether a value is a parameter, perhaps cast or seen under other dims.
bool is_parameter(const Graph& g, ValueId v) {
  while (g.value(v).producer >= 0) {
    const Op& op = g.ops()[static_cast<size_t>(g.value(v).producer)];
    if (op.in.size() != 1 || !(op.def->is_view || op.def->is_map)) return false;
    v = op.in[0];
  }
  return g.value(v).role == Role::kPersistent;
}

// Rows, columns and leading dimensions stay sharded; over a sharded k the products are partial
// sums. A sharded parameter stays where it is, and a is converted; of two sharded activations b is.
bool shard(const Graph& g, const Op& op, const std::vector<Placement>& have, int64_t, Sharding& s) {
  const Transposed t(op);
  s.keeps_zeros = true;
  const auto ra = static_cast<int32_t>(g.shape(op.in[0]).ndim),
             rb = static_cast<int32_t>(g.shape(op.in[1]).ndim),
             ry = static_cast<int32_t>(g.shape(op.out[0]).ndim);
  const int32_t a_rows = ra - (t.a ? 1 : 2), a_inner = ra - (t.a ? 2 : 1);
  const int32_t b_columns = rb - (t.b ? 2 : 1), b_inner = rb - (t.b ? 1 : 2);
  const int32_t a = have[0].dim, b = have[1].dim;  // -1: replicated
  const bool rows = have[0].is_shard() && (a == a_rows || (a < ra - 2 && rb == 2));
  const bool fixed = have[1].is_shard() && is_parameter(g, op.in[1]);
  const auto by_columns = [&] {
    s.in[1] = have[1];
    s.out[0] = shard_along(ry - 1);
    if (op.in.size() > 2) s.in[2] = shard_along(0);
    return true;
  };
  if (b == b_inner && (fixed || !rows)) {  // its a must come in the same parts
    s.in[0] = shard_along(a_inner);
    s.in[1] = have[1];
    s.out[0] = partial(PLAIT_COMM_SUM);
    return true;
  }
  if (b == b_columns && fixed) return by_columns();
  // A bias is added to padded rows, too.
  if (rows) {
    s.keeps_zeros = !has_bias(op);
    s.in[0] = have[0];
    s.out[0] = a == a_rows ? shard_along(ry - 2) : have[0];
    return true;
  }
  if (b == b_columns) return by_columns();
  const int32_t lead = have[0].is_shard() && a < ra - 2 ? a : b;
  if (lead >= 0 && rb > 2 && lead < rb - 2) {
    s.keeps_zeros = !has_bias(op);
    s.in[0] = s.in[1] = s.out[0] = shard_along(lead);
    return true;
  }
  return false;  // a alone is sharded along k: to gather it costs less than to sum y
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

bool reads_rows(const Graph& g, const Op& op) {
  const Transposed t(op);
  return !t.a && t.b && g.shape(op.in[1]).ndim == 2 && op.in.size() == (has_bias(op) ? 3 : 2) &&
         op.out.size() == 1;
}
ValueId write_quantized(Graph& g, const Op& op, const QuantizedRows& rows) {
  std::vector<ValueId> in{op.in[0], rows.numbers, rows.scales};
  if (has_bias(op)) in.push_back(op.in[2]);
  Attrs attrs{attr("bias", has_bias(op))};
  if (const uint32_t type = g.shape(op.out[0]).dtype; type != g.shape(op.in[0]).dtype)
    attrs.set(attr("dtype", static_cast<int64_t>(type)));
  return g.apply1("matmul_quantized", std::move(in), std::move(attrs));
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
       .folds = kFoldBias | kFoldActivation | kFoldAccumulate | kFoldSquares,
       .precision = PrecisionClass::kLow,
       .typed_operands = 2,
       .writes_any_float = true,
       .takes_tf32 = true,
       .shard = shard,
       .addend = addend,
       .reads_rows = reads_rows,
       .write_quantized = write_quantized,
       .examples = examples}};
  return kOps;
}

}  // namespace plait::program
