// layer-metric: metrics. A state is {weighted sum, sum of weights}; states of micro-batches and
// ranks add up.
#include "plugins/layers/samples.hpp"

#include <cmath>
#include <limits>

namespace {
using namespace plait;
using In = std::span<const Value>;

Value state_of(const Builder& b, const std::pair<Value, Value>& sums) {
  const Value parts[] = {b.reshape(sums.first, {1}), b.reshape(sums.second, {1})};
  return b.concat(parts, 0);
}

double mean(const double* state) {
  return state[1] > 0 ? state[0] / state[1] : std::numeric_limits<double>::quiet_NaN();
}
double exp_mean(const double* state) { return std::exp(mean(state)); }

// A hit: no more than k logits reach the label's own, itself included. Ties count against the
// prediction, and NaN never hits, so a model that says nothing scores nothing. x (B,T…,C), label
// (B,T…)
std::pair<Value, Value> hits(const Builder& b, In in, double k) {
  const Value label = samples::labels(b, in[0], in[1]);
  const Value x = b.as(in[0], b.shape(b.named("weight")).dtype);
  const Shape shape = b.shape(x);
  const auto last = static_cast<int64_t>(shape.ndim()) - 1;
  const Value chosen = b.op("one_hot", {label}, {attr("depth", shape.last())});
  const Value own = b.sum(select(chosen, x, b.constant(0)), {last});
  const Value reached = b.sum(own <= x, {last});
  const Value hit = (reached >= 1.0) * (reached <= k);
  const Value w = samples::label_weights(b, label);
  std::vector<int64_t> column(b.shape(w).dims);
  column.resize(shape.ndim(), 1);
  // A number beyond the last class is none. Weights come last: adapters share what is before.
  const Value is_class = b.cast(label, b.shape(w).dtype) < static_cast<double>(shape.last());
  const Value counted = b.reshape(w, column) * b.reshape(is_class, column);
  return {b.sum(hit * counted), b.sum(w)};
}

// One logit per sample: its sign against a label of 0 or 1.
std::pair<Value, Value> sign_hits(const Builder& b, In in) {
  const auto [x, t] = samples::values(b, in);
  return samples::weighted_mean(b, (x > 0.0) * (t > 0.5) + (x <= 0.0) * (t <= 0.5));
}

Value build_accuracy(Builder& b, const Options&, In in) {
  const Shape x = b.shape(in[0]);
  const bool binary = x.ndim() < 2 || x.last() == 1;
  return state_of(b, binary ? sign_hits(b, in) : hits(b, in, 1));
}

constexpr plait_option kTopK[] = {
    at_least(opt_int("k", "5", "number of largest logits that count as a hit"), 1)};
Value build_top_k(Builder& b, const Options& o, In in) {
  const int64_t k = o.integer("k");
  const auto sums = hits(b, in, static_cast<double>(k));  // refuses what has no classes
  const int64_t classes = b.shape(in[0]).last();
  if (k >= classes)
    samples::refuse(b, "k = " + std::to_string(k) + " of " + std::to_string(classes) +
                           " classes is always a hit; use k < " + std::to_string(classes));
  return state_of(b, sums);
}

Value build_mae(Builder& b, const Options&, In in) {
  const auto [x, t] = samples::values(b, in);
  return state_of(b, samples::weighted_mean(b, abs(x - t)));
}

Value build_mean_bias(Builder& b, const Options&, In in) {
  const auto [x, t] = samples::values(b, in);
  return state_of(b, samples::weighted_mean(b, x - t));
}

Value build_perplexity(Builder& b, const Options&, In in) {
  return state_of(b, samples::cross_entropy(b, in, 0));
}
}  // namespace

PLAIT_PLUGIN("layer-metric", "0.1.0", "Apache-2.0", "Metrics") {
  static const plait_metric_item items[] = {
      metric<build_accuracy>(
          "accuracy", "fraction of samples whose label has the largest logit; ties count as misses",
          2, true, mean),
      metric<build_top_k>(
          "top_k",
          "fraction of samples whose label is among the k largest logits; ties count as misses", 2,
          true, mean, kTopK),
      metric<build_mae>("mae", "mean absolute error", 2, false, mean),
      metric<build_mean_bias>("mean_bias", "mean of prediction - target", 2, false, mean),
      metric<build_perplexity>("perplexity", "exp of the mean cross entropy", 2, false, exp_mean),
  };
  for (const auto& item : items) host.add(item);
}
