// The checked options of one item: what a plugin gets as plait_options.
#pragma once

#include <plait/option.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/node.hpp"
#include "engine/config/option_view.hpp"
#include "engine/config/paths.hpp"

namespace plait::config {

// One value, checked.
struct OptionValue {
  const plait_option* declared = nullptr;  // borrowed from the item
  Origin origin;
  std::string origin_text;  // origin.text(), for the C getter
  bool given = false;       // by the file or an override; else the default
  int64_t integer = 0;      // also bool
  double real = 0;
  std::string text;        // of a path: resolved
  std::string given_text;  // of a path: as written
  std::vector<int64_t> integers;
  std::vector<double> reals;
  std::vector<std::string> texts;
};

// Copyable; a copy is independent. Declarations are borrowed and must outlive it (they lie in the plugin's static tables).
// Any thread may read it.
class OptionSet : public plait_options {
 public:
  OptionSet();
  OptionSet(const OptionSet&) = default;
  OptionSet& operator=(const OptionSet&) = default;

  // Checks `table` (absent or a table) against what is declared. Keys in `engine_keys` are the engine's and are passed over
  // here. Every defect is a problem under `path`; after one the value is the default, or zero where there is none.
  static OptionSet check(const Node& table, const OptionView& declared,
                         std::span<const std::string_view> engine_keys, const std::string& path,
                         const PathResolver& resolver, Problems& problems);

  // The same without looking for unknown keys: for a table that others read too.
  static OptionSet read(const Node& table, const OptionView& declared, const std::string& path,
                        const PathResolver& resolver, Problems& problems);

  // The wrong name or type is PLAIT_ERR_INVALID.
  bool get_bool(std::string_view name) const;
  int64_t get_int(std::string_view name) const;
  double get_real(std::string_view name) const;
  const std::string& get_text(std::string_view name) const;  // paths too
  const std::vector<int64_t>& get_ints(std::string_view name) const;
  const std::vector<double>& get_reals(std::string_view name) const;
  const std::vector<std::string>& get_texts(std::string_view name) const;
  bool given(std::string_view name) const;  // false too when it is not declared
  bool declares(std::string_view name) const { return find(name) != nullptr; }
  Origin origin(std::string_view name) const;
  // Where the last of the values that an override gave was set; NULL when none gave any.
  const Origin* overridden() const;

  // Overwrites a value: what the engine decides for the item ("threads"). It must be declared, and of that type.
  void set_int(std::string_view name, int64_t value, Origin origin);
  void set_bool(std::string_view name, bool value, Origin origin);
  void set_real(std::string_view name, double value, Origin origin);
  void set_text(std::string_view name, std::string value, Origin origin);

  const std::vector<OptionValue>& values() const { return values_; }
  const OptionValue* find(std::string_view name) const;  // NULL when not declared
  std::vector<const OptionValue*> paths() const;         // those that were given
  // Those that lead nowhere.
  std::vector<const OptionValue*> missing_paths(const PathResolver& resolver) const;

  // The values as TOML, one "key = value" line each. comments: preceded by help, type, range, unit.
  // `skip`: names to leave out.
  std::string to_toml(bool comments, std::span<const std::string_view> skip = {},
                      bool absolute_paths = false) const;

 private:
  const OptionValue& get(std::string_view name, uint32_t type) const;
  OptionValue& change(std::string_view name, uint32_t type, Origin origin);
  std::vector<OptionValue> values_;
};

// A value as TOML: 1, "sum", [1, 2]; a path as written, or as resolved.
std::string value_toml(const OptionValue& value, bool absolute_path = false);
// "# help\n# integer >= 1, in samples\n".
std::string option_comment(const plait_option& option);

}  // namespace plait::config
