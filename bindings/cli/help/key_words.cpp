#include "bindings/cli/help/key_words.hpp"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "bindings/cli/flat_toml.hpp"
#include "bindings/cli/help/declarations.hpp"

namespace plait::cli {
namespace {

struct KnownKey {
  std::string table, type;  // where it lies, and the item of that table
  Json declared;            // null: nothing is known of it
  std::string value;        // as TOML; "": it has none
  bool set = false;         // by the file
};

std::pair<std::string, std::string> split_key(const std::string& key) {
  const size_t dot = key.rfind('.');
  return dot == std::string::npos ? std::pair(std::string(), key)
                                  : std::pair(key.substr(0, dot), key.substr(dot + 1));
}

// A JSON value as TOML writes it; tables are left out.
std::string toml_value(const Json& value) {
  if (value.is_object() || value.is_null()) return "";
  return value.dump();
}

// A string as it may stand in an override, without quotes.
std::string bare(const std::string& value) {
  const bool plain = value.size() > 2 && value.front() == '"' &&
                     value.find_first_of(" \\$`'", 1) == std::string::npos;
  return plain ? value.substr(1, value.size() - 2) : value;
}

class Keys {
 public:
  Keys(const Engine& engine, const FileArguments& file) : declared_(engine) {
    if (!read(engine, file, file.overrides()) && !read(engine, file, {})) scan(file);
    add_absent();
  }

  std::vector<Candidate> names(const std::string& word) const;
  std::vector<Candidate> values(const std::string& key) const;

 private:
  // Every value of the experiment; false if it has problems.
  bool read(const Engine& engine, const FileArguments& file,
            const std::vector<std::string>& overrides);
  // The keys that a file with problems sets, and those that belong beside them.
  void scan(const FileArguments& file);
  // Keys of tables that the file does without.
  void add_absent();
  void add_table(const std::string& path, const std::string& type);
  void add(const std::string& path, const std::string& type, const std::string& name,
           const std::string& value, bool set);
  void add_inner(const std::string& path, const std::string& kind, const Json& value);
  std::string help_of(const std::string& table) const;
  std::string type_at(const std::string& table) const;
  std::vector<Candidate> items(const std::string& kind) const;

