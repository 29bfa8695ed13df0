// How the texts of tokens become text again, step by step.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/tokenizers/subword/normalize.hpp"

namespace plait::subword {

using Texts = std::vector<std::string>;

// One step. [thread: any]
class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual void apply(Texts& tokens) const = 0;
};
using DecoderPtr = std::unique_ptr<const Decoder>;

DecoderPtr decode_stand_ins();    // characters that stand for bytes; see byte_of()
DecoderPtr decode_byte_tokens();  // <0x41> is the byte 0x41
DecoderPtr decode_marks(std::string mark, bool first_is_no_space);
DecoderPtr decode_suffix(std::string suffix);  // ends a word
DecoderPtr decode_replace(Regex pattern, std::string by);
DecoderPtr decode_strip(std::string character, size_t start, size_t stop);  // of each token
DecoderPtr decode_fuse();                                                   // to one text
DecoderPtr decode_spaces();                                                 // one between tokens

// The byte that a character of GPT-2's byte-level alphabet stands for, or -1.
int byte_of(char32_t code);
// The bytes that a text of such characters stands for. False: it has another character.
bool bytes_of(std::string_view text, std::string& bytes);

}  // namespace plait::subword
