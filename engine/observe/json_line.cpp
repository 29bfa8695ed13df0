#include "engine/observe/json_line.hpp"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>

namespace plait::observe {

namespace {

// A table is read faster than each byte is compared with three values.
constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> plain{};
  for (size_t c = 0; c < plain.size(); ++c) plain[c] = is_plain(static_cast<unsigned char>(c));
  return plain;
}();

// The text of a number that JSON can't hold; empty for the others.
std::string_view not_finite(double number) {
  if (std::isnan(number)) return "\"nan\"";
  if (std::isinf(number)) return number > 0 ? "\"inf\"" : "\"-inf\"";
  return {};
}

}  // namespace

const NumberText& NumberText::of(double number) {
  const auto bits = std::bit_cast<uint64_t>(number);
  if (bits == bits_) return *this;
  bits_ = bits;
  if (const std::string_view text = not_finite(number); !text.empty())
    size_ = text.copy(text_, sizeof text_);
  else
    size_ = static_cast<size_t>(std::to_chars(text_, text_ + sizeof text_, number).ptr - text_);
  return *this;
}

JsonLine::JsonLine(size_t capacity)
    : data_(std::make_unique<char[]>(capacity)), capacity_(capacity) {}

void JsonLine::return_to(const Mark& mark) {
  size_ = mark.size;
  comma_ = mark.comma;
  full_ = mark.full;
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

void JsonLine::escaped_key(std::string_view name) {
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
  if (const std::string_view text = not_finite(number); !text.empty()) return put(text);
  digits(number);
}

void JsonLine::value(float number) {
  if (!std::isfinite(number)) return value(static_cast<double>(number));
  digits(number);
}

void JsonLine::measured(PlainName name, double number) {
  constexpr size_t kDecimals = 6;
  // Below kMost the millionths are exact in a double, and the whole part has 32 bits.
  constexpr double kLeast = 1e-3, kMost = 4e9;
  constexpr int64_t kScale = 1'000'000;
  if (!(number >= kLeast && number < kMost)) return field(name, number);
  key(name);
  const auto scaled = static_cast<int64_t>(number * static_cast<double>(kScale) + 0.5);
  digits(static_cast<uint32_t>(scaled / kScale));
  auto rest = static_cast<uint32_t>(scaled % kScale);
  if (rest == 0) return;
  char text[1 + kDecimals];
  text[0] = '.';
  for (size_t i = kDecimals; i > 0; --i, rest /= 10) text[i] = static_cast<char>('0' + rest % 10);
  const std::string_view all(text, sizeof text);
  put(all.substr(0, all.find_last_not_of('0') + 1));
}

void JsonLine::value(bool flag) { put(flag ? "true" : "false"); }

void JsonLine::end_line() { put('\n'); }

}  // namespace plait::observe
