#include "bindings/cli/predictions/fed_samples.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bindings/cli/context.hpp"

namespace plait::cli {
namespace {

struct DlType {
  const char* dtype;
  plait_dl_dtype type;
};
constexpr DlType kTypes[] = {{"f32", {2, 32, 1}},  {"f64", {2, 64, 1}}, {"f16", {2, 16, 1}},
                             {"bf16", {4, 16, 1}}, {"i32", {0, 32, 1}}, {"i64", {0, 64, 1}},
                             {"u8", {1, 8, 1}},    {"bool", {6, 8, 1}}};

plait_dl_dtype type_of(const std::string& dtype) {
  for (const DlType& one : kTypes)
    if (dtype == one.dtype) return one.type;
  throw CliError(kFailed, "[predict] a field of type " + dtype + " cannot be fed");
}

std::string names_of(const Json& fields) {
  std::string all;
  for (const Json& f : fields) all += (all.empty() ? "" : ", ") + f.at("name").get<std::string>();
  return all;
}

bool has_target(const Json& dataset) {
  const Json& fields = dataset.at("fields");
  return std::any_of(fields.begin(), fields.end(),
                     [](const Json& f) { return f.at("role") == "target"; });
}

// values: of the experiment.
bool is_adapter_field(const Json& values, const Json& field) {
  for (const auto& [key, entry] : values.items())
    if (key.ends_with(".adapter_field") && entry.at("value") == field) return true;
  return false;
}

std::vector<std::string> classes_of(const Json& dataset, int64_t n) {
  for (const Json& f : dataset.at("fields")) {
    if (f.at("role") != "target" || !f.contains("classes") || f.at("classes").size() != 1) continue;
    auto texts = f.at("classes").at(0).get<std::vector<std::string>>();
    if (static_cast<int64_t>(texts.size()) == n) return texts;
  }
  return {};
}

}  // namespace

FedSamples::FedSamples(const Experiment& experiment, const std::string& name, const Json& predict)
    : experiment_(experiment),
      dataset_(experiment, name),
      described_(Json::parse(dataset_.describe())),
      values_(Json::parse(experiment.describe())) {
  n_ = described_.at("samples").get<int64_t>();
  if (const auto limit = values_.find("data." + name + ".limit"); limit != values_.end())
    if (const auto n = limit->at("value").get<int64_t>(); n > 0) n_ = std::min(n_, n);
  const Json& all = described_.at("fields");
  for (const Json& wanted : predict.at("fields")) {
    const auto is_it = [&](const Json& f) { return f.at("name") == wanted; };
    const auto at = std::find_if(all.begin(), all.end(), is_it);
    if (at == all.end()) {
      const Json& inputs = predict.at("inputs");
      // Labels, which no output depends on, may be unknown.
      if (std::find(inputs.begin(), inputs.end(), wanted) == inputs.end()) continue;
      throw CliError(kUsage, "[predict] [data." + name + "] has no field '" +
                                 wanted.get<std::string>() +
                                 "', which the model reads; it has: " + names_of(all) +
                                 (is_adapter_field(values_, wanted)
                                      ? "; or let all samples take one adapter: --adapter NAME"
                                      : ""));
    }
    Field f{wanted.get<std::string>(),
            static_cast<uint32_t>(at - all.begin()),
            at->at("bytes").get<uint64_t>(),
            {0},
            {},
            {}};
    for (const Json& extent : at->at("shape")) f.shape.push_back(extent.get<int64_t>());
    f.tensor.device = {1, 0};
    f.tensor.dtype = type_of(at->at("dtype").get<std::string>());
    f.tensor.ndim = static_cast<int32_t>(f.shape.size());
    fields_.push_back(std::move(f));
  }
  for (Field& f : fields_) {  // from here on they stay where they are
    f.tensor.shape = f.shape.data();
    feeds_.push_back({sizeof(plait_feed), f.name.c_str(), &f.tensor});
  }
}

std::span<const plait_feed> FedSamples::read(int64_t first, int64_t n) {
  for (Field& f : fields_) {
    f.rows.resize(static_cast<size_t>(n) * f.bytes);
    for (int64_t i = 0; i < n; ++i)
      dataset_.read(first + i, f.index, f.rows.data() + static_cast<uint64_t>(i) * f.bytes,
                    f.bytes);
    f.shape[0] = n;
    f.tensor.data = f.rows.data();
  }
  return feeds_;
}

std::vector<std::string> FedSamples::classes(int64_t n) const {
  if (has_target(described_)) return classes_of(described_, n);
  for (const char* name : {"eval", "train"}) {
    const std::string prefix = std::string("data.") + name + ".";
    const auto is_of = [&](const auto& entry) { return entry.first.starts_with(prefix); };
    const auto& keys = values_.get_ref<const Json::object_t&>();
    if (std::none_of(keys.begin(), keys.end(), is_of)) continue;
    const Json labelled = Json::parse(Dataset(experiment_, name).describe());
    if (has_target(labelled)) return classes_of(labelled, n);
  }
  return {};
}

}  // namespace plait::cli
