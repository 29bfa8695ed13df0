#include "engine/data/column_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "kit/half.hpp"

namespace plait::data {
namespace {

constexpr int64_t kBatch = 256;

double widened(uint32_t dtype, uint16_t bits) {
  return static_cast<double>(dtype == PLAIT_BF16 ? kit::from_bf16(bits) : kit::from_f16(bits));
}
template <class T>
double widened(uint32_t, T v) {
  return static_cast<double>(v);
}

class Sums {
 public:
  Sums(const DatasetSource& source, const plait_field& field, bool by_column)
      : source_(source), field_(field) {
    for (uint32_t d = 0; d < field.shape.ndim; ++d) elements_ *= field.shape.dims[d];
    const auto columns = static_cast<size_t>(by_column ? elements_ : 1);
    first_.assign(columns, 0);
    sum_.assign(columns, 0);
    squares_.assign(columns, 0);
  }

  void add(const void* rows, int64_t n) {
    switch (field_.shape.dtype) {
      case PLAIT_F32:
        return add_rows<float>(rows, n);
      case PLAIT_F64:
        return add_rows<double>(rows, n);
      case PLAIT_U8:
        return add_rows<uint8_t>(rows, n);
      case PLAIT_F16:
      case PLAIT_BF16:
        return add_rows<uint16_t>(rows, n);
      default:
        fail_internal("[data] statistics of a field that holds no real numbers");
    }
  }

  ColumnStatistics result() const {
    ColumnStatistics all;
    all.samples = samples_;
    const bool together = sum_.size() == 1;
    const double n = static_cast<double>(samples_) * static_cast<double>(together ? elements_ : 1);
    for (size_t c = 0; c < sum_.size(); ++c) {
      const double mean = sum_[c] / n;
      all.mean.push_back(first_[c] + mean);
      all.deviation.push_back(std::sqrt(std::max(0.0, squares_[c] / n - mean * mean)));
    }
    return all;
  }

 private:
  template <class T>
  void add_rows(const void* rows, int64_t n) {
    const size_t columns = sum_.size();
    const auto* at = static_cast<const char*>(rows);
    for (int64_t r = 0; r < n; ++r, ++samples_)
      for (int64_t k = 0; k < elements_; ++k, at += sizeof(T)) {
        T v;
        std::memcpy(&v, at, sizeof v);
        const double value = widened(field_.shape.dtype, v);
        if (!std::isfinite(value)) not_finite(k, value);
        const size_t c = columns == 1 ? 0 : static_cast<size_t>(k);
        if (samples_ == 0 && static_cast<size_t>(k) == c) first_[c] = value;
        const double d = value - first_[c];
        sum_[c] += d;
        squares_[c] += d * d;
      }
  }

  [[noreturn]] void not_finite(int64_t column, double value) const {
    fail_data(
        strf("[data] [data.%s]: element %lld of field '%s' of sample %lld is %s, so there is "
             "no mean to normalise by; fill it, leave the sample out, or give mean and std",
             source_.name.c_str(), static_cast<long long>(column), field_.name,
             static_cast<long long>(samples_), real_text(value).c_str()));
  }

  const DatasetSource& source_;
  const plait_field& field_;
  int64_t elements_ = 1, samples_ = 0;
  std::vector<double> first_, sum_, squares_;  // (C); sums of differences from the first values
};

}  // namespace

ColumnStatistics column_statistics(const DatasetSource& source, const std::string& field,
                                   bool by_column, int64_t limit) {
  DataLoaderConfig config;
  config.batch = kBatch;
  config.limit = limit;
  config.prefetch = -1;
  DataLoader loader(source, config);
  const std::vector<plait_field>& fields = loader.fields();
  const auto at = std::find_if(fields.begin(), fields.end(),
                               [&](const plait_field& f) { return field == f.name; });
  if (at == fields.end()) fail_internal("[data] statistics of a field that does not exist");
  if (loader.samples() == 0)
    fail_data("[data] [data." + source.name + "] has no samples to take mean and std of");
  Sums sums(source, *at, by_column);
  while (const Batch* batch = loader.next())
    sums.add(batch->fields[static_cast<size_t>(at - fields.begin())], batch->valid);
  return sums.result();
}

}  // namespace plait::data
