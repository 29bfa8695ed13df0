#include "engine/plan/dataset_texts.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>

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

// What was divided, how, and which part it is.
std::optional<std::array<std::string, 3>> part_of(const Dataset& d) {
  std::array<std::string, 3> texts;
  for (uint64_t i = 0; i < texts.size(); ++i) {
    const char* text = d.text_of(0, PLAIT_TEXT_PART, i);
    if (!text) return std::nullopt;
    texts[i] = text;
  }
  return texts;
}

void check_parts(const config::DatasetConfig& config, const Dataset& own, const Dataset& other,
                 config::Problems& problems) {
  const auto mine = part_of(own), its = part_of(other);
  if (!mine || !its) return;
  const bool same = (*mine)[0] == (*its)[0] && (*mine)[2] != (*its)[2];
  if (!same || (*mine)[1] == (*its)[1]) return;
  problems.add(config.origin, config.path,
               "is part \"" + (*mine)[2] + "\" by " + (*mine)[1] + ", and " + name_of(other) +
                   " part \"" + (*its)[2] + "\" of the same samples by " + (*its)[1] +
                   ": a sample may be in both",
               "give both sections the same of these keys");
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
