// The experiment of a model that was read from a folder.
#pragma once

#include <string>
#include <vector>

#include "plugins/formats/hf/model.hpp"

namespace plait::hf {

// What generation needs of a folder, besides the model.
struct Speech {
  std::string tokenizer, file;  // item and file of the folder; "": none
  std::vector<int64_t> end;     // eos_token_id; empty: the tokenizer's
  std::string chat_template;    // "": not known
};

// The text of experiment.toml: the model, with the key of config.json behind each value, and what
// is left for the reader to fill in. folder: where the model was.
std::string experiment_toml(const Model& model, const std::string& folder,
                            const Speech& speech = {});

}  // namespace plait::hf
