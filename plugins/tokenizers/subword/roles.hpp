// Which special tokens begin and end a text.
#pragma once

#include <array>

#include "plugins/tokenizers/subword/tokenizer.hpp"

namespace plait::subword {

// The options that name special tokens. Tokenizers of this plugin have them behind their own.
inline constexpr std::array kRoleOptions = {
    opt_text("begin", "\"\"", "special token that begins a text; default: as the files say"),
    opt_text("end", "\"\"", "special token that ends a text; default: as the files say"),
    opt_text("pad", "\"\"", "special token that fills a batch; default: as the files say"),
};
// Special tokens that end a text by the custom of their models.
inline constexpr std::array<std::string_view, 5> kCustomaryEnds = {
    "<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>", "<|im_end|>"};

inline AddedToken special_token(int32_t id, std::string_view text) {
  return {id, std::string(text), true, false, false, false, false};
}
bool has_role(const Parts& parts, uint32_t role);
// Errors: PLAIT_ERR_CONFIG for an option that names no special token.
void add_given_roles(Parts& parts, const Options& options);
void add_customary_end(Parts& parts);  // if none ends a text

}  // namespace plait::subword
