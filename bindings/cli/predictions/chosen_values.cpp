#include "bindings/cli/predictions/chosen_values.hpp"

#include <algorithm>
#include <iterator>

#include "bindings/cli/context.hpp"

namespace plait::cli {
namespace {

std::string list_of(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& one : names) all += (all.empty() ? "" : ", ") + one;
  return all.empty() ? "none" : all;
}

[[noreturn]] void refuse_nothing(const std::vector<std::string>& known) {
  throw CliError(kUsage,
                 "[predict] what the last layer makes has no row for each sample, which a file of "
                 "predictions needs; values that have: " +
                     list_of(known) +
                     (known.empty() ? "; name one with `as` in the model, and with --output"
                                    : "; name one with --output"));
}

bool is_last(const std::string& name) { return name == "output" || name.ends_with(".output"); }

}  // namespace

Values chosen_values(const Json& outputs, const std::vector<std::string>& named,
                     const FedSamples& samples) {
  std::vector<std::string> wanted = named, known;
  Values values;
  for (const Json& o : outputs) known.push_back(o.at("name"));
  if (wanted.empty()) std::copy_if(known.begin(), known.end(), std::back_inserter(wanted), is_last);
  if (wanted.empty()) refuse_nothing(known);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const std::string& name = wanted[i];
    if (std::find(wanted.begin(), wanted.begin() + static_cast<ptrdiff_t>(i), name) !=
        wanted.begin() + static_cast<ptrdiff_t>(i))
      continue;  // named twice
    const auto at = std::find(known.begin(), known.end(), name);
    if (at == known.end()) {
      const std::string near = nearest(name, known);
      throw CliError(kUsage, "[predict] there is no output '" + name + "'" +
                                 (near.empty() ? "" : "; did you mean '" + near + "'?") +
                                 "; there are: " + list_of(known));
    }
    const Json& o = outputs.at(static_cast<size_t>(at - known.begin()));
    if (!o.at("kept").get<bool>())
      throw CliError(kUsage, "[predict] the output '" + name + "', " +
                                 bytes_text(o.at("bytes").get<double>()) +
                                 " for a sample, is not kept; add evaluate.outputs=all");
    PredictedValue value{name, o.at("dtype"), o.at("shape"), o.at("bytes")};
    if (is_last(name) && value.shape.size() == 1) value.classes = samples.classes(value.shape[0]);
    values.push_back(std::move(value));
  }
  return values;
}

void check_normalization(const Experiment& experiment, const std::string& dataset) {
  const Json all = Json::parse(experiment.describe());
  const auto of = [&](const std::string& name) {
    Json found = Json::object();
    const std::string prefix = "data." + name + ".normalize";
    for (const auto& [key, entry] : all.items())
      if (key.starts_with(prefix)) found[key.substr(prefix.size())] = entry.at("value");
    return found;
  };
  bool has_eval = false;
  for (const auto& [key, entry] : all.items()) has_eval = has_eval || key.starts_with("data.eval.");
  const std::string planned = has_eval ? "eval" : "train";
  if (of(planned) != of(dataset))
    throw CliError(kUsage, "[predict] [data." + dataset +
                               "] is normalised differently from [data." + planned +
                               "], which the programs were planned for; give both the same "
                               "`normalize`");
}

}  // namespace plait::cli
