// A line of JSON Lines as fine-tuning data has them:
//   {"prompt": "...", "completion": "..."}
//   {"messages": [{"role": "system" | "user" | "assistant", "content": "..."}, ...]}
// An assistant's message, and a line with a completion, may have a "weight" of its loss: at least
// 0, 1 if there is none. Other keys count for nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plait::data::fine_tune {

struct Message {
  std::string role, text;
  double weight = 1;
};

struct Conversation {
  std::vector<Message> messages;  // with raw: the prompt as "user" and the completion
  bool raw = false;               // a prompt and a completion
};

inline constexpr size_t kLongestLine = size_t{64} << 20;
inline constexpr size_t kMostMessages = 10000;

// where: of the line, for messages: "[data.fine_tune] files 'a.jsonl', line 3". The line is UTF-8.
// Errors: PLAIT_ERR_DATA with the key, what is there and what was expected.
Conversation parse_line(const std::string& where, std::string_view line);

// The lines of a file, one after the other, without their ends; blank ones are left out.
class Lines {
 public:
  explicit Lines(std::string_view file);
  bool next(std::string_view& line);
  uint64_t number() const { return number_; }  // of the last line, from 1

 private:
  std::string_view rest_;
  uint64_t number_ = 0;
};

}  // namespace plait::data::fine_tune
