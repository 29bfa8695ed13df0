// The checked options of one item, passed to a plugin as plait_options.
#pragma once

#include <plait/option.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/node.hpp"
#include "engine/config/option_view.hpp"
#include "engine/config/paths.hpp"

namespace plait::config {

struct ItemConfig;

// One checked value.
struct OptionValue {
  const plait_option* declared = nullptr;  // borrowed from the item
  Origin origin;
  std::string origin_text;  // origin.text(), for the C getter
  bool given = false;       // set by the file or an override; else the default
  int64_t integer = 0;      // also bool
  double real = 0;
  std::string text;        // a path: resolved
  std::string given_text;  // a path: as written
  std::vector<int64_t> integers;
  std::vector<double> reals;
  std::vector<std::string> texts;                        // paths: resolved
  std::vector<std::string> given_texts;                  // paths: as written
  std::vector<Node> tables;                              // of items, as written
  std::vector<std::shared_ptr<const ItemConfig>> items;  // checked; empty until set_items()
};

// A path that was given, with the key that gives it: "tokenizer.path".
struct GivenPath {
  std::string key;
  Origin origin;
  std::string given, resolved;
};

// Copyable; copies are independent. Declarations are borrowed and must outlive it (they are the
// plugin's static tables). Any thread may read it.
class OptionSet : public plait_options {
 public:
  OptionSet();
  OptionSet(const OptionSet&) = default;
  OptionSet& operator=(const OptionSet&) = default;

  // Checks `table` (absent or a table) against the declarations. Keys in `engine_keys` belong to
  // the engine and are skipped. Every defect is a problem under `path`; the value is then the
  // default, or zero if there is none.
  static OptionSet check(const Node& table, const OptionView& declared,
                         std::span<const std::string_view> engine_keys, const std::string& path,
                         const PathResolver& resolver, Problems& problems);

  // The same without looking for unknown keys: for a table that is also read elsewhere.
  static OptionSet read(const Node& table, const OptionView& declared, const std::string& path,
                        const PathResolver& resolver, Problems& problems);

  // A wrong name or type is PLAIT_ERR_INVALID.
  bool get_bool(std::string_view name) const;
  int64_t get_int(std::string_view name) const;
  double get_real(std::string_view name) const;
  const std::string& get_text(std::string_view name) const;  // also for paths
  const std::vector<int64_t>& get_ints(std::string_view name) const;
  const std::vector<double>& get_reals(std::string_view name) const;
  const std::vector<std::string>& get_texts(std::string_view name) const;  // also for paths
  const std::vector<std::shared_ptr<const ItemConfig>>& get_items(std::string_view name) const;
  bool given(std::string_view name) const;  // false also if it is not declared
  bool declares(std::string_view name) const { return find(name) != nullptr; }
  Origin origin(std::string_view name) const;
  // Origin of the last value that was set by an override; NULL if there is none.
  const Origin* overridden() const;

  // Overwrites a value that the engine decides for the item ("threads"). It must be declared with
  // that type.
  void set_int(std::string_view name, int64_t value, Origin origin);
  void set_bool(std::string_view name, bool value, Origin origin);
  void set_real(std::string_view name, double value, Origin origin);
  void set_text(std::string_view name, std::string value, Origin origin);
  void set_texts(std::string_view name, std::vector<std::string> values, Origin origin);
  // Of a value that has tables: what they describe.
  void set_items(std::string_view name, std::vector<std::shared_ptr<const ItemConfig>> items);

  const std::vector<OptionValue>& values() const { return values_; }
  const OptionValue* find(std::string_view name) const;  // NULL when not declared
  std::vector<GivenPath> paths() const;  // paths that were given, those of items behind their own
  // Given paths whose target does not exist.
  std::vector<GivenPath> missing_paths(const PathResolver& resolver) const;

  // The values as TOML, one "key = value" line each. comments: preceded by help, type, range and
  // unit.
  // `skip`: names to leave out.
  std::string to_toml(bool comments, std::span<const std::string_view> skip = {},
                      bool absolute_paths = false) const;

 private:
  const OptionValue& get(std::string_view name, uint32_t type) const;
  OptionValue& change(std::string_view name, uint32_t type, Origin origin);
  std::vector<OptionValue> values_;
};

inline bool is_item_type(uint32_t type) {
  return type == PLAIT_OPT_ITEM || type == PLAIT_OPT_ITEMS;
}
// The key of item i of a value: "tokenizer", "parts[1]".
std::string item_key(const OptionValue& value, size_t i);
// A value as TOML: 1, "sum", [1, 2], {type = "bytes"}; a path as written or as resolved.
std::string value_toml(const OptionValue& value, bool absolute_path = false);
// "# help\n# integer >= 1, in samples\n".
std::string option_comment(const plait_option& option);

}  // namespace plait::config
