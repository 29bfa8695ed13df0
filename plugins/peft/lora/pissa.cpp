#include "plugins/peft/lora/pissa.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "plugins/peft/lora/low_rank.hpp"
#include "plugins/peft/lora/orthogonal_rows.hpp"

namespace plait::pissa {
namespace {

// low_rank::kOptions without its initial values.
constexpr auto kOptions = [] {
  constexpr size_t n = std::size(low_rank::kOptions);
  std::array<plait_option, n> all{};
  std::copy(std::begin(low_rank::kOptions), std::end(low_rank::kOptions) - 1, all.begin());
  all[n - 1] = at_least(opt_int("iterations", "8",
                                "products with the weight and its transpose, by which the singular "
                                "vectors are found"),
                        1);
  return all;
}();

// The trained factors, and those that they start as, which stay. The paper takes the principal part
// out of the weight, and trains it; here the weight stays as it is, and what the factors began with
// is subtracted, which is the same function. The second of these is kept with the other sign, so
// that all of it is LoRA of twice the rank.
struct Both {
  low_rank::Factors trained, initial;
};

Both both(const Builder& b, const Options& o, const PeftTarget& t) {
  const Shape weight = b.shape(t.weight);
  const int64_t in = weight.dims[t.in_dim()], out = weight.dims[t.out_dim()],
                rank = low_rank::rank_of(o, t);
  if (rank > std::min(in, out))
    fail(PLAIT_ERR_CONFIG, "[peft-lora] pissa: the rank of '" + t.name + "' is " +
                               std::to_string(rank) + ", and its weight " +
                               b.shape(t.weight).typed_text() + " has " +
                               std::to_string(std::min(in, out)) +
                               " singular values; set a smaller rank, or rank_pattern");
  // What a and initial_a are drawn as are the rows with which the search begins.
  const auto factor = [&](const char* name, Shape shape, uint32_t weight_dim, int32_t own,
                          uint32_t flags) {
    return b.parameter(name, shape, own == 1 ? Init::normal(0, 1) : Init::constant(0),
                       t.shard_along(weight_dim, own), t.shard_unit, flags);
  };
  const auto pair = [&](const char* a, const char* c, uint32_t flags) {
    return low_rank::Factors{factor(a, Shape({rank, in}), t.in_dim(), 1, flags),
                             factor(c, Shape({out, rank}), t.out_dim(), 0, flags)};
  };
  return {pair("a", "b", 0), pair("initial_a", "minus_initial_b", PLAIT_REQUEST_FIXED)};
}

Value wrap(Builder& b, const Options& o, const PeftTarget& t) {
  const Both f = both(b, o, t);
  const Value x = functions::dropout(b, t.input, o.real("dropout"));
  return t.output +
         (low_rank::added(b, o, t, f.trained, x) + low_rank::added(b, o, t, f.initial, t.input));
}

Merged merge(Builder& b, const Options& o, const PeftTarget& t, Merged m) {
  const Both f = both(b, o, t);
  const Value change = low_rank::change(b, o, t, f.trained) + low_rank::change(b, o, t, f.initial);
  return {m.weight + change, m.bias};
}

// Lengths of the rows, (m,1), of which none is 0.
Value lengths(const Builder& b, Value x) { return max(sqrt(b.sum(x * x, {1}, true)), 1e-30); }
struct Orthogonal {
  Value rows, turn;
};
Orthogonal orthogonal(const Builder& b, Value x) {
  const std::vector<Value> made = b.ops(orthogonal_rows::kOp, std::vector<Value>{x}, {}, 2);
  return {made[0], made[1]};
}
Value orthonormal(const Builder& b, Value x) {
  const Value rows = orthogonal(b, x).rows;
  return rows / lengths(b, rows);
}

// a and b of the principal part of W, s·b·a, by subspace iteration (Halko et al. 2011) with twice
// as many rows as wanted.
std::vector<PeftStart> start(Builder& b, const Options& o, const PeftTarget& t) {
  const Both f = both(b, o, t);
  const Shape weight = b.shape(t.weight);
  const int64_t rank = low_rank::rank_of(o, t),
                rows = std::min({2 * rank, weight.dims[0], weight.dims[1]});
  const auto first_rows = [&](Value x, int64_t n) {
    return b.op("slice", {x}, {attr("axis", 0), attr("start", 0), attr("stop", n)});
  };
  const auto type = weight.dtype == PLAIT_F64 ? PLAIT_F64 : PLAIT_F32;
  const auto widened = [&](Value x) {
    return b.op("cast", {x}, {attr("dtype", static_cast<int64_t>(type))});
  };
  const Value w = widened(t.weight);  // (O,I) or (I,O)
  const auto times = [&](Value x, bool to_out) {
    return b.op("matmul", {x, w}, {attr("transpose_b", to_out == t.out_in)});
  };
  const std::vector<Value> drawn{widened(f.trained.a), widened(f.initial.a)};
  // Rows of the weight beside them: behind a merge the factors may come from a weight of zeros.
  const Value own =
      b.op("slice", {w},
           {attr("axis", static_cast<int64_t>(t.out_dim())), attr("start", 0), attr("stop", rows)});
  const Value begin = first_rows(b.concat(drawn, 0), rows);
  Value right = orthonormal(b, begin + (t.out_in ? own : b.transpose(own, {1, 0})));  // (rows,I)
  Value left;                                                                         // (rows,O)
  for (int64_t i = 0; i < o.integer("iterations"); ++i) {
    left = orthonormal(b, times(right, true));
    if (i + 1 < o.integer("iterations")) right = orthonormal(b, times(left, false));
  }
  const Orthogonal found = orthogonal(b, times(left, false));  // σ·v, (rows,I)
  const Value u = b.op("matmul", {found.turn, left}, {attr("transpose_a", true)});
  const Value sigma = lengths(b, first_rows(found.rows, rank));  // (r,1)
  const double scale = low_rank::scale_of(o, t);
  if (!(scale > 0))
    fail(PLAIT_ERR_CONFIG, "[peft-lora] pissa: alpha of '" + t.name +
                               "' is not above 0, and the principal part is divided by it");
  const Value a = first_rows(found.rows, rank) / sqrt(sigma * scale);
  const Value c = b.transpose(first_rows(u, rank) * sqrt(sigma / scale), {1, 0});
  return {{f.trained.a, a}, {f.trained.b, c}, {f.initial.a, a}, {f.initial.b, c * -1.0}};
}

}  // namespace

plait_peft_item item() {
  return peft<wrap, merge, start>(
      "pissa", "LoRA that begins as the principal part of a weight, which is trained in its place",
      PLAIT_PEFT_PRODUCT, kOptions);
}

}  // namespace plait::pissa
