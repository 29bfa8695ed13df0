// Tokenizers from the files of Hugging Face models.
#pragma once

#include "plugins/tokenizers/subword/roles.hpp"

namespace plait::subword {

inline constexpr std::array kHfOptions = {
    opt_path("path", nullptr,
             "folder of a model, its tokenizer.json, or its vocab.json with merges.txt beside it"),
    kRoleOptions[0],
    kRoleOptions[1],
    kRoleOptions[2],
};

// What a folder of a model, or one of its files, says: tokenizer.json, or vocab.json and
// merges.txt; which special tokens begin and end a text, from tokenizer_config.json beside it.
// Errors: as plait_tokenizer_item.open.
Parts read_hf(const Options& options);

}  // namespace plait::subword
