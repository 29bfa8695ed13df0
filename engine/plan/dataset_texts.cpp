#include "engine/plan/dataset_texts.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "engine/base/text.hpp"
#include "kit/dataset_texts.hpp"

namespace plait::plan {
namespace {

std::string name_of(const Dataset& d) { return "[data." + d.name() + "]"; }

void check_numbers(const config::DatasetConfig& config, const Dataset& own, const Dataset& other,
                   config::Problems& problems) {
  const auto texts = [](const Dataset& d, uint32_t field) {
    return kit::FieldTexts{name_of(d), [&d, field](uint32_t what, uint64_t index) {
                             return d.text_of(field, what, index);
                           }};
  };
  for (uint32_t i = 0; i < own.info().n_fields; ++i)
    for (uint32_t k = 0; k < other.info().n_fields; ++k) {
      const plait_field& field = own.info().fields[i];
      if (std::strcmp(field.name, other.info().fields[k].name) != 0) continue;
      const std::string fault = kit::contradiction(field, texts(own, i), texts(other, k));
      if (fault.empty()) continue;
      problems.add(config.origin, config.path, fault,
                   std::string("a number has to stand for the same in both: ") + kit::kSameNumbers);
    }
}

constexpr size_t kMostPartTexts = 1 << 18;  // of a plugin that never ends

struct Part {
  std::string whole, how, name;
};

// What a dataset is a part of, or is made of parts of.
std::vector<Part> parts_of(const Dataset& d) {
  std::vector<std::string> texts;
  for (const char* text; texts.size() < kMostPartTexts &&
                         (text = d.text_of(0, PLAIT_TEXT_PART, texts.size())) != nullptr;)
    texts.emplace_back(text);
  std::vector<Part> parts;
  for (size_t i = 0; i + 3 <= texts.size(); i += 3)
    parts.push_back({texts[i], texts[i + 1], texts[i + 2]});
  return parts;
}

// Each line is a name of the samples, and one that two parts share is enough.
bool same_samples(const std::string& whole, const std::string& other) {
  const std::vector<std::string> names = split(whole, '\n'), others = split(other, '\n');
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return !name.empty() && std::find(others.begin(), others.end(), name) != others.end();
  });
}

// One problem of a dataset is enough: the others have the same reason.
void check_parts(const config::DatasetConfig& config, const Dataset& own, const Dataset& other,
                 config::Problems& problems) {
  const std::vector<Part> theirs = parts_of(other);
  for (const Part& mine : parts_of(own))
    for (const Part& its : theirs) {
      if (mine.name == its.name || mine.how == its.how) continue;
      if (!same_samples(mine.whole, its.whole)) continue;
      problems.add(config.origin, config.path,
                   "is part \"" + mine.name + "\" by " + mine.how + ", and " + name_of(other) +
                       " part \"" + its.name + "\" of the same samples by " + its.how +
                       ": a sample may be in both",
                   "give both sections the same of these keys");
      return;
    }
}

}  // namespace

void check_texts(const config::Experiment& experiment,
                 const std::vector<std::shared_ptr<const Dataset>>& datasets,
                 config::Problems& problems) {
  const auto is_train = [](const auto& d) { return d->name() == "train"; };
  const auto train = std::find_if(datasets.begin(), datasets.end(), is_train);
  for (size_t i = 0; i < datasets.size(); ++i) {
    const Dataset& own = *datasets[i];
    const Dataset& first = train == datasets.end() ? *datasets[0] : **train;
    const config::DatasetConfig& config = *experiment.dataset(own.name());
    if (&own != &first) check_numbers(config, own, first, problems);
    for (size_t k = 0; k < i; ++k) check_parts(config, own, *datasets[k], problems);
  }
}

}  // namespace plait::plan
