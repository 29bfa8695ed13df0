// Conversations as token ids, each with the weight of its loss.
#pragma once

#include <plait/plugin.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "kit/chat.hpp"
#include "plugins/data/fine_tune/conversation.hpp"

namespace plait::data::fine_tune {

struct Example {
  std::vector<int32_t> ids;
  std::vector<float> weights;  // as many; 0: the token is not learned
};

// Any thread, several at a time.
class Encoder {
 public:
  // format: nullptr: prompts and completions only, as they are written. plain: special tokens that
  // a prompt or a completion writes are ordinary text; in messages they always are.
  Encoder(const HostTokenizer& tokenizer, const kit::ChatTemplate* format, bool plain);

  // What ends a turn in the template, if the tokenizer has no special token for it; else "".
  std::string end_written_as_text() const;
  // What is learned: the texts of the assistant and the token that ends each of them, the first one
  // if there are more. Errors: PLAIT_ERR_DATA for a conversation that the template cannot express,
  // after `where`; those of the tokenizer.
  Example encode(const std::string& where, const Conversation& conversation) const;

 private:
  std::vector<int32_t> ids_of(std::span<const kit::ChatPiece> pieces) const;
  std::vector<int32_t> ids_of(const std::string& raw) const;
  Example encode_raw(const Conversation& conversation) const;
  Example encode_chat(const std::string& where, const Conversation& conversation) const;
  bool ends(int32_t id) const;

  const HostTokenizer& tokenizer_;
  const kit::ChatTemplate* format_;
  bool plain_;
  kit::SpecialTexts specials_;
  std::string begin_, end_;       // of a text, for the template
  std::vector<int32_t> end_ids_;  // the tokens that end a text
};

}  // namespace plait::data::fine_tune
