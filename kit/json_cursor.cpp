#include "kit/json_cursor.hpp"

namespace plait::kit {
namespace {

// Length of the UTF-8 character at p, or 0 if it is invalid: no overlong forms, no surrogates,
// nothing beyond U+10FFFF.
size_t utf8_length(const char* text, size_t left) {
  const auto* p = reinterpret_cast<const uint8_t*>(text);
  const auto follows = [&](size_t i, uint8_t low, uint8_t high) {
    return i < left && p[i] >= low && p[i] <= high;
  };
  if (p[0] < 0x80) return 1;
  if (p[0] < 0xC2 || p[0] > 0xF4) return 0;
  if (p[0] < 0xE0) return follows(1, 0x80, 0xBF) ? 2 : 0;
  const uint8_t low = p[0] == 0xE0 ? 0xA0 : p[0] == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = p[0] == 0xED ? 0x9F : p[0] == 0xF4 ? 0x8F : 0xBF;
  if (!follows(1, low, high) || !follows(2, 0x80, 0xBF)) return 0;
  if (p[0] < 0xF0) return 3;
  return follows(3, 0x80, 0xBF) ? 4 : 0;
}

void append_utf8(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f)
      out += c;
    else
      out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return out;
}

JsonCursor::JsonCursor(const std::string& where, std::string_view text, uint64_t base)
    : where_(where), text_(text), base_(base) {
  while (at_ < text_.size()) {
    const size_t n = utf8_length(text_.data() + at_, text_.size() - at_);
    if (n == 0) bad("the header is not valid UTF-8 here");
    at_ += n;
  }
  at_ = 0;
}

void JsonCursor::bad(const std::string& text) const {
  throw Damaged(where_ + ", offset " + std::to_string(base_ + at_) + ": " + text +
                "; the header is damaged, or this is not a safetensors file: get it again");
}

std::string JsonCursor::subject() const {
  return std::string(before_) + printable(name_) + std::string(after_);
}

void JsonCursor::skip_blank() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
    ++at_;
}

bool JsonCursor::at_end() {
  skip_blank();
  return at_ == text_.size();
}

bool JsonCursor::accept(char c) {
  if (at_end() || text_[at_] != c) return false;
  ++at_;
  return true;
}

void JsonCursor::expect(char c) {
  if (accept(c)) return;
  const std::string found =
      at_ == text_.size() ? "the end of the header" : "'" + std::string(1, text_[at_]) + "'";
  bad(subject() + ": found " + found + ", expected '" + std::string(1, c) + "'");
}

uint64_t JsonCursor::whole_number() {
  skip_blank();
  const size_t begin = at_;
  uint64_t value = 0;
  while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
    const auto digit = static_cast<uint64_t>(text_[at_] - '0');
    if (__builtin_mul_overflow(value, uint64_t{10}, &value) ||
        __builtin_add_overflow(value, digit, &value))
      bad("a number does not fit 64 bits");
    ++at_;
  }
  if (at_ == begin) bad(subject() + ": expected a non-negative whole number");
  if (text_[begin] == '0' && at_ - begin > 1) bad("a number begins with 0");
  return value;
}

uint32_t JsonCursor::hex4() {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    const char c = at_ < text_.size() ? text_[at_] : '?';
    if (c >= '0' && c <= '9')
      value = value << 4 | static_cast<uint32_t>(c - '0');
    else if ((c | 32) >= 'a' && (c | 32) <= 'f')
      value = value << 4 | static_cast<uint32_t>((c | 32) - 'a' + 10);
    else
      bad("expected four hexadecimal digits after \\u");
  }
  return value;
}

void JsonCursor::read_escape(std::string& out) {
  const char c = at_ < text_.size() ? text_[at_++] : '?';
  constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
  if (const size_t i = kFrom.find(c); i != std::string_view::npos) {
    out += kTo[i];
    return;
  }
  if (c != 'u') bad("unknown escape in a string");
  uint32_t point = hex4();
  if (point >= 0xD800 && point < 0xDC00) {
    if (!text_.substr(at_).starts_with("\\u")) bad("half of a surrogate pair");
    at_ += 2;
    const uint32_t low = hex4();
    if (low < 0xDC00 || low > 0xDFFF) bad("half of a surrogate pair");
    point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
  } else if (point >= 0xDC00 && point < 0xE000) {
    bad("half of a surrogate pair");
  }
  append_utf8(out, point);
}

std::string JsonCursor::text(size_t max_bytes) {
  expect('"');
  std::string out;
  while (true) {
    if (at_ == text_.size()) bad("a string is never closed");
    const char c = text_[at_++];
    if (c == '"') return out;
    if (static_cast<unsigned char>(c) < 0x20) bad("a control character inside a string");
    if (c == '\\')
      read_escape(out);
    else
      out += c;
    if (out.size() > max_bytes)
      bad("a string of more than " + std::to_string(max_bytes) + " bytes");
  }
}

}  // namespace plait::kit
