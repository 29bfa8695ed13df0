// What losses and metrics share: targets brought to the prediction's shape, labels checked, weights
// of the samples. B samples of a micro-batch, T further axes (tokens), C classes.
#pragma once

#include <plait/plugin.hpp>

#include <string>
#include <utility>

namespace plait::samples {

[[noreturn]] inline void refuse(const Builder& b, const std::string& text) {
  fail(PLAIT_ERR_CONFIG, "[" + b.scope() + "] " + text);
}

// The weights, (B), with extents of 1 appended up to `ndim` axes.
inline Value weights(const Builder& b, size_t ndim) {
  const Value w = b.named("weight");
  if (ndim <= 1) return w;
  std::vector<int64_t> dims(ndim, 1);
  dims[0] = b.shape(w).count();
  return b.reshape(w, dims);
}

// Prediction and target as floats of one shape, in the type of losses. A target of other extents
// but as many values, like (B) beside (B,1), fits.
inline std::pair<Value, Value> values(const Builder& b, std::span<const Value> in) {
  const Shape prediction = b.shape(in[0]), target = b.shape(in[1]);
  if (prediction.ndim() == 0) refuse(b, "the prediction is a scalar, expected (samples, …)");
  Value t = in[1];
  if (target.dims != prediction.dims) {
    const bool same_samples = target.ndim() > 0 && target.dims[0] == prediction.dims[0];
    if (!same_samples || target.count() != prediction.count())
      refuse(b, "the prediction has shape " + prediction.text() + " and the target " +
                    target.text() +
                    ", expected as many values; give the last layer as many outputs as a target "
                    "has values");
    t = b.reshape(t, prediction.dims);
  }
  const uint32_t type = b.shape(b.named("weight")).dtype;
  return {b.as(in[0], type), b.as(t, type)};
}

// Integer labels of the shape that the logits (B,T…,C) have without their last axis; (B,T…,1) is
// accepted.
inline Value labels(const Builder& b, Value logits, Value label) {
  const Shape x = b.shape(logits), l = b.shape(label);
  if (x.ndim() < 2)
    refuse(b, "the prediction has shape " + x.text() + ", expected logits (samples, …, classes)");
  const std::vector<int64_t> wanted(x.dims.begin(), x.dims.end() - 1);
  if (!l.is_integer())
    refuse(b, "the labels are " + l.typed_text() +
                  ", expected integers (u8, i32, i64); of a csv file set target_type = \"i32\", an "
                  "array save as integers");
  if (l.dims == wanted) return label;
  std::vector<int64_t> column = wanted;
  column.push_back(1);
  if (l.dims == column) return b.reshape(label, wanted);
  std::string hint = "; check which field is the target";
  if (x.ndim() > 2 && l.count() == x.dims[0])
    hint = "; put a `flatten` layer before the first `linear`";
  refuse(b, "the prediction has shape " + x.text() + " and the labels " + l.text() +
                ", expected labels of shape " + Shape(wanted).text() + hint);
}

// Sum over samples of weight times the mean over a sample's values, and the sum of the weights.
// each: (B,…) one figure per value.
inline std::pair<Value, Value> weighted_mean(const Builder& b, Value each) {
  const Shape shape = b.shape(each);
  const int64_t count = shape.count(1);
  Value weighted = weights(b, shape.ndim()) * each;
  if (count > 1) weighted = weighted * (1.0 / static_cast<double>(count));
  return {b.sum(weighted), b.sum(weights(b, 1))};
}

// Weights of the labels: a sample's weight for each of its labels, 0 where the label is negative.
// label (B,T…)
inline Value label_weights(const Builder& b, Value label) {
  const Shape shape = b.shape(label);
  const Value w = weights(b, shape.ndim());
  if (shape.dtype == PLAIT_U8 && shape.count(1) == 1) return w;  // never negative
  return w * (b.cast(label, b.shape(w).dtype) >= 0.0);
}

// Cross entropy summed with weights, and the sum of those. x (B,T…,C), label (B,T…); a third input
// (B,T…) is the weight of each label, beside that of its sample.
inline std::pair<Value, Value> cross_entropy(const Builder& b, std::span<const Value> in,
                                             double smoothing) {
  const Value label = labels(b, in[0], in[1]);
  const Value each = b.op("cross_entropy", {in[0], label}, {attr("label_smoothing", smoothing)});
  Value w = label_weights(b, label);
  if (in.size() > 2) {
    const Shape given = b.shape(in[2]), wanted = b.shape(label);
    if (!given.is_float() || given.dims != wanted.dims)
      refuse(b, "the weights of the labels are " + given.typed_text() + ", expected real numbers " +
                    wanted.text() + ", one for each label");
    w = w * b.as(in[2], b.shape(w).dtype);
  }
  return {b.sum(w * each), b.sum(w)};
}

}  // namespace plait::samples
