#include "engine/config/option_set.hpp"

#include <algorithm>

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/base/files.hpp"
#include "engine/base/text.hpp"
#include "engine/config/document.hpp"
#include "engine/config/experiment.hpp"
#include "engine/config/near_key.hpp"
#include "engine/config/option_read.hpp"
#include "engine/config/renamed_keys.hpp"
#include "engine/config/written_path.hpp"

namespace plait::config {
namespace {

std::string key_path(const std::string& path, std::string_view key) {
  return path.empty() ? toml_key(key) : path + "." + toml_key(key);
}

// The functions that plugins call: thin wrappers that convert exceptions to errors.
struct Calls {
  static const OptionSet& set(const plait_options* o) { return *static_cast<const OptionSet*>(o); }
  // The options, when no argument is NULL.
  template <class... Pointers>
  static const OptionSet& asked(const plait_options* o, const char* name, Pointers... out) {
    if (!o) fail_invalid("[options] an option was asked for without the options: they are NULL");
    if (!name) fail_invalid("[options] an option was asked for without a name: it is NULL");
    if (!(... && (out != nullptr)))
      fail_invalid("[options] '" + std::string(name) +
                   "' was asked for without a place: out is NULL");
    return set(o);
  }
  // Reads first and assigns last: on error *out is unchanged.
  static plait_error* get_bool(const plait_options* o, const char* name, uint32_t* out) {
    return guard_c([&] { *out = asked(o, name, out).get_bool(name) ? 1 : 0; });
  }
  static plait_error* get_int(const plait_options* o, const char* name, int64_t* out) {
    return guard_c([&] { *out = asked(o, name, out).get_int(name); });
  }
  static plait_error* get_real(const plait_options* o, const char* name, double* out) {
    return guard_c([&] { *out = asked(o, name, out).get_real(name); });
  }
  static plait_error* get_text(const plait_options* o, const char* name, const char** out,
                               uint64_t* size) {
    return guard_c([&] {
      const std::string& text = asked(o, name, out, size).get_text(name);
      *out = text.c_str();
      *size = text.size();
    });
  }
  static plait_error* get_ints(const plait_options* o, const char* name, const int64_t** out,
                               uint64_t* n) {
    return guard_c([&] {
      const auto& list = asked(o, name, out, n).get_ints(name);
      *out = list.data();
      *n = list.size();
    });
  }
  static plait_error* get_reals(const plait_options* o, const char* name, const double** out,
                                uint64_t* n) {
    return guard_c([&] {
      const auto& list = asked(o, name, out, n).get_reals(name);
      *out = list.data();
      *n = list.size();
    });
  }
  static plait_error* get_texts(const plait_options* o, const char* name, uint64_t i,
                                const char** out, uint64_t* size, uint64_t* n) {
    return guard_c([&] {
      const auto& list = asked(o, name, out, size, n).get_texts(name);
      const bool inside = i < list.size();
      *out = inside ? list[i].c_str() : nullptr;
      *size = inside ? list[i].size() : 0;
      *n = list.size();
    });
  }
  static plait_error* get_item(const plait_options* o, const char* name, uint64_t i,
                               const char** type, const plait_options** options, uint64_t* n) {
    return guard_c([&] {
      const auto& list = asked(o, name, type, options, n).get_items(name);
      const ItemConfig* item = i < list.size() ? list[i].get() : nullptr;
      *type = item ? item->type.c_str() : nullptr;
      *options = item ? &item->options : nullptr;
      *n = list.size();
    });
  }
  static const char* origin(const plait_options* o, const char* name) {
    const OptionValue* value = o && name ? set(o).find(name) : nullptr;
    return value ? value->origin_text.c_str() : "undeclared option";
  }
};

const plait_options_table kTable = {sizeof(plait_options_table),
                                    Calls::get_bool,
                                    Calls::get_int,
                                    Calls::get_real,
                                    Calls::get_text,
                                    Calls::get_ints,
                                    Calls::get_reals,
                                    Calls::get_texts,
                                    Calls::origin,
                                    Calls::get_item};

void set_default(const plait_option& option, const PathResolver& resolver, const std::string& path,
                 OptionValue& value, Problems& problems) {
  Problems own;
  const Node node = parse_value(option.default_value, Origin::none(), own);
  std::string wrong =
      own.empty() ? read_option(node, option, resolver, value) : own.sorted()[0].message;
  if (!wrong.empty())
    problems.add(Origin::none(), path,
                 std::string("default ") + option.default_value + ": " + wrong);
}

// Advice for a text that TOML parses as another type: 007, nan, true. "" for all other mistakes.
std::string how_to_quote(const Node& node, const plait_option& option, const std::string& path) {
  const bool text = option.type == PLAIT_OPT_TEXT || option.type == PLAIT_OPT_PATH;
  const bool other =
      node.is(NodeKind::kInt) || node.is(NodeKind::kReal) || node.is(NodeKind::kBool);
  if (!text || !other || option.choices) return "";
  const std::string quoted = toml_text(node.toml());
  // The quotes of an override must survive the shell.
  return node.origin().line > 0 ? "write it in quotes: " + quoted
                                : "write it in quotes: " + path + "='" + quoted + "'";
}

// Advice for a text in place of a table, as in optimizer=adam and precision=bf16: the key that it
// is probably the value of. "" if there is none.
std::string how_to_key(const Node& node, const OptionView& declared, const std::string& path) {
  if (!node.is(NodeKind::kText)) return "";
  std::string key = declared.find("type") ? "type" : "";
  for (uint32_t i = 0; i < declared.size() && key.empty(); ++i) {
    const std::vector<std::string> choices = declared[i].choices && !is_item_type(declared[i].type)
                                                 ? split(declared[i].choices, '|')
                                                 : std::vector<std::string>();
    if (std::find(choices.begin(), choices.end(), node.as_text()) != choices.end())
      key = declared[i].name;
  }
  if (key.empty()) return "";
  return node.origin().line > 0 ? "write [" + path + "] and below it " + key + " = " + node.toml()
                                : "write " + path + "." + key + "=" + node.as_text();
}

OptionValue read_one(const Node& table, const plait_option& option, const std::string& path,
                     const PathResolver& resolver, Problems& problems) {
  OptionValue value;
  value.declared = &option;
  value.origin = Origin::none();
  const Node& node = table.find(option.name);
  if (node) {
    value.given = true;
    value.origin = node.origin();
    const bool unset = node.is(NodeKind::kText) && node.as_text() == kMustSet;
    const std::string wrong =
        unset ? "required value not set" : read_option(node, option, resolver, value);
    if (!wrong.empty())
      problems.add(node.origin(), path, wrong,
                   unset ? "replace \"???\" by a value: " + describe_option(option)
                         : how_to_quote(node, option, path));
  } else if (option.default_value) {
    set_default(option, resolver, path, value, problems);
  } else if (table.absent() || table.is(NodeKind::kTable)) {
    problems.add(table.origin(), path, "required key is missing",
                 "add " + toml_key(option.name) + " = <" + describe_option(option) + ">");
  }
  value.origin_text = value.origin.text();
  return value;
}

void find_unknown(const Node& table, const OptionView& declared,
                  std::span<const std::string_view> engine_keys, const std::string& path,
                  Problems& problems) {
  std::vector<std::string> known = declared.names();
  known.insert(known.end(), engine_keys.begin(), engine_keys.end());
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  for (const Node::Entry& entry : table.entries()) {
    if (std::binary_search(known.begin(), known.end(), entry.key)) continue;
    if (const std::string now = renamed_key(entry.key, known); !now.empty()) {
      const std::string value = renamed_value(entry.key);
      problems.add(entry.origin, key_path(path, entry.key),
                   "'" + entry.key + "' is now called '" + now + "'",
                   entry.origin.is_override() && value.empty()
                       ? "write " + key_path(path, now) + "=..."
                   : !entry.origin.is_override() && table.find(now)
                       ? "remove it: '" + now + "' is set as well"
                   : value.empty() ? "rename it"
                                   : value);
      continue;
    }
    std::string near = near_key(entry.key, known);
    // `betas` of another library is beta1 and beta2.
    if (entry.key.ends_with('s') && near == entry.key.substr(0, entry.key.size() - 1) + "1")
      near += "' and '" + near.substr(0, near.size() - 1) + "2";
    problems.add(entry.origin, key_path(path, entry.key),
                 "unknown key '" + entry.key + "'" + did_you_mean(near),
                 known.empty() ? "no keys are allowed here" : "known keys: " + join(known));
  }
}

}  // namespace

OptionSet::OptionSet() : plait_options{&kTable} {}

OptionSet OptionSet::check(const Node& table, const OptionView& declared,
                           std::span<const std::string_view> engine_keys, const std::string& path,
                           const PathResolver& resolver, Problems& problems) {
  if (table.is(NodeKind::kTable)) find_unknown(table, declared, engine_keys, path, problems);
  return read(table, declared, path, resolver, problems);
}

OptionSet OptionSet::read(const Node& table, const OptionView& declared, const std::string& path,
                          const PathResolver& resolver, Problems& problems) {
  OptionSet set;
  if (table && !table.is(NodeKind::kTable))
    problems.add(table.origin(), path, std::string("expected a table, found ") + table.kind_name(),
                 how_to_key(table, declared, path));
  set.values_.reserve(declared.size());
  for (uint32_t i = 0; i < declared.size(); ++i)
    set.values_.push_back(
        read_one(table, declared[i], key_path(path, declared[i].name), resolver, problems));
  return set;
}

const OptionValue* OptionSet::find(std::string_view name) const {
  for (const OptionValue& value : values_)
    if (name == value.declared->name) return &value;
  return nullptr;
}

const OptionValue& OptionSet::get(std::string_view name, uint32_t type) const {
  const OptionValue* value = find(name);
  if (!value) {
    std::vector<std::string> names;
    for (const OptionValue& v : values_) names.emplace_back(v.declared->name);
    fail_invalid("[options] '" + std::string(name) + "' is not declared" +
                 did_you_mean(nearest(std::string(name), names)) +
                 "; declared options: " + join(names));
  }
  const bool path_as_text = type == PLAIT_OPT_TEXT && value->declared->type == PLAIT_OPT_PATH;
  const bool paths_as_texts = type == PLAIT_OPT_TEXTS && value->declared->type == PLAIT_OPT_PATHS;
  if (value->declared->type != type && !path_as_text && !paths_as_texts)
    fail_invalid("[options] '" + std::string(name) + "' is declared as " +
                 type_name(value->declared->type) + " but was read as " + type_name(type) +
                 "; use the getter of its type");
  return *value;
}

bool OptionSet::get_bool(std::string_view name) const {
  return get(name, PLAIT_OPT_BOOL).integer != 0;
}
int64_t OptionSet::get_int(std::string_view name) const { return get(name, PLAIT_OPT_INT).integer; }
double OptionSet::get_real(std::string_view name) const { return get(name, PLAIT_OPT_REAL).real; }
const std::string& OptionSet::get_text(std::string_view name) const {
  return get(name, PLAIT_OPT_TEXT).text;
}
const std::vector<int64_t>& OptionSet::get_ints(std::string_view name) const {
  return get(name, PLAIT_OPT_INTS).integers;
}
const std::vector<double>& OptionSet::get_reals(std::string_view name) const {
  return get(name, PLAIT_OPT_REALS).reals;
}
const std::vector<std::string>& OptionSet::get_texts(std::string_view name) const {
  return get(name, PLAIT_OPT_TEXTS).texts;
}

const std::vector<std::shared_ptr<const ItemConfig>>& OptionSet::get_items(
    std::string_view name) const {
  const OptionValue* value = find(name);
  const bool is_item = value && is_item_type(value->declared->type);
  return is_item ? value->items : get(name, PLAIT_OPT_ITEMS).items;
}

bool OptionSet::given(std::string_view name) const {
  const OptionValue* value = find(name);
  return value && value->given;
}
Origin OptionSet::origin(std::string_view name) const {
  const OptionValue* value = find(name);
  return value ? value->origin : Origin::none();
}

const Origin* OptionSet::overridden() const {
  const Origin* found = nullptr;
  for (const OptionValue& value : values_)
    if (value.given && value.origin.line == 0) found = &value.origin;
  return found;
}

OptionValue& OptionSet::change(std::string_view name, uint32_t type, Origin origin) {
  OptionValue& value = values_[static_cast<size_t>(&get(name, type) - values_.data())];
  value.origin_text = origin.text();
  value.origin = std::move(origin);
  return value;
}
void OptionSet::set_int(std::string_view name, int64_t value, Origin origin) {
  change(name, PLAIT_OPT_INT, std::move(origin)).integer = value;
}
void OptionSet::set_bool(std::string_view name, bool value, Origin origin) {
  change(name, PLAIT_OPT_BOOL, std::move(origin)).integer = value;
}
void OptionSet::set_real(std::string_view name, double value, Origin origin) {
  change(name, PLAIT_OPT_REAL, std::move(origin)).real = value;
}
void OptionSet::set_text(std::string_view name, std::string value, Origin origin) {
  OptionValue& changed = change(name, PLAIT_OPT_TEXT, std::move(origin));
  changed.text = changed.given_text = std::move(value);
}
void OptionSet::set_texts(std::string_view name, std::vector<std::string> values, Origin origin) {
  change(name, PLAIT_OPT_TEXTS, std::move(origin)).texts = std::move(values);
}

void OptionSet::set_items(std::string_view name,
                          std::vector<std::shared_ptr<const ItemConfig>> items) {
  for (OptionValue& value : values_)
    if (name == value.declared->name) {
      value.items = std::move(items);
      return;
    }
}

std::string item_key(const OptionValue& value, size_t i) {
  const std::string name = toml_key(value.declared->name);
  return value.declared->type == PLAIT_OPT_ITEM ? name : name + "[" + std::to_string(i) + "]";
}

std::vector<GivenPath> OptionSet::paths() const {
  std::vector<GivenPath> all, inner;
  for (const OptionValue& value : values_) {
    const std::string key = toml_key(value.declared->name);
    if (value.declared->type == PLAIT_OPT_PATH && !value.given_text.empty())
      all.push_back({key, value.origin, value.given_text, value.text});
    if (value.declared->type == PLAIT_OPT_PATHS)
      for (size_t i = 0; i < value.texts.size(); ++i)
        all.push_back({key, value.origin, value.given_texts[i], value.texts[i]});
    for (size_t i = 0; i < value.items.size(); ++i)
      for (GivenPath& path : value.items[i]->options.paths()) {
        path.key = item_key(value, i) + "." + path.key;
        inner.push_back(std::move(path));
      }
  }
  all.insert(all.end(), inner.begin(), inner.end());
  return all;
}

std::vector<GivenPath> OptionSet::missing_paths(const PathResolver& resolver) const {
  std::vector<GivenPath> missing;
  for (const GivenPath& path : paths())
    if (resolver.files &&
        !resolver.files->exists(resolve_written(resolver, path.given, path.origin)))
      missing.push_back(path);
  return missing;
}

}  // namespace plait::config
