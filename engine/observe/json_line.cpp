#include "engine/observe/json_line.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

namespace plait::observe {

namespace {

// By byte: whether a string has it as it is. Names are most of a line, and a table is read faster
// than each byte is compared with three values.
constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> plain{};
  for (size_t c = 0x20; c < plain.size(); ++c) plain[c] = c != '"' && c != '\\';
  return plain;
}();

}  // namespace

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

void JsonLine::put(char c) {
  if (full_ || size_ == capacity_)
    full_ = true;
  else
    data_[size_++] = c;
}

template <class Number>
void JsonLine::digits(Number number) {
  char* const from = data_.get() + size_;
  const auto [end, error] = std::to_chars(from, data_.get() + capacity_, number);
  if (full_ || error != std::errc())
    full_ = true;
  else
    size_ += static_cast<size_t>(end - from);
}

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
    if (kPlain[c]) continue;
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

void JsonLine::value(int64_t number) { digits(number); }

void JsonLine::value(double number) {
  if (std::isnan(number)) return put("\"nan\"");
  if (std::isinf(number)) return put(number > 0 ? "\"inf\"" : "\"-inf\"");
  digits(number);
}

void JsonLine::value(float number) {
  if (!std::isfinite(number)) return value(static_cast<double>(number));
  digits(number);
}

void JsonLine::measured(std::string_view name, double number) {
  constexpr int kDecimals = 6;
  // Below kMost the millionths are exact in a double.
  constexpr double kScale = 1e6, kLeast = 1e-3, kMost = 4e9;
  if (!(number >= kLeast && number < kMost)) return field(name, number);
  key(name);
  auto rest = static_cast<int64_t>(number * kScale + 0.5);
  char text[24];
  char* at = text + sizeof text;
  bool any = false;  // zeros at the end are left out
  for (int i = 0; i < kDecimals; ++i, rest /= 10) {
    any = any || rest % 10 != 0;
    if (any) *--at = static_cast<char>('0' + rest % 10);
  }
  if (any) *--at = '.';
  do *--at = static_cast<char>('0' + rest % 10);
  while (rest /= 10);
  put(std::string_view(at, static_cast<size_t>(text + sizeof text - at)));
}

void JsonLine::value(bool flag) { put(flag ? "true" : "false"); }

void JsonLine::end_line() { put('\n'); }

}  // namespace plait::observe
