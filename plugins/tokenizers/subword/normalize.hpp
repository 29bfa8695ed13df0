// What is done to a text before it is cut into words.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/tokenizers/subword/regex.hpp"

namespace plait::subword {

enum class Form { kNfc, kNfd, kNfkc, kNfkd };

// One step. [thread: any]
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Changes `text`, which is and stays valid UTF-8. Errors: PatternError.
  virtual void apply(std::string& text) const = 0;
};
using NormalizerPtr = std::unique_ptr<const Normalizer>;

NormalizerPtr normal_form(Form form);
NormalizerPtr lowercase();
NormalizerPtr strip_spaces(bool left, bool right);
NormalizerPtr strip_accents();            // removes all marks
NormalizerPtr prepend(std::string text);  // to a text that is not empty
NormalizerPtr replace(Regex pattern, std::string by);
NormalizerPtr in_order(std::vector<NormalizerPtr> steps);

// Replaces each match, one after the other. Matches of nothing are left alone.
void replace_all(const Regex& pattern, std::string_view by, std::string& text);

}  // namespace plait::subword
