#include "bindings/cli/help/declarations.hpp"

#include <algorithm>

namespace plait::cli {
namespace {

const Json kNone;

// "model.layers[2]" -> "model", "layers[]"; layers inside layers once.
std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= path.size();) {
    const size_t dot = std::min(path.find('.', at), path.size());
    std::string part = path.substr(at, dot - at);
    if (const size_t open = part.find('['); open != std::string::npos)
      part = part.substr(0, open) + "[]";
    at = dot + 1;
    if (!parts.empty() && part == "layers[]" && parts.back() == part) continue;
    parts.push_back(std::move(part));
  }
  return parts;
}

const Json& find_named(const Json& list, const std::string& name) {
  for (const Json& one : list)
    if (one.value("name", "") == name) return one;
  return kNone;
}

bool lies_at(const Json& table, const std::string& path) {
  if (is_path_of(path, table.at("path").get<std::string>())) return true;
  const Json& also = table.at("also");
  return std::any_of(also.begin(), also.end(),
                     [&](const Json& one) { return is_path_of(path, one.get<std::string>()); });
}

}  // namespace

std::string kind_word(const std::string& kind) {
  const size_t dot = kind.find('.') + 1;
  return kind.substr(dot, kind.find('/') - dot);
}

bool is_path_of(const std::string& path, const std::string& pattern) {
  const std::vector<std::string> ours = parts_of(path), theirs = parts_of(pattern);
  if (ours.size() != theirs.size()) return false;
  for (size_t i = 0; i < ours.size(); ++i)
    if (theirs[i] != "NAME" && theirs[i] != "FIELD" && theirs[i] != ours[i]) return false;
  return true;
}

Declarations::Declarations(const Engine& engine) : facts_(Json::parse(engine.describe())) {}

const Json& Declarations::table(const std::string& path, const std::string& type) const {
  for (const Json& one : tables()) {
    const std::string only = one.value("type", "");
    if (lies_at(one, path) && (type == "block" ? only == type : only.empty())) return one;
  }
  return type == "block" ? table(path, "") : kNone;
}

std::vector<Json> Declarations::items() const {
  std::vector<Json> all;
  for (const Json& plugin : facts_.at("registry").at("plugins"))
    for (const Json& item : plugin.at("items")) {
      const std::string word = kind_word(item.value("kind", ""));
      if (word == "kernel" || word == "op") continue;
      all.push_back(item);
      all.back()["plugin"] = plugin.value("name", "");
    }
  std::sort(all.begin(), all.end(),
            [](const Json& a, const Json& b) { return a.value("name", "") < b.value("name", ""); });
  return all;
}

std::vector<Json> Declarations::items(const std::string& kind) const {
  std::vector<Json> all = items();
  std::erase_if(all, [&](const Json& item) { return item.value("kind", "") != kind; });
  return all;
}

const Json& Declarations::item(const std::string& kind, const std::string& name) const {
  for (const Json& plugin : facts_.at("registry").at("plugins"))
    for (const Json& item : plugin.at("items"))
      if (item.value("kind", "") == kind && item.value("name", "") == name) return item;
  return kNone;
}

const Json& Declarations::key(const std::string& path, const std::string& type,
                              const std::string& name) const {
  const Json& here = table(path, type);
  if (here.is_null()) return kNone;
  // An item's own declaration says more: the ways in which a layer can be sharded.
  if (const Json& chosen = item(here.value("kind", ""), type); !chosen.is_null())
    if (const Json& option = find_named(chosen.at("options"), name); !option.is_null())
      return option;
  return find_named(here.at("keys"), name);
}

}  // namespace plait::cli
