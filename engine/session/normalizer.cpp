#include "engine/session/normalizer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/base/json_value.hpp"
#include "engine/base/text.hpp"
#include "engine/data/column_statistics.hpp"
#include "engine/program/elements.hpp"

namespace plait::session {
namespace {

constexpr char kKey[] = "normalization";

// In the hexadecimal form, which keeps all bits.
std::string text_of(const std::vector<double>& all) {
  std::string text;
  for (const double v : all) text += (text.empty() ? "" : " ") + strf("%a", v);
  return text;
}

// Empty: it is no list of finite numbers.
std::vector<double> numbers_of(const JsonValue* text) {
  std::vector<double> all;
  if (!text || !text->is(JsonValue::Kind::kText)) return all;
  for (const char* at = text->text.c_str(); *at;) {
    char* end = nullptr;
    const double v = std::strtod(at, &end);
    if (end == at || !std::isfinite(v)) return {};
    all.push_back(v);
    at = end;
  }
  return all;
}

}  // namespace

// Fields may be normalised by several entries, of which one is automatic.
void Normalizer::find_out() {
  const Stopwatch watch;
  for (const plan::Normalization& n : plan_.normalizations) {
    if (!n.automatic || found_.contains(n.field)) continue;
    const plan::Dataset& train = *plan_.dataset("train");
    const data::ColumnStatistics all = data::column_statistics(
        train.source(), n.field, n.columns > 1, plan_.experiment.dataset("train")->limit);
    int64_t constant = 0;
    for (const double d : all.deviation) constant += d == 0 ? 1 : 0;
    found_[n.field] = {all.mean, all.deviation};
    if (plan_.rank != 0) continue;
    log_.info(strf("[session] '%s' is normalised by mean and std of %lld samples of [data.train]%s",
                   n.field.c_str(), static_cast<long long>(all.samples),
                   constant
                       ? strf("; %lld of %lld columns are constant, and become 0",
                              static_cast<long long>(constant), static_cast<long long>(n.columns))
                             .c_str()
                       : ""));
  }
  log_.debug([&] {
    return "[session] statistics of [data.train] took " + duration_text(watch.seconds());
  });
}

void Normalizer::write() {
  if (const plan::Dataset* train = plan_.dataset("train"); train && !train->has_samples()) {
    ready_ = true;  // the programs of this rank read no samples
    return;
  }
  find_out();
  const uint32_t type = plan_.precision.compute;
  std::vector<char> bytes;
  const auto put = [&](program::BufferRef at, const std::vector<double>& values, bool inverse) {
    bytes.resize(program::bytes_of(static_cast<int64_t>(values.size()), type));
    for (size_t i = 0; i < values.size(); ++i) {
      const double v = !inverse ? values[i] : values[i] > 0 ? 1 / values[i] : 0;
      program::store_element(type, bytes.data(), static_cast<int64_t>(i), v);
    }
    executor_.write(at, bytes.data(), bytes.size());
    executor_.sync();  // a device of the host reads `bytes` until then
  };
  for (const plan::Normalization& n : plan_.normalizations) {
    const Numbers numbers = n.automatic ? found_.at(n.field) : Numbers{n.mean, n.deviation};
    if (static_cast<int64_t>(numbers.mean.size()) != n.columns)
      fail_internal("[session] field '" + n.field + "' and its mean have unlike columns");
    put(n.mean_at, numbers.mean, false);
    put(n.inverse_at, numbers.deviation, true);
  }
  ready_ = true;
}

void Normalizer::save(JsonWriter& extra) {
  ensure();
  if (found_.empty()) return;
  extra.key(kKey).object();
  for (const auto& [field, numbers] : found_)
    extra.key(field)
        .object()
        .field("mean", text_of(numbers.mean))
        .field("std", text_of(numbers.deviation))
        .end_object();
  extra.end_object();
}

Normalizer::ByField Normalizer::parse(std::string_view extra, const std::string& path) const {
  ByField all;
  if (plan_.normalizations.empty()) return all;
  const JsonValue json = parse_json(extra);
  const JsonValue* fields = json.find(kKey);
  for (const plan::Normalization& n : plan_.normalizations) {
    const JsonValue* one = fields && n.automatic ? fields->find(n.field) : nullptr;
    if (!one) continue;
    Numbers numbers{numbers_of(one->find("mean")), numbers_of(one->find("std"))};
    if (numbers.mean.empty() || numbers.mean.size() != numbers.deviation.size())
      fail_data("[session] the state in '" + path + "' cannot be read: mean and std of field '" +
                n.field + "' are no lists of as many numbers");
    if (static_cast<int64_t>(numbers.mean.size()) != n.columns)
      fail_config(strf(
          "[session] '%s' was trained with %zu columns of field '%s', here it has "
          "%lld; use the data that it was trained on, or start a new run",
          path.c_str(), numbers.mean.size(), n.field.c_str(), static_cast<long long>(n.columns)));
    all[n.field] = std::move(numbers);
  }
  return all;
}

void Normalizer::take(ByField numbers) {
  if (plan_.normalizations.empty()) return;
  found_ = std::move(numbers);
  ready_ = false;
}

}  // namespace plait::session
