#include "engine/program/text/number.hpp"

#include <charconv>
#include <limits>

namespace plait::program::text_form {
namespace {

template <class Number>
Number read(Lexer& lexer, const std::string& digits, const Token& token, const char* expected) {
  Number n{};
  const char* end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, n);
  if (error != std::errc() || at != end)
    lexer.fail_at(token, "found '" + digits + "', expected " + expected);
  return n;
}

}  // namespace

double real_of(Lexer& lexer) {
  const Token t = lexer.peek();
  if (lexer.accept_word("inf")) return std::numeric_limits<double>::infinity();
  if (lexer.accept_word("nan")) return std::numeric_limits<double>::quiet_NaN();
  const Token number = lexer.expect(Token::Kind::kNumber, "a number");
  return read<double>(lexer, number.text, t, "a number that a double can hold");
}

uint64_t unsigned_of(Lexer& lexer, const std::string& expected) {
  const Token t = lexer.expect(Token::Kind::kNumber, expected);
  return read<uint64_t>(lexer, t.text, t, "an integer of 64 bits");
}

int64_t integer_of(Lexer& lexer, const std::string& expected) {
  const Token first = lexer.peek();
  const bool negative = lexer.accept_mark('-');
  const Token t = lexer.expect(Token::Kind::kNumber, expected);
  return read<int64_t>(lexer, (negative ? "-" : "") + t.text, first, "an integer of 64 bits");
}

}  // namespace plait::program::text_form
