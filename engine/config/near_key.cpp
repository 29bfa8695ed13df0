#include "engine/config/near_key.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"

namespace plait::config {
namespace {

bool has_initials(const std::string& key, std::string_view letters) {
  const std::vector<std::string> words = split(key, '_');
  return words.size() > 1 && words.size() == letters.size() &&
         std::equal(words.begin(), words.end(), letters.begin(),
                    [](const std::string& w, char c) { return !w.empty() && w[0] == c; });
}

// "grad" and "gradient" are the same word.
bool same_word(std::string_view a, std::string_view b) {
  constexpr size_t kShortest = 4;
  if (a == b) return true;
  return std::min(a.size(), b.size()) >= kShortest && (a.starts_with(b) || b.starts_with(a));
}

// Words of both, of the words that one or the other has.
double shared_words(const std::string& a, const std::string& b) {
  const std::vector<std::string> left = split(a, '_'), right = split(b, '_');
  const auto shared = std::count_if(left.begin(), left.end(), [&](const std::string& word) {
    return std::any_of(right.begin(), right.end(),
                       [&](const std::string& other) { return same_word(word, other); });
  });
  const double all = static_cast<double>(left.size() + right.size()) - static_cast<double>(shared);
  return all > 0 ? static_cast<double>(shared) / all : 0;
}

}  // namespace

std::string near_key(const std::string& key, std::span<const std::string> known) {
  for (const std::string& k : known)
    if (has_initials(k, key)) return k;
  // A key as short as the distance may share no letter with what is near it.
  if (std::string near = nearest(key, known);
      !near.empty() && edit_distance(key, near) < std::min(key.size(), near.size()))
    return near;
  constexpr double kLeast = 0.5;
  std::string best;
  double most = 0;
  for (const std::string& k : known)
    if (const double share = shared_words(key, k); share >= kLeast && share > most) {
      best = k;
      most = share;
    }
  return best;
}

}  // namespace plait::config
