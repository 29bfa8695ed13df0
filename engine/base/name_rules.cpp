#include "engine/base/name_rules.hpp"

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"

namespace plait {

namespace {

// What the * of `pattern` stands for in `name`; nullopt: no match.
std::optional<std::string_view> match(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos)
    return pattern == name ? std::optional(std::string_view()) : std::nullopt;
  const std::string_view head = pattern.substr(0, star), tail = pattern.substr(star + 1);
  if (name.size() < head.size() + tail.size() || !name.starts_with(head) || !name.ends_with(tail))
    return std::nullopt;
  return name.substr(head.size(), name.size() - head.size() - tail.size());
}

}  // namespace

std::string NameRules::fault(std::string_view rule) {
  const size_t equals = rule.find('=');
  if (equals == std::string_view::npos) return "has no '='";
  const std::string_view ours = trim(rule.substr(0, equals)),
                         theirs = trim(rule.substr(equals + 1));
  if (ours.empty() || theirs.empty()) return "lacks a name beside '='";
  if (theirs.find('=') != std::string_view::npos) return "has more than one '='";
  const auto stars = [](std::string_view s) { return std::count(s.begin(), s.end(), '*'); };
  if (stars(ours) > 1 || stars(theirs) > 1) return "has more than one '*' on a side";
  if (stars(ours) != stars(theirs)) return "has a '*' on one side only";
  return "";
}

NameRules::NameRules(const std::vector<std::string>& rules) {
  for (const std::string& rule : rules) {
    if (const std::string wrong = fault(rule); !wrong.empty())
      fail_invalid("[names] the rule '" + printable(rule) + "' " + wrong +
                   "; write OURS=THEIRS, for instance 'model.linear*=fc*'");
    const size_t equals = rule.find('=');
    const std::string_view text(rule);
    rules_.push_back(
        {std::string(trim(text.substr(0, equals))), std::string(trim(text.substr(equals + 1)))});
  }
}

std::optional<std::string> NameRules::find(std::initializer_list<std::string_view> names) const {
  for (const Rule& rule : rules_)
    for (const std::string_view name : names) {
      const auto part = match(rule.ours, name);
      if (!part) continue;
      std::string other = rule.theirs;
      if (const size_t star = other.find('*'); star != std::string::npos)
        other.replace(star, 1, *part);
      return other;
    }
  return std::nullopt;
}

}  // namespace plait