  Declarations declared_;
  std::map<std::string, KnownKey> keys_;
};

void Keys::add(const std::string& path, const std::string& type, const std::string& name,
               const std::string& value, bool set) {
  keys_.insert({path + "." + name, {path, type, declared_.key(path, type, name), value, set}});
}

// An item inside an item: a tokenizer of a dataset.
void Keys::add_inner(const std::string& path, const std::string& kind, const Json& value) {
  const std::string type = value.is_object() ? value.value("type", "") : "";
  keys_.insert({path + ".type", {path, type, {{"kind", kind}, {"help", "its type"}}, type, false}});
  if (const Json& item = declared_.item(kind, type); !item.is_null())
    for (const Json& option : item.at("options")) {
      const std::string name = option.at("name");
      keys_.insert(
          {path + "." + name, {path, type, option, toml_value(value.value(name, Json())), false}});
    }
}

bool Keys::read(const Engine& engine, const FileArguments& file,
                const std::vector<std::string>& overrides) {
  Json values;
  try {
    // A key press does not run code that the file names.
    std::vector<std::string> all = overrides;
    all.emplace_back("plugins.paths=[]");
    values = Json::parse(Experiment::read(engine, file.path(), all).describe());
  } catch (const std::exception&) {
    return false;
  }
  for (const auto& [path, value] : values.items()) {
    const auto [bound, name] = split_key(path);
    const auto table = split_key(value.value("key", path)).first;
    const auto type = values.find(bound + ".type");
    const std::string item = type == values.end() ? "" : type->value("value", "");
    const bool set = value.value("origin", "default") != "default";
    add(table, item, name, toml_value(value.at("value")), set);
    const Json& declared = keys_.at(table + "." + name).declared;
    if (declared.is_object() && declared.contains("kind"))
      add_inner(table + "." + name, declared.at("kind"), value.at("value"));
  }
  return true;
}

void Keys::scan(const FileArguments& file) {
  std::map<std::string, std::string> types;
  std::vector<std::pair<std::string, std::string>> lines;
  try {
    lines = flat_toml(file.path());
  } catch (const std::exception&) {
  }
  for (const auto& [path, value] : lines)
    if (const auto [table, name] = split_key(path); name == "type" && value.size() > 2)
      types[table] = value.substr(1, value.find(value.front(), 1) - 1);
  for (const auto& [path, value] : lines) {
    const auto [table, name] = split_key(path);
    add(table, types[table], name, value, true);
  }
  for (const auto& [table, type] : types) add_table(table, type);
  for (const Json& table : declared_.tables())
    if (const std::string path = table.at("path"); !table.contains("kind")) add_table(path, "");
}

void Keys::add_table(const std::string& path, const std::string& type) {
  // Patterns are no paths.
  if (path.find("[]") != std::string::npos || path.find("NAME") != std::string::npos) return;
  const Json& table = declared_.table(path, type);
  if (table.is_null()) return;
  for (const Json& key : table.at("keys")) add(path, type, key.at("name"), "", false);
  if (const Json& item = declared_.item(table.value("kind", ""), type); !item.is_null())
    for (const Json& option : item.at("options")) add(path, type, option.at("name"), "", false);
}

void Keys::add_absent() {
  const auto has = [&](const std::string& table) {
    const auto next = keys_.lower_bound(table + ".");
    return next != keys_.end() && next->first.starts_with(table + ".");
  };
  std::vector<std::string> optimizers;
  for (const auto& [key, known] : keys_)
    if (is_path_of(known.table, "optimizer") || is_path_of(known.table, "model.optimizer") ||
        is_path_of(known.table, "models.NAME.optimizer"))
      optimizers.push_back(known.table);
  for (const std::string& path : optimizers)
    if (!has(path + ".schedule")) add_table(path + ".schedule", "");
  for (const char* path : {"data.train", "data.eval", "tokenizer", "optimizer", "loss"})
    if (!has(path) && !(path == std::string("optimizer") && !optimizers.empty()) &&
        !(path == std::string("loss") && (has("losses[0]") || has("model"))))
      add_table(path, "");
  for (const Json& table : declared_.tables()) {
    const std::string named_by = table.value("named_by", ""), path = table.at("path");
    if (named_by.empty()) continue;
    const auto name = keys_.find(named_by);
    const std::string chosen = name == keys_.end() ? "" : name->second.value;
    for (const Json& item : declared_.items(table.at("kind")))
      if (const std::string one = item.at("name");
          chosen == Json(one).dump() || chosen.empty() || chosen == "\"auto\"")
        for (const Json& option : item.at("options"))
          keys_.insert(
              {path + "." + option.at("name").get<std::string>(), {path, one, option, "", false}});
  }
}

std::string Keys::type_at(const std::string& table) const {
  const auto type = keys_.find(table + ".type");
  return type == keys_.end() ? "" : type->second.type;
}

// "linear, out = 32" of an item's table; else the help of the table.
std::string Keys::help_of(const std::string& table) const {
  if (const std::string type = type_at(table); !type.empty()) {
    std::string text = type;
    for (auto at = keys_.lower_bound(table + "."); at != keys_.end(); ++at) {
      if (!at->first.starts_with(table + ".")) break;
      const std::string name = at->first.substr(table.size() + 1);
      if (at->second.set && name != "type" && name.find('.') == std::string::npos)
        text += ", " + name + " = " + at->second.value;
    }
    return text;
  }
  if (table == "data") return "datasets";
  const Json& declared = declared_.table(table, "");
  return declared.is_null() ? "" : declared.value("help", "");
}

std::vector<Candidate> Keys::names(const std::string& word) const {
  const bool removes = word.starts_with('~');
  const std::string prefix = removes ? word.substr(1) : word;
  std::vector<Candidate> all;
  for (const auto& [key, known] : keys_) {
    if (!key.starts_with(prefix) || (removes && !known.set)) continue;
    const size_t dot = key.find('.', prefix.size());
    const std::string text = (removes ? "~" : "") + key.substr(0, dot);
    const std::string end = dot != std::string::npos ? "." : removes ? "" : "=";
    if (!all.empty() && all.back().text == text + end) continue;
    std::string help = dot != std::string::npos     ? help_of(key.substr(0, dot))
                       : known.declared.is_object() ? known.declared.value("help", "")
                                                    : "";
    if (dot == std::string::npos && !known.value.empty()) help += " [" + known.value + "]";
    all.push_back({text + end, help});
  }
  return all;
}

std::vector<Candidate> Keys::items(const std::string& kind) const {
  std::vector<Candidate> all;
  for (const Json& item : declared_.items(kind)) all.push_back({item.at("name"), item.at("help")});
  return all;
}

std::vector<Candidate> Keys::values(const std::string& key) const {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return {};
  const KnownKey& known = found->second;
  const Json& table = declared_.table(known.table, known.type);
  if (split_key(key).second == "type") {
    const std::string kind = known.declared.value("kind", table.value("kind", ""));
    return items(kind);
  }
  for (const Json& one : declared_.tables())
    if (one.value("named_by", "") == key) {
      std::vector<Candidate> all = items(one.at("kind"));
      all.insert(all.begin(), {"auto", "the engine chooses"});
      return all;
    }
  std::vector<Candidate> all;
  if (!known.declared.is_object()) return all;
  for (const Json& choice : known.declared.value("choices", Json::array()))
    all.push_back({choice, ""});
  const std::string type = known.declared.value("type", "");
  if (type == "true or false") all = {{"true", ""}, {"false", ""}};
  if (type == "path") all = {{kAnyFile, ""}};
  if (all.empty() && !known.value.empty()) all.push_back({bare(known.value), "its value now"});
  return all;
}

}  // namespace

std::vector<Candidate> complete_key(const Engine& engine, const FileArguments& file,
                                    const std::string& word) {
  // What a pipe holds can be read once.
  std::error_code ignored;
  const bool may_be_read = std::filesystem::is_regular_file(file.given, ignored) ||
                           std::filesystem::is_directory(file.given, ignored);
  const Keys keys(engine, may_be_read ? file : FileArguments());
  const size_t equals = word.find('=');
  if (equals == std::string::npos) return keys.names(word);
  std::vector<Candidate> all;
  const std::string key = word.substr(0, equals), begun = word.substr(equals + 1);
  for (Candidate& one : keys.values(key))
    if (one.text.starts_with(':'))
      all.push_back(std::move(one));
    else if (one.text.starts_with(begun))
      all.push_back({key + "=" + one.text, std::move(one.help)});
  return all;
}

}  // namespace plait::cli
