// Declarations of options: keys of an experiment, attributes of ops. Defaults are TOML text:
// "0.9", "true", "\"sum\""; nullptr: a value must be given. Names and texts are borrowed. Plugins
// of others have the same in bindings/cpp, which stands alone.
#pragma once

#include <plait/option.h>

namespace plait::kit {

constexpr plait_option declare(uint32_t type, const char* name, const char* initial,
                               const char* help) {
  return {sizeof(plait_option), name, type, 0, initial, 0, 0, nullptr, nullptr, help};
}
constexpr plait_option bool_option(const char* name, const char* initial, const char* help) {
  return declare(PLAIT_OPT_BOOL, name, initial, help);
}
constexpr plait_option int_option(const char* name, const char* initial, const char* help) {
  return declare(PLAIT_OPT_INT, name, initial, help);
}
constexpr plait_option real_option(const char* name, const char* initial, const char* help) {
  return declare(PLAIT_OPT_REAL, name, initial, help);
}
constexpr plait_option text_option(const char* name, const char* initial, const char* help) {
  return declare(PLAIT_OPT_TEXT, name, initial, help);
}
constexpr plait_option path_option(const char* name, const char* initial, const char* help) {
  return declare(PLAIT_OPT_PATH, name, initial, help);
}
constexpr plait_option ints_option(const char* name, const char* initial, const char* help) {
  return declare(PLAIT_OPT_INTS, name, initial, help);
}
constexpr plait_option reals_option(const char* name, const char* initial, const char* help) {
  return declare(PLAIT_OPT_REALS, name, initial, help);
}
constexpr plait_option texts_option(const char* name, const char* initial, const char* help) {
  return declare(PLAIT_OPT_TEXTS, name, initial, help);
}
// One of the texts in `choices`: "a|b|c".
constexpr plait_option choice_option(const char* name, const char* initial, const char* choices,
                                     const char* help) {
  plait_option o = text_option(name, initial, help);
  o.choices = choices;
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

}  // namespace plait::kit
