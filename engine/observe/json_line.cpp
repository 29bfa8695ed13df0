#include "engine/observe/json_line.hpp"

#include <charconv>
#include <cmath>
#include <cstring>

namespace plait::observe {

JsonLine::JsonLine(size_t capacity)
    : data_(std::make_unique<char[]>(capacity)), capacity_(capacity) {}

void JsonLine::clear() {
  size_ = 0;
  full_ = comma_ = false;
}

void JsonLine::put(std::string_view text) {
  if (full_ || text.size() > capacity_ - size_) {
    full_ = true;
    return;
  }
  std::memcpy(data_.get() + size_, text.data(), text.size());
  size_ += text.size();
}

void JsonLine::put(char c) { put(std::string_view(&c, 1)); }

void JsonLine::open() {
  put('{');
  comma_ = false;
}

void JsonLine::close() {
  put('}');
  comma_ = true;
}

void JsonLine::key(std::string_view name) {
  if (comma_) put(',');
  quoted(name);
  put(':');
  comma_ = true;
}

// Runs of plain bytes are copied in one piece. Bytes are assumed to be UTF-8; control characters,
// quotes and backslashes are escaped.
void JsonLine::quoted(std::string_view text) {
  put('"');
  size_t from = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    put(text.substr(from, i - from));
    from = i + 1;
    if (c == '"' || c == '\\') {
      put('\\');
      put(static_cast<char>(c));
    } else if (c == '\n') {
      put("\\n");
    } else {
      constexpr char kDigits[] = "0123456789abcdef";
      const char escape[] = {'\\', 'u', '0', '0', kDigits[c >> 4], kDigits[c & 15]};
      put(std::string_view(escape, sizeof escape));
    }
  }
  put(text.substr(from));
  put('"');
}

void JsonLine::value(std::string_view text) { quoted(text); }

void JsonLine::value(int64_t number) {
  char text[24];
  const auto end = std::to_chars(text, text + sizeof text, number).ptr;
  put(std::string_view(text, static_cast<size_t>(end - text)));
}

void JsonLine::value(double number) {
  if (std::isnan(number)) return put("\"nan\"");
  if (std::isinf(number)) return put(number > 0 ? "\"inf\"" : "\"-inf\"");
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, number).ptr;
  put(std::string_view(text, static_cast<size_t>(end - text)));
}

void JsonLine::value(float number) {
  if (!std::isfinite(number)) return value(static_cast<double>(number));
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, number).ptr;
  put(std::string_view(text, static_cast<size_t>(end - text)));
}

void JsonLine::value(bool flag) { put(flag ? "true" : "false"); }

void JsonLine::end_line() { put('\n'); }

}  // namespace plait::observe
