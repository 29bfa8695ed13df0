// plait/plugin/options.hpp - declaring options (opt_*, at_least, above, ...) and reading their
// checked values.
#pragma once

#include <plait/option.h>
#include <plait/plugin/error.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plait {
inline namespace authoring {

// `default_value` is TOML, as the user would write it: "0.9", "true", "\"sum\""; nullptr: the user
// must give the option. Names and texts must live as long as the item.
constexpr plait_option opt(uint32_t type, const char* name, const char* default_value,
                           const char* help) {
  return {sizeof(plait_option), name, type, 0, default_value, 0, 0, nullptr, nullptr, help};
}
constexpr plait_option opt_bool(const char* n, const char* d, const char* h) {
  return opt(PLAIT_OPT_BOOL, n, d, h);
}
constexpr plait_option opt_int(const char* n, const char* d, const char* h) {
  return opt(PLAIT_OPT_INT, n, d, h);
}
constexpr plait_option opt_real(const char* n, const char* d, const char* h) {
  return opt(PLAIT_OPT_REAL, n, d, h);
}
constexpr plait_option opt_text(const char* n, const char* d, const char* h) {
  return opt(PLAIT_OPT_TEXT, n, d, h);
}
constexpr plait_option opt_path(const char* n, const char* d, const char* h) {
  return opt(PLAIT_OPT_PATH, n, d, h);
}
constexpr plait_option opt_ints(const char* n, const char* d, const char* h) {
  return opt(PLAIT_OPT_INTS, n, d, h);
}
constexpr plait_option opt_reals(const char* n, const char* d, const char* h) {
  return opt(PLAIT_OPT_REALS, n, d, h);
}
constexpr plait_option opt_texts(const char* n, const char* d, const char* h) {
  return opt(PLAIT_OPT_TEXTS, n, d, h);
}
constexpr plait_option opt_paths(const char* n, const char* d, const char* h) {
  return opt(PLAIT_OPT_PATHS, n, d, h);
}
// An item of a kind, PLAIT_KIND_TOKENIZER or PLAIT_KIND_DATASET, as a table; a list of such.
constexpr plait_option opt_item(const char* n, const char* d, const char* kind, const char* h) {
  plait_option o = opt(PLAIT_OPT_ITEM, n, d, h);
  o.choices = kind;
  return o;
}
constexpr plait_option opt_items(const char* n, const char* d, const char* kind, const char* h) {
  plait_option o = opt(PLAIT_OPT_ITEMS, n, d, h);
  o.choices = kind;
  return o;
}
// One of the texts in `choices`: "a|b|c".
constexpr plait_option opt_choice(const char* n, const char* d, const char* choices,
                                  const char* h) {
  plait_option o = opt(PLAIT_OPT_TEXT, n, d, h);
  o.choices = choices;
  return o;
}
// Of a PEFT method: texts "PATTERN=VALUE" for targets whose names the pattern matches.
constexpr plait_option opt_by_target(const char* n, const char* h) {
  plait_option o = opt_texts(n, "[]", h);
  o.flags |= PLAIT_OPT_BY_TARGET;
  return o;
}
constexpr plait_option at_least(plait_option o, double min) {
  o.min = min;
  o.flags |= PLAIT_OPT_HAS_MIN;
  return o;
}
constexpr plait_option above(plait_option o, double min) {
  o = at_least(o, min);
  o.flags |= PLAIT_OPT_MIN_EXCLUSIVE;
  return o;
}
constexpr plait_option at_most(plait_option o, double max) {
  o.max = max;
  o.flags |= PLAIT_OPT_HAS_MAX;
  return o;
}
constexpr plait_option below(plait_option o, double max) {
  o = at_most(o, max);
  o.flags |= PLAIT_OPT_MAX_EXCLUSIVE;
  return o;
}
constexpr plait_option in_unit(plait_option o, const char* unit) {
  o.unit = unit;
  return o;
}

// An item that an option describes: what the host opens it by.
struct InnerItem {
  const char* type;
  const plait_options* options;
};

// Typed access to the checked options of an item, valid within the call that passes them. Throws
// plait::Error with PLAIT_ERR_INVALID for an undeclared name or the wrong type.
class Options {
 public:
  explicit Options(const plait_options* o) : o_(o) {}
  bool flag(const char* name) const {
    uint32_t v = 0;
    check(o_->table->get_bool(o_, name, &v));
    return v != 0;
  }
  int64_t integer(const char* name) const {
    int64_t v = 0;
    check(o_->table->get_int(o_, name, &v));
    return v;
  }
  double real(const char* name) const {
    double v = 0;
    check(o_->table->get_real(o_, name, &v));
    return v;
  }
  // The value of a text or a path.
  std::string_view text(const char* name) const {
    const char* p = nullptr;
    uint64_t n = 0;
    check(o_->table->get_text(o_, name, &p, &n));
    return {p, n};
  }
  std::span<const int64_t> integers(const char* name) const {
    const int64_t* p = nullptr;
    uint64_t n = 0;
    check(o_->table->get_ints(o_, name, &p, &n));
    return {p, n};
  }
  std::span<const double> reals(const char* name) const {
    const double* p = nullptr;
    uint64_t n = 0;
    check(o_->table->get_reals(o_, name, &p, &n));
    return {p, n};
  }
  std::vector<std::string> texts(const char* name) const {
    std::vector<std::string> all;
    for (uint64_t i = 0, n = 1; i < n; ++i) {
      const char* p = nullptr;
      uint64_t size = 0;
      check(o_->table->get_texts(o_, name, i, &p, &size, &n));
      if (p) all.emplace_back(p, size);
    }
    return all;
  }
  // The items that an option describes; one for opt_item(), none if it was not given.
  std::vector<InnerItem> items(const char* name) const {
    if (o_->table->struct_size < offsetof(plait_options_table, get_item) + sizeof(void*))
      fail(PLAIT_ERR_PLUGIN, "the host is too old for items within items; update it");
    std::vector<InnerItem> all;
    for (uint64_t i = 0, n = 1; i < n; ++i) {
      InnerItem item{};
      check(o_->table->get_item(o_, name, i, &item.type, &item.options, &n));
      if (item.type) all.push_back(item);
    }
    return all;
  }
  // Where the value was written: "experiment.toml:12:3", or "default".
  const char* origin(const char* name) const { return o_->table->origin(o_, name); }

 private:
  const plait_options* o_;
};

}  // namespace authoring
}  // namespace plait
