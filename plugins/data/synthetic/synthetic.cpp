// data-synthetic: generated samples that can be learned, the same on every machine. x is uniform
// with variance 1; the label is the index of the largest of `classes` fixed random linear functions
// of x. Without classes, the target is the value of one such function.
#include "plugins/data/column_dataset.hpp"

#include <cmath>

namespace {
using namespace plait;

constexpr plait_option kSynthetic[] = {
    in_unit(at_least(opt_int("samples", "1024", "number of samples"), 0), "samples"),
    at_least(opt_ints("shape", "[16]", "shape of one sample"), 1),
    at_least(opt_int("classes", "4", "number of classes; 0: a real-valued target, for regression"),
             0),
    at_least(opt_int("seed", "0", "seed of the linear functions and of the samples"), 0),
    at_least(
        opt_int("first", "0",
                "index of the first sample; use the same seed and a separate range for evaluation"),
        0),
};

constexpr uint64_t kMaxBytes = uint64_t{1} << 40;
enum Stream : uint64_t { kSample = 1, kTeacher = 2 };

// A well mixed 64-bit number for each (seed, stream, index): the finaliser of MurmurHash3, applied
// twice.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

// Uniform in ±sqrt(3), so that the variance is 1. The arithmetic is exact up to the last factor.
class Random {
 public:
  Random(uint64_t seed, Stream stream) : key_(mix(mix(seed + 0x9e3779b97f4a7c15ULL) + stream)) {}
  float at(uint64_t index) const {
    const auto bits =
        static_cast<int32_t>(mix(key_ + index * 0x9e3779b97f4a7c15ULL) >> 40) - (1 << 23);
    return static_cast<float>(bits) * (1.7320508f / (1 << 23));
  }

 private:
  uint64_t key_;
};

class Synthetic : public data::ColumnDataset {
 public:
  Synthetic(const Host&, const Options& o) : ColumnDataset("data.synthetic") {
    const Shape sample(
        std::vector<int64_t>(o.integers("shape").begin(), o.integers("shape").end()));
    const int64_t n = o.integer("samples"), classes = o.integer("classes");
    const auto features = checked_features(sample, n, classes);
    const auto seed = static_cast<uint64_t>(o.integer("seed")),
               first = static_cast<uint64_t>(o.integer("first"));
    support::Bytes x(static_cast<size_t>(n) * features * sizeof(float));
    fill(x.as<float>(), static_cast<size_t>(n), features, seed, first);
    support::Bytes target =
        classes ? labels(x.as<float>(), static_cast<size_t>(n), features, classes, seed)
                : values(x.as<float>(), static_cast<size_t>(n), features, seed);
    add("x", PLAIT_FIELD_INPUT, sample, n, std::move(x));
    if (classes)
      add("label", PLAIT_FIELD_TARGET, Shape({}, PLAIT_I32), n, std::move(target));
    else
      add("target", PLAIT_FIELD_TARGET, Shape({1}), n, std::move(target));
  }

 private:
  static size_t checked_features(const Shape& sample, int64_t n, int64_t classes) {
    uint64_t features = 1, bytes = 0;
    bool fits = sample.ndim() < PLAIT_MAX_NDIM;
    for (const int64_t d : sample.dims)
      fits = fits && support::multiply(features, static_cast<uint64_t>(d), features);
    fits = fits &&
           support::multiply(features, static_cast<uint64_t>(std::max(n, classes)), bytes) &&
           bytes < kMaxBytes / 4;
    if (!fits)
      fail(PLAIT_ERR_CONFIG, "[data.synthetic] " + std::to_string(n) + " samples of shape " +
                                 sample.text() + " with " + std::to_string(classes) +
                                 " classes are more than 1 TiB or have more than 7 axes; make "
                                 "samples or shape smaller");
    return static_cast<size_t>(features);
  }

  static void fill(float* x, size_t n, size_t features, uint64_t seed, uint64_t first) {
    const Random random(seed, kSample);
    for (size_t i = 0; i < n * features; ++i) x[i] = random.at(first * features + i);
  }

  static std::vector<float> teacher(size_t outputs, size_t features, uint64_t seed) {
    const Random random(seed, kTeacher);
    std::vector<float> rows(outputs * features);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = random.at(i);
    return rows;
  }

  static double dot(const float* a, const float* b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += double{a[i]} * double{b[i]};
    return sum;
  }

  static support::Bytes labels(const float* x, size_t n, size_t features, int64_t classes,
                               uint64_t seed) {
    const std::vector<float> rows = teacher(static_cast<size_t>(classes), features, seed);
    support::Bytes out(n * sizeof(int32_t));
    for (size_t i = 0; i < n; ++i) {
      double best = 0;
      for (int32_t c = 0; c < classes; ++c) {
        const double score =
            dot(x + i * features, rows.data() + static_cast<size_t>(c) * features, features);
        if (c == 0 || score > best) best = score, out.as<int32_t>()[i] = c;
      }
    }
    return out;
  }

  static support::Bytes values(const float* x, size_t n, size_t features, uint64_t seed) {
    const std::vector<float> row = teacher(1, features, seed);
    const double scale = 1 / std::sqrt(static_cast<double>(features));
    support::Bytes out(n * sizeof(float));
    for (size_t i = 0; i < n; ++i)
      out.as<float>()[i] = static_cast<float>(scale * dot(x + i * features, row.data(), features));
    return out;
  }
};
}  // namespace

PLAIT_PLUGIN("data-synthetic", "0.1.0", "Apache-2.0", "Synthetic samples that can be learned") {
  static const auto synthetic =
      dataset<Synthetic>("synthetic", "random samples, labelled by a linear function", kSynthetic);
  host.add(synthetic);
}
