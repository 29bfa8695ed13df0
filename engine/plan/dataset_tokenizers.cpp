#include "engine/plan/dataset_tokenizers.hpp"

#include <optional>
#include <string>

#include "engine/base/error.hpp"
#include "engine/base/hash.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace plait::plan {
namespace {

constexpr uint64_t kMostTexts = 1 << 18;  // of a plugin that never ends

struct Made {
  std::string fingerprint, by, type;  // by: for messages; type: "" is not known
};

std::vector<Made> made_by(const Dataset& d) {
  std::vector<Made> all;
  for (uint64_t i = 0; i < kMostTexts; i += 2) {
    const char* fingerprint = d.text_of(0, PLAIT_TEXT_TOKENIZER, i);
    const char* by = d.text_of(0, PLAIT_TEXT_TOKENIZER, i + 1);
    if (!fingerprint || !by) break;
    const char* type = d.text_of(0, PLAIT_TEXT_TOKENIZER_TYPE, i / 2);
    all.push_back({fingerprint, by, type ? type : ""});
  }
  return all;
}

// [tokenizer] of the experiment.
std::optional<Made> of_model(const config::ItemConfig& config,
                             const std::shared_ptr<const plugin::Registry>& registry, Log* log) {
  try {
    const tokenizer::Tokenizer opened(config, registry);
    std::string by = "[tokenizer] is '" + config.type + "'";
    for (const config::GivenPath& path : config.options.paths())
      by += " of '" + path.resolved + "'";
    return Made{hex64(opened.info().fingerprint), std::move(by), config.type};
  } catch (const Error& e) {
    if (e.code() == PLAIT_ERR_MEMORY) throw;
    if (log)
      log->warn(
          "[plan] [tokenizer] cannot be opened, so the tokens of datasets are not compared "
          "with it: " +
          e.full_text());
    return std::nullopt;
  }
}

}  // namespace

void check_tokenizers(const config::Experiment& experiment,
                      const std::vector<std::shared_ptr<const Dataset>>& datasets,
                      const std::shared_ptr<const plugin::Registry>& registry, Log* log,
                      config::Problems& problems) {
  std::optional<Made> expected;
  bool looked = false;
  for (const auto& dataset : datasets) {
    const config::DatasetConfig& config = *experiment.dataset(dataset->name());
    for (const Made& made : made_by(*dataset)) {
      if (!looked && experiment.tokenizer)
        expected = of_model(*experiment.tokenizer, registry, log);
      looked = true;
      if (!expected) {
        expected = made;
        expected->by = config.path + " has ids of tokenizer " + made.by;
      }
      if (made.fingerprint == expected->fingerprint) continue;
      const std::string found = "its ids are of tokenizer " + made.by + " (fingerprint " +
                                made.fingerprint + "), and " + expected->by + " (" +
                                expected->fingerprint + ")";
      // As an exported tokenizer, which may have the same ids.
      if (made.type.empty() || made.type != expected->type) {
        if (log)
          log->warn(config.origin.text() + ": " + config.path + ": " + found +
                    ", a tokenizer of another type: make sure that an id is the same text in both");
        break;
      }
      problems.add(config.origin, config.path, found + ": an id is another text in them",
                   "make the tokens with the tokenizer of the model; if ids are known to be the "
                   "same, as after tokens were added, remove the .json file beside the tokens, or "
                   "name one file as both tokenizers");
      break;
    }
  }
}

}  // namespace plait::plan
