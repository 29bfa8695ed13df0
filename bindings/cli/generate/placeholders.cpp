#include "bindings/cli/generate/placeholders.hpp"

#include <nlohmann/json.hpp>
#include <string_view>

namespace plait::cli {
namespace {

// The path of the one model, or of the one that generate.model names: "model", "models.NAME".
std::string path_of_model(const Json& values, const std::string& name) {
  constexpr std::string_view kKey = ".adapter_field";
  if (!name.empty() && values.contains("models." + name + std::string(kKey)))
    return "models." + name;
  for (const auto& [key, value] : values.items())
    if (key.ends_with(kKey) && key.starts_with("model"))
      return key.substr(0, key.size() - kKey.size());
  return "";
}

}  // namespace

Placeholders::Placeholders(const Json& values, std::optional<int64_t> given) : given_(given) {
  const auto text = [&](const std::string& key) {
    const auto at = values.find(key);
    return at != values.end() && at->at("value").is_string() ? at->at("value").get<std::string>()
                                                             : std::string();
  };
  const std::string model = path_of_model(values, text("generate.model"));
  chosen_ = !text(model + ".adapter_field").empty();
  for (size_t i = 0;; ++i) {
    const std::string entry = model + ".adapters[" + std::to_string(i) + "]";
    if (!values.contains(entry + ".type")) break;
    const auto n = values.find(entry + ".n_tokens");
    if (n != values.end() && n->at("value").is_number_integer())
      adapters_.push_back({text(entry + ".name"), n->at("value").get<int64_t>()});
  }
}

const Placeholders::Adapter* Placeholders::most(const std::string& adapter) const {
  const Adapter* most = nullptr;
  for (const Adapter& a : adapters_)
    if ((!chosen_ || a.name == adapter) && (!most || a.n_tokens > most->n_tokens)) most = &a;
  return most;
}

std::vector<int32_t> Placeholders::of(const std::string& adapter) const {
  const Adapter* const of = most(adapter);
  return std::vector<int32_t>(static_cast<size_t>(given_.value_or(of ? of->n_tokens : 0)), 0);
}

std::string Placeholders::adapter_of(const std::string& adapter) const {
  const Adapter* const of = most(adapter);
  return of && !given_ ? of->name : std::string();
}

}  // namespace plait::cli
