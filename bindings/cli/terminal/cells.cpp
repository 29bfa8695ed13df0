#include "bindings/cli/terminal/cells.hpp"

#include <wchar.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace plait::cli {

int32_t decode_utf8(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  const size_t size = first < 0x80             ? 1
                      : (first & 0xE0) == 0xC0 ? 2
                      : (first & 0xF0) == 0xE0 ? 3
                      : (first & 0xF8) == 0xF0 ? 4
                                               : 0;
  constexpr int32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (size == 0 || at + size > text.size()) return ++at, -1;
  int32_t code = size == 1 ? first : first & (0xFF >> (size + 1));
  for (size_t i = 1; i < size; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return ++at, -1;
    code = code << 6 | (byte(at + i) & 0x3F);
  }
  if (code < kLeast[size] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return ++at, -1;
  at += size;
  return code;
}

bool is_control(int32_t code) { return code < 0x20 || (code >= 0x7F && code < 0xA0); }

namespace {

// A letter with the columns that it takes.
struct Letter {
  std::string text;
  int columns;
};

std::vector<Letter> letters_of(std::string_view text, bool utf8) {
  std::vector<Letter> all;
  for (size_t at = 0; at < text.size();) {
    const size_t before = at;
    const int32_t code = decode_utf8(text, at);
    if (code < 0 || (code >= 0x80 && !utf8)) {
      all.push_back({"?", 1});
      continue;
    }
    // Format characters may turn the direction of what follows: they take no column either.
    const int columns = is_control(code) ? -1 : wcwidth(static_cast<wchar_t>(code));
    if (is_control(code))
      all.push_back({" ", 1});
    else if (columns < 0 || (columns == 0 && (code == 0xAD || (code >= 0x2000 && code < 0x2070))))
      all.push_back({"?", 1});
    else
      all.push_back({std::string(text.substr(before, at - before)), columns});
  }
  return all;
}

int sum(const std::vector<Letter>& letters) {
  int columns = 0;
  for (const Letter& letter : letters) columns += letter.columns;
  return columns;
}

// Most cells are plain ASCII: each byte is a letter of one column.
bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7F; });
}

}  // namespace

int columns_of(std::string_view text, bool utf8) {
  return is_plain(text) ? static_cast<int>(text.size()) : sum(letters_of(text, utf8));
}

std::string cell(std::string_view text, int columns, bool utf8, Cut cut) {
  if (columns <= 0) return "";
  if (static_cast<int>(text.size()) <= columns && is_plain(text)) return std::string(text);
  std::vector<Letter> letters = letters_of(text, utf8);
  int used = sum(letters);
  const bool cuts = used > columns;
  const std::string mark = utf8 ? "…" : "~";
  if (cut == Cut::kBegin) std::reverse(letters.begin(), letters.end());
  while (used > columns - (cuts ? 1 : 0)) {
    used -= letters.back().columns;
    letters.pop_back();
  }
  if (cut == Cut::kBegin) std::reverse(letters.begin(), letters.end());
  std::string all;
  for (const Letter& letter : letters) all += letter.text;
  if (!cuts) return all;
  return cut == Cut::kBegin ? mark + all : all + mark;
}

std::string padded(std::string_view text, int columns, bool utf8, bool right, Cut cut) {
  const std::string all = cell(text, columns, utf8, cut);
  const std::string fill(static_cast<size_t>(std::max(columns - columns_of(all, utf8), 0)), ' ');
  return right ? fill + all : all + fill;
}

namespace {

std::string without_styles(std::string_view text) {
  std::string plain;
  for (size_t at = 0; at < text.size(); ++at)
    if (text[at] == '\033')
      at = std::min(text.find('m', at), text.size() - 1);
    else
      plain += text[at];
  return plain;
}

std::string wrapped_line(std::string_view line, int columns, bool utf8) {
  const size_t indent = std::min(line.find_first_not_of(' '), line.size());
  std::string all(line.substr(0, indent));
  const std::string next = "\n" + all + "  ";
  int used = static_cast<int>(indent);
  bool first = true;
  for (size_t at = indent; at < line.size();) {
    const size_t end = std::min(line.find(' ', at), line.size());
    const std::string_view word = line.substr(at, end - at);
    const size_t after = std::min(line.find_first_not_of(' ', end), line.size());
    const int width = columns_of(without_styles(word), utf8);
    if (!first && used + width > columns) {
      all.erase(all.find_last_not_of(' ') + 1);
      all += next;
      used = static_cast<int>(indent) + 2;
    }
    all += word;
    all.append(after - end, ' ');
    used += width + static_cast<int>(after - end);
    first = false;
    at = after;
  }
  return all;
}

}  // namespace

std::string wrapped(std::string_view text, int columns, bool utf8) {
  if (columns <= 0) return std::string(text);
  std::string all;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    all += (begin ? "\n" : "") + wrapped_line(text.substr(begin, end - begin), columns, utf8);
    begin = end + 1;
  }
  return all;
}

std::string markup(std::string_view text) {
  std::string all;
  for (size_t at = 0; at < text.size();) {
    const size_t before = at;
    const int32_t code = decode_utf8(text, at);
    if (code < 0 || code == 0xFFFE || code == 0xFFFF)
      all += "\xEF\xBF\xBD";
    else if (is_control(code))
      all += ' ';
    else if (code == '&')
      all += "&amp;";
    else if (code == '<')
      all += "&lt;";
    else if (code == '>')
      all += "&gt;";
    else if (code == '"')
      all += "&quot;";
    else if (code == '\'')
      all += "&#39;";
    else
      all += text.substr(before, at - before);
  }
  return all;
}

}  // namespace plait::cli
