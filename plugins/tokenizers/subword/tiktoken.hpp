// Tokenizers from files of ranks, as the library tiktoken reads them.
#pragma once

#include "plugins/tokenizers/subword/roles.hpp"

namespace plait::subword {

inline constexpr std::array kTiktokenOptions = {
    opt_path("path", nullptr, "file of ranks: a token in base64 and its id a line"),
    opt_text(
        "encoding", "\"\"",
        "gpt2, r50k_base, p50k_base, cl100k_base, o200k_base: how text is cut, and the special "
        "tokens; default: as the file is called"),
    opt_text("pattern", "\"\"", "regular expression that cuts text, in place of encoding"),
    opt_texts("specials", "[]", "special tokens, TEXT or TEXT=ID; default: those of encoding"),
    kRoleOptions[0],
    kRoleOptions[1],
    kRoleOptions[2],
};

// Errors: as plait_tokenizer_item.open.
Parts read_tiktoken(const Options& options);

}  // namespace plait::subword
