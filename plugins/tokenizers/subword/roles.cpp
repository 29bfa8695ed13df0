#include "plugins/tokenizers/subword/roles.hpp"

#include <algorithm>

namespace plait::subword {
namespace {
bool has_special(const Parts& parts, std::string_view text) {
  return std::any_of(parts.added.begin(), parts.added.end(),
                     [&](const AddedToken& t) { return t.special && t.text == text; });
}
std::string special_texts(const Parts& parts) {
  constexpr size_t kEnough = 200;
  std::string all;
  for (const AddedToken& token : parts.added)
    if (token.special && all.size() < kEnough) all += (all.empty() ? "" : ", ") + token.text;
  return all.empty() ? "there are none" : all;
}
}  // namespace

bool has_role(const Parts& parts, uint32_t role) {
  return std::any_of(parts.roles.begin(), parts.roles.end(),
                     [&](const auto& r) { return r.second == role; });
}

void add_given_roles(Parts& parts, const Options& options) {
  constexpr uint32_t kRoles[] = {PLAIT_TOKEN_BEGIN, PLAIT_TOKEN_END, PLAIT_TOKEN_PAD};
  static_assert(std::size(kRoles) == kRoleOptions.size());
  for (size_t i = 0; i < kRoleOptions.size(); ++i) {
    const std::string text(options.text(kRoleOptions[i].name));
    if (text.empty()) continue;
    if (!has_special(parts, text))
      fail(PLAIT_ERR_CONFIG, "[" + parts.who + "] " + kRoleOptions[i].name + " = '" + text +
                                 "' is none of the special tokens: " + special_texts(parts));
    parts.roles.emplace_back(text, kRoles[i]);
  }
}

void add_customary_end(Parts& parts) {
  for (const std::string_view end : kCustomaryEnds)
    if (has_special(parts, end) && !has_role(parts, PLAIT_TOKEN_END))
      parts.roles.emplace_back(end, PLAIT_TOKEN_END);
}

}  // namespace plait::subword
