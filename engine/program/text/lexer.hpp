// Tokens of the text form of programs (print.hpp).
#pragma once

#include <string>
#include <string_view>

namespace plait::program::text_form {

struct Token {
  enum class Kind {
    kEnd,
    kWord,    // persistent, f32, model.fc1, x0
    kNumber,  // without a sign: 12, 0.5, 1e-08
    kText,    // in quotes; `text` is without them
    kValue,   // %12; `text` is "12"
    kMark,    // one character
  };
  Kind kind = Kind::kEnd;
  std::string text;
  int line = 1, column = 1;  // of its first character, from 1
};

// One token ahead. Every error is PLAIT_ERR_INVALID: "[program] NAME:LINE:COLUMN: found ..,
// expected ..".
class Lexer {
 public:
  // `text` outlives it. name: what it was read from, for messages.
  Lexer(std::string_view text, std::string name);
  const Token& peek() const { return token_; }
  Token take();
  bool at_mark(char mark) const;
  bool at_word(std::string_view word) const;
  // Takes the token if it is that one.
  bool accept_mark(char mark);
  bool accept_word(std::string_view word);
  // Takes it, or fails.
  void expect_mark(char mark);
  // expected: how the message calls it.
  Token expect(Token::Kind kind, const std::string& expected);
  [[noreturn]] void fail_expected(const std::string& expected) const;
  [[noreturn]] void fail_at(const Token& token, const std::string& what) const;

 private:
  void advance();
  char current() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void step();
  void skip_blanks();
  void read_quoted();

  std::string_view text_;
  std::string name_;
  size_t at_ = 0;
  int line_ = 1, column_ = 1;
  Token token_;
};

// In quotes, with \", \\, \n and \xNN for what a line of text cannot hold.
std::string quoted(std::string_view text);
// Whether it reads back as one word without quotes.
bool is_word(std::string_view text);

}  // namespace plait::program::text_form
