// peft-adalora: changes of products whose ranks follow from what they are worth (Zhang et al. 2023,
// arXiv:2303.10512). The change of a weight (O,I) is b·diag(e)·a, like a singular value
// decomposition: a (r,I), e (r), b (O,r). Of all targets together, the values e with the least
// scores are set to 0, ever more of them, until the budget is reached.
//   T targets, r initial rank
#include <plait/plugin.hpp>

#include <cmath>
#include <string>
#include <vector>

#include "plugins/support/functions.hpp"

namespace {
using namespace plait;

constexpr plait_option kOptions[] = {
    at_least(opt_int("init_rank", "12", "rank of each change at first, r"), 1),
    at_least(opt_int("target_rank", "8", "mean of the ranks at the end; at most init_rank"), 1),
    opt_real("alpha", "8.0", "the change is multiplied by alpha / init_rank"),
    below(at_least(opt_real("dropout", "0.0", "probability that an input of the change is 0"), 0),
          1),
    at_least(opt_int("steps", "0",
                     "steps that have samples of the adapter, over which the ranks go; 0: as many "
                     "as the run has"),
             0),
    at_least(opt_int("tinit", "0", "steps before the first rank goes"), 0),
    at_least(opt_int("tfinal", "0", "steps at the end, with the ranks as they are then"), 0),
    at_least(opt_int("delta_t", "1", "steps from one choice of ranks to the next"), 1),
    below(above(opt_real("beta1", "0.85", "of the running mean of sensitivities"), 0), 1),
    below(above(opt_real("beta2", "0.85", "of the running mean of their uncertainty"), 0), 1),
    at_least(
        opt_real("orth_reg_weight", "0.5",
                 "factor of a term of the loss that keeps the rows of a, and the columns of b, "
                 "orthonormal: the mean of the distances; it is the metric `orthogonality`"),
        0),
};

int64_t rank_of(const Options& o) { return o.integer("init_rank"); }

// The sum is that of the library peft, which keeps the scale when ranks go.
double scale_of(const Options& o) {
  return o.real("alpha") / (static_cast<double>(rank_of(o)) + 1e-5);
}

struct Factors {
  Value a, e, b;
};

Factors factors(const Builder& b, const Options& o, const PeftTarget& t) {
  const Shape weight = b.shape(t.weight);
  const int64_t in = weight.dims[t.in_dim()], out = weight.dims[t.out_dim()], r = rank_of(o);
  if (o.integer("target_rank") > r)
    fail(PLAIT_ERR_CONFIG, "[peft-adalora] target_rank is " +
                               std::to_string(o.integer("target_rank")) +
                               ", expected at most init_rank, " + std::to_string(r) + "; set at " +
                               o.origin("target_rank"));
  return {b.parameter("a", Shape({r, in}), Init::normal(0, 0.02), t.shard_along(t.in_dim(), 1),
                      t.shard_unit),
          b.parameter("e", Shape({r}), Init::constant(0)),
          b.parameter("b", Shape({out, r}), Init::normal(0, 0.02), t.shard_along(t.out_dim(), 0),
                      t.shard_unit)};
}

// The identity (r,r): its rows, one after another, are 1 and r zeros, over and over.
Value identity(const Builder& b, int64_t r) {
  const auto fill = [&](double v, int64_t n) {
    const std::vector<int64_t> shape{r, n};
    return b.op("fill", {}, {attr("value", v), attr("shape", std::span<const int64_t>(shape))});
  };
  const Value rows = b.op("concat", {fill(1, 1), fill(0, r)}, {attr("axis", int64_t{1})});
  const Value all = b.op("slice", {b.reshape(rows, {r * (r + 1)})},
                         {attr("axis", int64_t{0}), attr("stop", r * r)});
  return b.reshape(all, {r, r});
}

// |a·aᵀ - I|, the root of the sum of squares; of b: |bᵀ·b - I|. A distance of 0 has the gradient 0.
Value distance(const Builder& b, Value factor, const char* transposed, int64_t r) {
  const Value squares = b.op("matmul", {factor, factor}, {attr(transposed, true)});
  const Value apart = squares - b.as(identity(b, r), b.shape(squares).dtype);
  return sqrt(b.sum(apart * apart) + 1e-30);
}

// The mean of the distances of all targets, for each sample the same.
void keep_orthonormal(const Builder& b, const Options& o, const PeftTarget& t, const Factors& f) {
  if (!b.training() || o.real("orth_reg_weight") == 0) return;
  const int64_t r = rank_of(o), n = std::max<int64_t>(t.n_targets, 1);
  const Value weight = b.sum(b.named("weight"));
  const Value both = distance(b, f.a, "transpose_b", r) + distance(b, f.b, "transpose_a", r);
  const Value mean = b.as(both, b.shape(weight).dtype) * (0.5 / static_cast<double>(n));
  b.add_loss("orthogonality", o.real("orth_reg_weight"), mean * weight, weight);
}

Value wrap(Builder& b, const Options& o, const PeftTarget& t) {
  const Factors f = factors(b, o, t);
  keep_orthonormal(b, o, t, f);
  const Value x = functions::dropout(b, t.input, o.real("dropout"));
  const Value inner = b.op("matmul", {x, f.a}, {attr("transpose_b", true)}) * f.e;
  return t.output + b.op("matmul", {inner, f.b}, {attr("transpose_b", true)}) * scale_of(o);
}

Merged merge(Builder& b, const Options& o, const PeftTarget& t, Merged m) {
  const Factors f = factors(b, o, t);
  const Value scaled = f.b * f.e;
  const Value change = t.out_in ? b.op("matmul", {scaled, f.a})
                                : b.op("matmul", {f.a, scaled},
                                       {attr("transpose_a", true), attr("transpose_b", true)});
  return {m.weight + change * scale_of(o), m.bias};
}

// The step from which on the ranks stay. Steps count the updates of the adapter alone.
double last_choice(const Options& o, const PeftUpdate& u) {
  const int64_t own = o.integer("steps"), all = own > 0 ? own : u.total_steps;
  if (all <= 0)
    fail(PLAIT_ERR_CONFIG,
         "[peft-adalora] the number of steps is not known, expected one, as the ranks follow a "
         "schedule over all of them; set run.steps or run.epochs, or `steps` of the adapter");
  const int64_t left = all - o.integer("tfinal");
  if (o.integer("tinit") >= left)
    fail(PLAIT_ERR_CONFIG, "[peft-adalora] tinit " + std::to_string(o.integer("tinit")) +
                               " and tfinal " + std::to_string(o.integer("tfinal")) + " (" +
                               o.origin("tfinal") + ") leave no step of " + std::to_string(all) +
                               " in which ranks could go, expected a smaller sum; train longer, or "
                               "set smaller ones");
  return static_cast<double>(left);
}

// How much a value matters: a running mean of |value · gradient|, times one of its uncertainty.
Value importance(const Builder& b, const Options& o, const PeftUpdate& u) {
  const double beta1 = o.real("beta1"), beta2 = o.real("beta2");
  const Value mean = b.state("sensitivity"), apart = b.state("uncertainty");
  const Value now = abs(u.parameter * u.gradient), counts = u.step < last_choice(o, u);
  const Value next_mean = select(counts, beta1 * mean + (1 - beta1) * now, mean);
  const Value next_apart =
      select(counts, beta2 * apart + (1 - beta2) * abs(now - next_mean), apart);
  b.set_state("sensitivity", next_mean);
  b.set_state("uncertainty", next_apart);
  return next_mean * next_apart;
}

// Of the r parts of a change: that of its e, and the means of its row of a and its column of b.
Value score(Builder& b, const Options& o, const PeftUpdate& u) {
  const Value each = importance(b, o, u);
  if (u.name == "e") return each;
  const int64_t axis = u.name == "a" ? 1 : 0;
  return b.sum(each, {axis}, false) *
         (1.0 / static_cast<double>(b.shape(each).dims[static_cast<size_t>(axis)]));
}

// How many of the T·r values are 0 behind this step, while ranks go: with c from 1 to 0,
//   T (init_rank - target_rank) (1 - c³), rounded up.
Value dropped(const Options& o, const PeftUpdate& u) {
  const auto targets = static_cast<double>(u.n_targets);
  const double first = targets * static_cast<double>(o.integer("init_rank")),
               last = targets * static_cast<double>(o.integer("target_rank")),
               begin = static_cast<double>(o.integer("tinit")), end = last_choice(o, u);
  const Value c = 1.0 - (u.step - begin) / (end - begin);
  const Value budget = floor((first - last) * (c * c * c) + last);
  return first - select(end <= u.step, 0.0 * u.step + last, budget);
}

// A value goes if fewer than k of all scores are less than its own: that is true of the k least
// ones and of what is equal to the last of them, and of no other. Each is compared with each,
// (T·r)² times in all, without a sort: 7 million for 224 targets of rank 12. Where nothing has a
// score yet, behind the last choice of an adapter that a host has loaded since, nothing goes.
Value update(Builder& b, const Options& o, const PeftUpdate& u) {
  if (u.name != "e") return u.parameter;
  const int64_t r = b.shape(u.scores).count();
  const Value less = b.sum(
      b.reshape(u.all_scores, {1, b.shape(u.all_scores).count()}) < b.reshape(u.scores, {r, 1}),
      {1}, false);
  const auto every = static_cast<double>(o.integer("delta_t"));
  const Value chooses = select(last_choice(o, u) <= u.step, 0.0 * u.step + 1.0,
                               (static_cast<double>(o.integer("tinit")) < u.step) *
                                   (floor(u.step / every) * every >= u.step));
  const Value known = 0.0 < b.sum(u.all_scores);
  return select(chooses * known * (less < dropped(o, u)), 0.0 * u.parameter, u.parameter);
}
}  // namespace

PLAIT_PLUGIN("peft-adalora", "0.1.0", "Apache-2.0", "Low-rank changes that share a budget") {
  static const auto adalora = peft<wrap, merge, nullptr, score, update>(
      "adalora",
      "adds products of two small matrices to weights, and lets the least of their ranks go",
      PLAIT_PEFT_PRODUCT, kOptions);
  host.add(adalora);
}
