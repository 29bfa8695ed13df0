// Token ids as text, while they are drawn.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.hpp"

namespace plait::generate {

// The text of one sequence behind its prompt. Owner thread only.
class TextStream {
 public:
  // context: the last ids of the prompt, on which the text of the first token may depend (a space
  // between words). stop: texts that end the sequence; empty ones are ignored.
  TextStream(const tokenizer::Tokenizer& tokenizer, std::vector<int32_t> context,
             std::vector<std::string> stop);

  // Appends an id; returns the text that is complete by now, valid until the next call. Held back
  // are bytes of an incomplete character, and what a stop text may begin with.
  std::string_view push(int32_t id);
  // The sequence has ended: returns what was held back; nothing behind a stop text.
  std::string_view finish();
  // A stop text was found; the text before it has been returned.
  bool stopped() const { return stopped_; }

 private:
  std::string decoded(size_t from, size_t to) const;
  void hold(std::string_view text);  // made valid UTF-8
  std::string_view release(bool all);

  const tokenizer::Tokenizer& tokenizer_;
  std::vector<int32_t> ids_;  // context and what was pushed
  size_t window_ = 0;         // ids from here on are decoded together
  size_t read_ = 0;           // ids before this have become text
  std::vector<std::string> stop_;
  std::string held_, out_;
  bool stopped_ = false;
};

// The number of bytes at the end of `text` that may be the beginning of `stop`; less than its size.
size_t possible_beginning(std::string_view text, std::string_view stop);

}  // namespace plait::generate
