#include "engine/base/json.hpp"

#include <cmath>
#include <cstdio>

#include "engine/base/text.hpp"
#include "kit/utf8.hpp"

namespace plait {
namespace {

std::string escape(char c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\t':
      return "\\t";
    case '\r':
      return "\\r";
    default:
      return strf("\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
}

}  // namespace

std::string json_quote(std::string_view text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    const size_t n = kit::utf8_length(text, i);
    const char c = text[i];
    if (n == 0)
      out += kit::kReplacement;
    else if (n == 1 && (static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\' || c == 0x7f))
      out += escape(c);
    else
      out += text.substr(i, n);
    i += n == 0 ? 1 : n;
  }
  return out + "\"";
}

void JsonWriter::new_line() {
  if (pretty_) out_ += "\n" + std::string(static_cast<size_t>(depth_) * 2, ' ');
}

void JsonWriter::separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (depth_ == 0) return;
  if (!first_) out_ += pretty_ ? "," : ", ";
  new_line();
  first_ = false;
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  out_ += bracket;
  ++depth_;
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  --depth_;
  if (!first_) new_line();
  out_ += bracket;
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  out_ += json_quote(name) + ": ";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  out_ += json;
  return *this;
}

JsonWriter& JsonWriter::value(double v) {
  return std::isfinite(v) ? raw(real_text(v)) : value(std::string_view(real_text(v)));
}

}  // namespace plait
