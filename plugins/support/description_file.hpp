// Files that describe a model or its tokens and are read as a whole: config.json, tokenizer.json,
// .model files and the like.
#pragma once

#include "plugins/support/file_bytes.hpp"

namespace plait::support {

// Several times as large as any such file that is known; one that is larger is a mistake or an
// attack, which would fill the memory.
inline constexpr uint64_t kMaxDescriptionBytes = 256u << 20;

// Reads the whole file. Errors: those of read_file(); PLAIT_ERR_DATA for a file above the limit, of
// which nothing is read.
inline Bytes read_description(const SourceFile& source) {
  struct stat s {};
  if (::stat(source.path.c_str(), &s) == 0 && S_ISREG(s.st_mode) &&
      static_cast<uint64_t>(s.st_size) > kMaxDescriptionBytes)
    fail(PLAIT_ERR_DATA, source.text() + ": it has " + std::to_string(s.st_size) +
                             " bytes, expected at most " + std::to_string(kMaxDescriptionBytes) +
                             "; is it the file that its name says?");
  return read_file(source);
}

}  // namespace plait::support
