#include "bindings/cli/item_toml.hpp"

#include <nlohmann/json.hpp>

#include "bindings/cli/context.hpp"

namespace plait::cli {

std::string item_toml(const std::string& type, const std::vector<std::string>& options) {
  const auto quoted = [](const std::string& text) { return Json(text).dump(); };
  std::string toml = "type = " + quoted(type) + "\n";
  for (const std::string& option : options) {
    const size_t at = option.find('=');
    if (at == std::string::npos)
      throw CliError(kUsage, "--option '" + option + "': expected KEY=VALUE");
    const std::string value = option.substr(at + 1);
    toml += option.substr(0, at) + " = " + (Json::accept(value) ? value : quoted(value)) + "\n";
  }
  return toml;
}

}  // namespace plait::cli
