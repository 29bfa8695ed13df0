#include "engine/program/text/lexer.hpp"

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"

namespace plait::program::text_form {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool starts_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool continues_word(char c) { return starts_word(c) || is_digit(c) || c == '.'; }

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

std::string described(const Token& t) {
  switch (t.kind) {
    case Token::Kind::kEnd:
      return "the end of the text";
    case Token::Kind::kValue:
      return "'%" + t.text + "'";
    case Token::Kind::kText:
      return quoted(t.text);
    default:
      return "'" + printable(t.text) + "'";
  }
}

}  // namespace

Lexer::Lexer(std::string_view text, std::string name) : text_(text), name_(std::move(name)) {
  advance();
}

void Lexer::step() {
  if (text_[at_] == '\n') {
    ++line_;
    column_ = 0;
  }
  ++column_;
  ++at_;
}

// Comments go from # to the end of the line.
void Lexer::skip_blanks() {
  while (at_ < text_.size()) {
    const char c = current();
    if (c == '#')
      while (at_ < text_.size() && current() != '\n') step();
    else if (c == ' ' || c == '\t' || c == '\r' || c == '\n')
      step();
    else
      return;
  }
}

void Lexer::advance() {
  skip_blanks();
  token_ = {};
  token_.line = line_;
  token_.column = column_;
  if (at_ >= text_.size()) return;
  const char c = current();
  const auto take_while = [&](auto&& wanted) {
    while (at_ < text_.size() && wanted(current())) {
      token_.text += current();
      step();
    }
  };
  if (c == '"') return read_quoted();
  if (starts_word(c)) {
    token_.kind = Token::Kind::kWord;
    take_while(continues_word);
  } else if (is_digit(c)) {
    token_.kind = Token::Kind::kNumber;
    // 1e-08: the sign of an exponent is part of the number.
    take_while([&](char d) {
      return continues_word(d) ||
             ((d == '-' || d == '+') && (token_.text.back() == 'e' || token_.text.back() == 'E'));
    });
  } else if (c == '%') {
    token_.kind = Token::Kind::kValue;
    step();
    take_while(is_digit);
    if (token_.text.empty()) fail_at(token_, "found '%', expected a value such as %12");
  } else {
    token_.kind = Token::Kind::kMark;
    token_.text = c;
    step();
  }
}

void Lexer::read_quoted() {
  token_.kind = Token::Kind::kText;
  step();
  for (;;) {
    const char c = current();
    if (at_ >= text_.size() || c == '\n')
      fail_at(token_, "found a text without an end, expected '\"' on the same line");
    step();
    if (c == '"') return;
    if (c != '\\') {
      token_.text += c;
      continue;
    }
    const char kind = current();
    if (at_ < text_.size()) step();
    if (kind == 'n') {
      token_.text += '\n';
    } else if (kind == 'x' && at_ + 1 < text_.size() && hex_value(text_[at_]) >= 0 &&
               hex_value(text_[at_ + 1]) >= 0) {
      token_.text += static_cast<char>(hex_value(text_[at_]) * 16 + hex_value(text_[at_ + 1]));
      step();
      step();
    } else if (kind == '"' || kind == '\\') {
      token_.text += kind;
    } else {
      fail_at(token_, "found a '\\' in a text, expected \\\", \\\\, \\n or \\xNN");
    }
  }
}

Token Lexer::take() {
  Token t = token_;
  advance();
  return t;
}

bool Lexer::at_mark(char mark) const {
  return token_.kind == Token::Kind::kMark && token_.text[0] == mark;
}

bool Lexer::at_word(std::string_view word) const {
  return token_.kind == Token::Kind::kWord && token_.text == word;
}

bool Lexer::accept_mark(char mark) {
  const bool there = at_mark(mark);
  if (there) advance();
  return there;
}

bool Lexer::accept_word(std::string_view word) {
  const bool there = at_word(word);
  if (there) advance();
  return there;
}

void Lexer::expect_mark(char mark) {
  if (!accept_mark(mark)) fail_expected(std::string("'") + mark + "'");
}

Token Lexer::expect(Token::Kind kind, const std::string& expected) {
  if (token_.kind != kind) fail_expected(expected);
  return take();
}

void Lexer::fail_expected(const std::string& expected) const {
  fail_at(token_, "found " + described(token_) + ", expected " + expected);
}

void Lexer::fail_at(const Token& token, const std::string& what) const {
  fail_invalid("[program] " + name_ + strf(":%d:%d: ", token.line, token.column) + what);
}

std::string quoted(std::string_view text) {
  std::string all = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      all += std::string("\\") + c;
    else if (c == '\n')
      all += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      all += strf("\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    else
      all += c;
  }
  return all + "\"";
}

bool is_word(std::string_view text) {
  if (text.empty() || !starts_word(text[0])) return false;
  for (const char c : text)
    if (!continues_word(c)) return false;
  return true;
}

}  // namespace plait::program::text_form
