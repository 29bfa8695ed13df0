#include "engine/config/text_scan.hpp"

#include <cstddef>

namespace plait::config {
namespace {

// U+2018 to U+201F, and the angular ones.
bool is_typographic_quote(std::string_view text) {
  if (text.starts_with("\u00ab") || text.starts_with("\u00bb")) return true;
  return text.size() > 2 && text.starts_with("\xe2\x80") && text[2] >= '\x98' && text[2] <= '\x9f';
}

class Scanner {
 public:
  Scanner(std::string_view text, int max_parts) : text_(text), max_parts_(max_parts) {}

  Scan run() {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = line_begin_ = 3;  // skip a byte order mark
    while (at_ < text_.size() && found_.fault == ScanFault::kNone) step();
    return found_;
  }

 private:
  void step() {
    const char c = text_[at_];
    if (c == '#') {
      skip_comment();
    } else if (c == '"' || c == '\'') {
      begin_part();
      skip_string(c);
    } else if (c == '.') {
      begin_part();
      dots_ += 1;
      if (dots_ >= max_parts_) found_ = {ScanFault::kLongKey, line_, column_of_run_, false};
      advance();
    } else if (static_cast<unsigned char>(c) >= 0x80) {
      found_ = {ScanFault::kForeign, line_, static_cast<int>(at_ - line_begin_) + 1,
                is_typographic_quote(text_.substr(at_))};
    } else if (c == ' ' || c == '\t') {
      advance();  // spaces may surround the dots of a key
    } else {
      const bool part = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || c == '_' || c == '-';
      if (part)
        begin_part();
      else
        end_run();
      advance();
    }
  }

  // dots_ is the number of dots of the current "part . part" run, or -1 outside one.
  void begin_part() {
    if (dots_ >= 0) return;
    dots_ = 0;
    column_of_run_ = static_cast<int>(at_ - line_begin_) + 1;
  }

  void advance() {
    if (text_[at_] == '\n') {
      ++line_;
      line_begin_ = at_ + 1;
      end_run();
    }
    ++at_;
  }
  void end_run() { dots_ = -1; }

  void skip_comment() {
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }

  void skip_string(char quote) {
    const bool three = text_.substr(at_, 3) == std::string_view(quote == '"' ? "\"\"\"" : "'''");
    const size_t width = three ? 3 : 1;
    at_ += width;
    while (at_ < text_.size()) {
      if (text_[at_] == '\\' && quote == '"') {
        ++at_;
        if (at_ < text_.size()) advance_in_string();
      } else if (text_[at_] == quote &&
                 (!three ||
                  text_.substr(at_, 3) == std::string_view(quote == '"' ? "\"\"\"" : "'''"))) {
        at_ += width;
        // Up to two quotes may precede the closing three.
        while (three && at_ < text_.size() && text_[at_] == quote) ++at_;
        return;
      } else if (text_[at_] == '\n' && !three) {
        return;  // unclosed: a syntax error, at which every parser stops
      } else {
        advance_in_string();
      }
    }
  }

  void advance_in_string() {
    if (text_[at_] == '\n') {
      ++line_;
      line_begin_ = at_ + 1;
    }
    ++at_;
  }

  std::string_view text_;
  int max_parts_;
  size_t at_ = 0, line_begin_ = 0;
  int line_ = 1, column_of_run_ = 1, dots_ = -1;
  Scan found_;
};

}  // namespace

Scan scan_text(std::string_view text, int max_key_parts) {
  if (text.find('\0') != std::string_view::npos) return {ScanFault::kBinary, 0, 0};
  return Scanner(text, max_key_parts).run();
}

}  // namespace plait::config
