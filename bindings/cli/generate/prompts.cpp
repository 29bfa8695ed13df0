#include "bindings/cli/generate/prompts.hpp"

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

namespace plait::cli {
namespace {

std::vector<int32_t> parse_ids(const std::string& text) {
  std::vector<int32_t> ids;
  std::stringstream list(text);
  for (std::string one; std::getline(list, one, ',');) {
    char* end = nullptr;
    const long id = std::strtol(one.c_str(), &end, 10);
    if (one.empty() || *end != 0 || id < 0 || id > INT32_MAX)
      throw CliError(kUsage, "[generate] --ids '" + text + "': '" + one +
                                 "' is no token id; expected numbers, as 1,52,7");
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

// A prompt on each line, or {"prompt": ..., "adapter": ...}; "-": stdin.
std::vector<TextPrompt> read_file(const std::string& path) {
  std::ifstream file;
  if (path != "-") {
    file.open(path);
    if (!file) throw CliError(kUsage, "[generate] --file '" + path + "' cannot be read");
  }
  std::istream& from = path == "-" ? std::cin : file;
  std::vector<TextPrompt> prompts;
  size_t number = 0;
  for (std::string line; std::getline(from, line);) {
    ++number;
    if (line.empty()) continue;
    if (line[0] != '{') {
      prompts.push_back({line, ""});
      continue;
    }
    const Json one = Json::parse(line, nullptr, false);
    const auto is_text = [&](const char* key) { return one.contains(key) && one[key].is_string(); };
    if (!one.is_object() || !is_text("prompt") || (one.contains("adapter") && !is_text("adapter")))
      throw CliError(kUsage, "[generate] " + path + ":" + std::to_string(number) +
                                 ": expected a line of text, or {\"prompt\": \"...\"}, which may "
                                 "have an \"adapter\": \"NAME\"");
    for (const auto& [key, value] : one.items())
      if (key != "prompt" && key != "adapter")
        throw CliError(kUsage, "[generate] " + path + ":" + std::to_string(number) +
                                   ": unknown key " + Json(key).dump() +
                                   "; a line has \"prompt\" and may have an \"adapter\"");
    prompts.push_back({one["prompt"].get<std::string>(), one.value("adapter", std::string())});
  }
  return prompts;
}

}  // namespace

Prompts read_prompts(const GenerateArguments& arguments) {
  Prompts all;
  for (const std::string& text : arguments.prompts) all.texts.push_back({text, ""});
  if (!arguments.prompt_file.empty())
    for (TextPrompt& p : read_file(arguments.prompt_file)) all.texts.push_back(std::move(p));
  for (const std::string& list : arguments.ids) all.ids.push_back(parse_ids(list));
  if (all.size() == 0 && !arguments.chat)
    throw CliError(kUsage,
                   "[generate] there is no prompt; give --prompt TEXT, --file FILE, --ids LIST or "
                   "--chat");
  return all;
}

}  // namespace plait::cli
