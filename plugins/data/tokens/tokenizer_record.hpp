// What PATH.json says of the tokenizer that made the tokens of PATH.bin.
#pragma once

#include <cstdint>
#include <string>

namespace plait::data::tokens {

struct TokenizerRecord {
  std::string fingerprint;  // of plait_tokenizer_info, 16 hexadecimal digits; "": not known
  std::string type;         // "hf"
  std::string described;    // its type, and the file that says so, for messages
};

// tokens: in PATH.bin. `plait data tokenize` writes the file; Megatron-LM and others do not, so one
// that is not there, is of something else, or counts other tokens says nothing, and is no error.
TokenizerRecord read_tokenizer_record(const std::string& path, int64_t tokens);

}  // namespace plait::data::tokens
