#include "bindings/cli/sweep/trials.hpp"

#include <algorithm>
#include <limits>
#include <random>
#include <set>

#include "bindings/cli/context.hpp"

namespace plait::cli {
namespace {

// Splits at commas that stand outside of brackets and quotes.
std::vector<std::string> split_values(std::string_view text) {
  std::vector<std::string> values{""};
  int depth = 0;
  char quote = 0;
  for (const char c : text) {
    if (quote) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth <= 0) {
      values.emplace_back();
      continue;
    }
    values.back() += c;
  }
  return values;
}

std::vector<std::string> combination(const std::vector<SweepAxis>& axes, uint64_t index) {
  std::vector<std::string> overrides(axes.size());
  for (size_t i = axes.size(); i-- > 0;) {
    const auto& values = axes[i].values;
    overrides[i] = axes[i].key + "=" + values[index % values.size()];
    index /= values.size();
  }
  return overrides;
}

}  // namespace

SweepSpace sweep_space(const std::vector<std::string>& words) {
  SweepSpace space{words, {}};
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const size_t equals = word.find('=');
    if (equals == std::string::npos) continue;  // "~key", which removes one
    std::vector<std::string> values = split_values(std::string_view(word).substr(equals + 1));
    if (values.size() < 2) continue;
    const std::string key = word.substr(0, equals);
    if (std::find(values.begin(), values.end(), "") != values.end())
      throw CliError(kUsage, "[cli] '" + word + "' has an empty value; write " + key + "=A,B");
    for (const SweepAxis& axis : space.axes)
      if (axis.key == key)
        throw CliError(kUsage,
                       "[cli] '" + key + "' has several values twice; give all in one word");
    space.axes.push_back({key, std::move(values), i});
  }
  return space;
}

uint64_t combinations(const std::vector<SweepAxis>& axes) {
  uint64_t n = 1;
  for (const SweepAxis& axis : axes) {
    if (n > std::numeric_limits<uint64_t>::max() / axis.values.size())
      return std::numeric_limits<uint64_t>::max();
    n *= axis.values.size();
  }
  return n;
}

std::vector<std::string> words_of(const SweepSpace& space, const std::vector<std::string>& trial) {
  std::vector<std::string> words = space.words;
  for (size_t i = 0; i < trial.size(); ++i) words[space.axes[i].word] = trial[i];
  return words;
}

std::vector<std::vector<std::string>> grid_trials(const std::vector<SweepAxis>& axes) {
  std::vector<std::vector<std::string>> trials;
  const uint64_t n = combinations(axes);
  for (uint64_t i = 0; i < n; ++i) trials.push_back(combination(axes, i));
  return trials;
}

std::vector<std::vector<std::string>> random_trials(const std::vector<SweepAxis>& axes,
                                                    uint64_t count, uint64_t seed) {
  const uint64_t n = combinations(axes);
  if (count >= n) return grid_trials(axes);
  std::vector<std::vector<std::string>> trials;
  std::set<uint64_t> drawn;
  // Not std::uniform_int_distribution, whose draws differ between standard libraries; nor a plain
  // remainder, which prefers small indices.
  for (std::mt19937_64 words(seed); trials.size() < count;) {
    const uint64_t word = words(), most = std::numeric_limits<uint64_t>::max() / n * n;
    if (word >= most || !drawn.insert(word % n).second) continue;
    trials.push_back(combination(axes, word % n));
  }
  return trials;
}

std::vector<int64_t> halving_rounds(uint64_t trials, int64_t steps) {
  std::vector<int64_t> ends{steps};
  for (uint64_t left = trials; left > 1 && ends.back() > 1; left = (left + 1) / 2)
    ends.push_back(ends.back() / 2);
  std::reverse(ends.begin(), ends.end());
  return ends;
}

}  // namespace plait::cli
