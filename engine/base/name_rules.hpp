// Rules that give tensors other names: "OURS=THEIRS", with at most one * on each side.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plait {

class NameRules {
 public:
  NameRules() = default;
  // Errors: PLAIT_ERR_INVALID naming the rule.
  explicit NameRules(const std::vector<std::string>& rules);

  // The fault of a rule: "has no '='"; "" if there is none.
  static std::string fault(std::string_view rule);

  // The other name by the first rule that matches one of the names of a tensor, which are tried in
  // order; nullopt if none does.
  std::optional<std::string> find(std::initializer_list<std::string_view> names) const;

 private:
  struct Rule {
    std::string ours, theirs;
  };
  std::vector<Rule> rules_;
};

}  // namespace plait
