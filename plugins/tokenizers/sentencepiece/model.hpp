// A tokenizer of the library SentencePiece.
#pragma once

#include <sentencepiece_processor.h>
#include <plait/plugin.hpp>

#include "plugins/support/file_bytes.hpp"

namespace plait::sentencepieces {

// [thread: any, after read()]
class Model {
 public:
  // The content of a .model file, once, before all else. Errors: PLAIT_ERR_DATA naming the file.
  void read(const support::SourceFile& file, std::span<const uint8_t> bytes);
  void info(plait_tokenizer_info& out) const;
  // Control tokens that are written in a text are ordinary text, with any flag: the model says so.
  void encode(std::string_view text, uint32_t flags, IdWriter& to) const;
  void decode(std::span<const int32_t> ids, uint32_t flags, BytesWriter& to) const;

 private:
  void add_special(int id);

  sentencepiece::SentencePieceProcessor processor_;
  std::vector<plait_special_token> specials_;
  uint64_t fingerprint_ = 0;
};

}  // namespace plait::sentencepieces
