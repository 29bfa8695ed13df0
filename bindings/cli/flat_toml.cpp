#include "bindings/cli/flat_toml.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>

#include "bindings/cli/context.hpp"

namespace plait::cli {
namespace {

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// Tables of an array are numbered: "model.layers" of "[[model.layers]]" becomes "model.layers[0]",
// and so does the beginning of the tables inside of it.
class Tables {
 public:
  std::string element(const std::string& name) {
    const std::string path = resolve(name);
    return path + "[" + std::to_string(counts_[path]++) + "]";
  }
  std::string resolve(const std::string& name) const {
    std::string path;
    for (size_t at = 0; at <= name.size();) {
      const size_t dot = std::min(name.find('.', at), name.size());
      path += (path.empty() ? "" : ".") + name.substr(at, dot - at);
      at = dot + 1;
      // The last part of an array's own name is numbered by element().
      if (const auto n = counts_.find(path); n != counts_.end() && at <= name.size())
        path += "[" + std::to_string(n->second - 1) + "]";
    }
    return path;
  }

 private:
  std::map<std::string, size_t> counts_;  // by the path of an array
};

}  // namespace

std::vector<std::pair<std::string, std::string>> flat_toml(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw CliError(kUsage, "[cli] '" + path + "' cannot be read: " + std::strerror(errno));
  std::vector<std::pair<std::string, std::string>> all;
  Tables tables;
  std::string table;
  for (std::string line; std::getline(file, line);) {
    const std::string text = trimmed(line);
    if (text.empty() || text.front() == '#') continue;
    if (text.starts_with("[[") && text.ends_with("]]")) {
      table = tables.element(trimmed(text.substr(2, text.size() - 4)));
    } else if (text.front() == '[' && text.back() == ']') {
      table = tables.resolve(trimmed(text.substr(1, text.size() - 2)));
    } else if (const size_t equals = text.find('='); equals != std::string::npos) {
      const std::string key = trimmed(text.substr(0, equals));
      all.emplace_back(table.empty() ? key : table + "." + key, trimmed(text.substr(equals + 1)));
    }
  }
  return all;
}

std::vector<ChangedKey> changed_keys(const std::vector<std::string>& runs) {
  std::map<std::string, std::vector<std::string>> all;
  for (size_t i = 0; i < runs.size(); ++i)
    for (auto& [key, value] : flat_toml(runs[i] + "/run.toml")) {
      std::vector<std::string>& values = all[key];
      values.resize(runs.size());
      values[i] = std::move(value);
    }
  std::vector<ChangedKey> changed;
  for (auto& [key, values] : all)
    if (std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) != values.end())
      changed.push_back({key, std::move(values)});
  return changed;
}

}  // namespace plait::cli
