#include "engine/config/option_view.hpp"

#include <plait/peft.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "engine/base/text.hpp"
#include "engine/config/node.hpp"
#include "engine/config/option_set.hpp"

namespace plait::config {

const plait_option* OptionView::find(std::string_view name) const {
  for (uint32_t i = 0; i < n_; ++i)
    if (name == (*this)[i].name) return &(*this)[i];
  return nullptr;
}

std::vector<std::string> OptionView::names() const {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < n_; ++i) names.emplace_back((*this)[i].name);
  return names;
}

const char* type_name(uint32_t type) {
  switch (type) {
    case PLAIT_OPT_BOOL:
      return "true or false";
    case PLAIT_OPT_INT:
      return "integer";
    case PLAIT_OPT_REAL:
      return "number";
    case PLAIT_OPT_TEXT:
      return "string";
    case PLAIT_OPT_INTS:
      return "list of integers";
    case PLAIT_OPT_REALS:
      return "list of numbers";
    case PLAIT_OPT_TEXTS:
      return "list of strings";
    case PLAIT_OPT_PATH:
      return "path";
    case PLAIT_OPT_PATHS:
      return "list of paths";
    case PLAIT_OPT_ITEM:
      return "table";
    case PLAIT_OPT_ITEMS:
      return "list of tables";
    default:
      return "unknown type";
  }
}

std::string kind_word(std::string_view kind) {
  if (kind == PLAIT_KIND_PEFT) return "method";
  const size_t dot = kind.find('.') + 1;
  return std::string(kind.substr(dot, kind.find('/') - dot));
}

std::string describe_option(const plait_option& option) {
  std::string text = type_name(option.type);
  const auto number = [&](double v) {
    const bool whole =
        (option.type == PLAIT_OPT_INT || option.type == PLAIT_OPT_INTS) && v > -1e15 && v < 1e15;
    return whole ? std::to_string(static_cast<int64_t>(v)) : real_text(v);
  };
  std::vector<std::string> limits;
  if (option.flags & PLAIT_OPT_HAS_MIN)
    limits.push_back((option.flags & PLAIT_OPT_MIN_EXCLUSIVE ? "> " : ">= ") + number(option.min));
  if (option.flags & PLAIT_OPT_HAS_MAX)
    limits.push_back((option.flags & PLAIT_OPT_MAX_EXCLUSIVE ? "< " : "<= ") + number(option.max));
  if (!limits.empty()) text += " " + join(limits, " and ");
  if (is_item_type(option.type)) {
    text += ": {type = \"NAME\", ...} of a " + kind_word(option.choices ? option.choices : "");
  } else if (option.choices) {
    std::vector<std::string> quoted;
    for (const std::string& choice : split(option.choices, '|'))
      quoted.push_back(toml_text(choice));
    text += ": " + join(quoted, " | ");
  }
  if (option.unit && *option.unit) text += std::string(", in ") + option.unit;
  return text;
}

namespace {

// Size of plait_option in ABI 1, up to its last member at that time. Never changes.
constexpr size_t kOptionV1Size = offsetof(plait_option, help) + sizeof(plait_option::help);

bool is_snake_case(std::string_view name) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && std::all_of(name.begin(), name.end(), good);
}

std::string defect_of_limits(const plait_option& option) {
  constexpr uint32_t kKnown = PLAIT_OPT_HAS_MIN | PLAIT_OPT_HAS_MAX | PLAIT_OPT_MIN_EXCLUSIVE |
                              PLAIT_OPT_MAX_EXCLUSIVE | PLAIT_OPT_BY_TARGET;
  const uint32_t flags = option.flags;
  if (flags & ~kKnown) return "has flags " + std::to_string(flags) + ", of which some are unknown";
  const bool least = flags & PLAIT_OPT_HAS_MIN, most = flags & PLAIT_OPT_HAS_MAX;
  if ((!least && (flags & PLAIT_OPT_MIN_EXCLUSIVE)) || (!most && (flags & PLAIT_OPT_MAX_EXCLUSIVE)))
    return "excludes a limit that it does not have";
  if ((flags & PLAIT_OPT_BY_TARGET) && option.type != PLAIT_OPT_TEXTS)
    return "has values by target, which only a list of texts has";
  if (!least && !most) return "";
  if (option.type != PLAIT_OPT_INT && option.type != PLAIT_OPT_REAL &&
      option.type != PLAIT_OPT_INTS && option.type != PLAIT_OPT_REALS)
    return "has limits, which only numbers have";
  if ((least && std::isnan(option.min)) || (most && std::isnan(option.max)))
    return "has a limit that is not a number";
  if (least && most && option.min > option.max)
    return strf("has a minimum of %g above its maximum of %g", option.min, option.max);
  return "";
}

std::string defect_of_one(const plait_option& option) {
  const std::string who = "option '" + printable(option.name) + "' ";
  if (!*option.name) return "an option has no name";
  if (!is_snake_case(option.name)) return who + "is not named in snake_case (a-z, 0-9, _)";
  if (option.type < PLAIT_OPT_BOOL || option.type > PLAIT_OPT_ITEMS)
    return who + "has type " + std::to_string(option.type) + ", expected 1 to 11";
  if (!option.help) return who + "has no help text";
  std::string defect = defect_of_limits(option);
  const bool text = option.type == PLAIT_OPT_TEXT || option.type == PLAIT_OPT_PATH;
  if (is_item_type(option.type)) {
    if (!option.choices || !std::string_view(option.choices).starts_with("plait."))
      defect = "names no kind of item in its choices";
  } else if (option.choices && option.type != PLAIT_OPT_TEXT && option.type != PLAIT_OPT_TEXTS) {
    defect = "has choices, which only texts have";
  }
  if (text && option.default_value && *option.default_value != '"' && *option.default_value != '\'')
    defect = std::string("has a default without quotes: ") + option.default_value;
  if (!defect.empty()) return who + defect;
  if (!option.default_value) return "";
  Problems problems;
  OptionSet::check(Node(), OptionView(&option, 1), {}, "", PathResolver(), problems);
  return problems.empty()
             ? ""
             : who +
                   "has a default that breaks its own declaration: " + problems.sorted()[0].message;
}

}  // namespace

std::string defect_of(const OptionView& options) {
  if (options.size() == 0) return "";
  // The stride is read from the first element, so it must be validated first.
  const size_t stride = options[0].struct_size;
  if (stride < kOptionV1Size || stride > 4096 || stride % alignof(plait_option) != 0)
    return "options have struct_size " + std::to_string(stride) + ", expected at least " +
           std::to_string(kOptionV1Size);
  for (uint32_t i = 0; i < options.size(); ++i) {
    if (options[i].struct_size != stride) return "options differ in struct_size";
    if (!options[i].name) return "option number " + std::to_string(i) + " has no name";
    std::string defect = defect_of_one(options[i]);
    if (!defect.empty()) return defect;
    if (options.find(options[i].name) != &options[i])
      return std::string("option '") + options[i].name + "' is declared twice";
  }
  return "";
}

}  // namespace plait::config
