// y[.., m, n] = op(a)[.., m, k] * op(b)[.., k, n] (+ bias[n]). B leading dims, m rows, k inner, n columns.
//
// fold_matmul makes further forms of it, by attributes that are not there when a program is written:
//   activation  text: y = relu(..), tanh(..) or sigmoid(..) of the above
//   accumulate  bool: a last input c, of y's shape, is added; y is c's memory. Excludes bias and activation
//   squares     bool: a second output, a scalar: the sum of the squares of y. Excludes the other three
#include "engine/base/error.hpp"
#include "engine/program/rule.hpp"

namespace plait::program {
namespace {

struct Sizes {
  Dims lead;
  int64_t m, n, k;
  bool shared_b;  // b is one matrix for all leading dims of a
};

Sizes sizes(const Application& a) {
  const bool ta = a.attrs.integer("transpose_a", 0) != 0,
             tb = a.attrs.integer("transpose_b", 0) != 0;
  const plait_shape &x = a.in[0], &w = a.in[1];
  if (x.ndim < 2 || w.ndim < 2)
    fail_invalid(a.where() + " needs matrices, found " + text(x) + " and " + text(w));
  if (!is_float(x.dtype) || x.dtype != w.dtype)
    fail_invalid(a.where() + " needs two operands of one float type, found " + text(x) + " and " +
                 text(w));
  Sizes s;
  s.m = x.dims[x.ndim - (ta ? 1 : 2)];
  s.k = x.dims[x.ndim - (ta ? 2 : 1)];
  s.n = w.dims[w.ndim - (tb ? 2 : 1)];
  const int64_t kw = w.dims[w.ndim - (tb ? 1 : 2)];
  if (s.k != kw)
    fail_invalid(a.where() + " inner extents differ: " + std::to_string(s.k) + " in " + text(x) +
                 (ta ? " transposed" : "") + ", " + std::to_string(kw) + " in " + text(w) +
                 (tb ? " transposed" : ""));
  s.lead = Dims(x.dims, x.dims + x.ndim - 2);
  s.shared_b = w.ndim == 2;
  if (!s.shared_b && Dims(w.dims, w.dims + w.ndim - 2) != s.lead)
    fail_invalid(a.where() + " leading extents differ: " + text(x) + " and " + text(w));
  if (s.shared_b && x.ndim > 2 && ta)
    fail_invalid(a.where() +
                 " transpose_a with one shared matrix b is not defined: reshape a first");
  return s;
}

std::vector<plait_shape> infer(const Application& a) {
  const bool bias = a.attrs.integer("bias", 0) != 0;
  a.arity(bias ? 3 : 2, bias ? 3 : 2);
  Sizes s = sizes(a);
  if (bias && (a.in[2].ndim != 1 || a.in[2].dims[0] != s.n))
    fail_invalid(a.where() + " bias has shape " + text(a.in[2]) + ", expected (" +
                 std::to_string(s.n) + ")");
  Dims out = s.lead;
  out.push_back(s.m);
  out.push_back(s.n);
  return {make_shape(a.in[0].dtype, out)};
}

// d(op(a)) = d * op(b)^T and d(op(b)) = op(a)^T * d, each returned in its stored orientation.
void gradient(Use& u) {
  Graph& g = u.g;
  const bool ta = u.op.attrs.integer("transpose_a", 0) != 0,
             tb = u.op.attrs.integer("transpose_b", 0) != 0;
  const ValueId a = u.op.in[0], b = u.op.in[1], d = u.d_out[0];
  auto mm = [&](ValueId x, bool tx, ValueId y, bool ty) {
    return g.apply1("matmul", {x, y}, {attr("transpose_a", tx), attr("transpose_b", ty)});
  };
  if (u.wanted[0]) u.d_in[0] = ta ? mm(b, tb, d, true) : mm(d, false, b, !tb);
  if (u.wanted[1]) {
    ValueId x = a, dy = d;
    if (g.shape(b).ndim == 2 && g.shape(a).ndim > 2) {  // rows of all leading dims add up
      const plait_shape &sa = g.shape(a), &sd = g.shape(d);
      const int64_t k = sa.dims[sa.ndim - 1], n = sd.dims[sd.ndim - 1];
      const int64_t rows = k ? elements(sa) / k : (n ? elements(sd) / n : 0);
      x = reshaped(g, a, {rows, k});
      dy = reshaped(g, d, {rows, n});
    }
    u.d_in[1] = tb ? mm(dy, true, x, ta) : mm(x, !ta, dy, false);
  }
  if (u.op.in.size() > 2 && u.wanted[2]) u.d_in[2] = sum_to(g, d, g.shape(u.op.in[2]));
}

double flops(const Graph& g, const Op& op) {
  const plait_shape& x = g.shape(op.in[0]);
  const int64_t k = x.dims[x.ndim - (op.attrs.integer("transpose_a", 0) ? 2 : 1)];
  return 2.0 * static_cast<double>(k) * static_cast<double>(elements(g.shape(op.out[0])));
}

}  // namespace

extern const Rule kMatmul;
const Rule kMatmul{"matmul", infer, gradient, flops, false, CollectiveOp::kNone, shard_matmul};

}  // namespace plait::program
