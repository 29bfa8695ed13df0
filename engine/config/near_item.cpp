#include "engine/config/near_item.hpp"

#include <algorithm>
#include <cctype>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"

namespace plait::config {
namespace {

std::string lower(std::string_view text) {
  std::string small(text);
  std::ranges::transform(small, small.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return small;
}

bool has_word(const std::string& text, const std::string& word) {
  const auto inside = [&](size_t i) {
    return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i]));
  };
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1))
    if ((at == 0 || !inside(at - 1)) && !inside(at + word.size())) return true;
  return false;
}

// The only item that its help describes by this word.
std::string described_by(const std::string& word, std::string_view kind,
                         std::span<const std::string> names, const Catalog& catalog) {
  constexpr size_t kShortest = 3;
  std::string found;
  CatalogItem item;
  for (const std::string& name : names) {
    if (word.size() < kShortest || !catalog.find_item(kind, name, item) ||
        !has_word(lower(item.help), word))
      continue;
    if (!found.empty()) return "";
    found = name;
  }
  return found;
}

}  // namespace

std::string near_item(const std::string& name, std::string_view kind,
                      std::span<const std::string> names, const Catalog& catalog) {
  const std::string near = nearest(name, names), word = lower(name);
  if (!near.empty() && edit_distance(name, near) == 0) return near;
  if (const std::string item = described_by(word, kind, names, catalog); !item.empty()) return item;
  if (!near.empty()) return near;
  const std::string suffix = kind_word(kind);  // MSELoss
  return word.size() > suffix.size() && word.ends_with(suffix)
             ? nearest(name.substr(0, name.size() - suffix.size()), names)
             : "";
}

}  // namespace plait::config
