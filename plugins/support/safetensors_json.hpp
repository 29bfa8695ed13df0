// The subset of JSON used by safetensors headers: objects, strings, lists of whole numbers.
// Anything else is an error.
#pragma once

#include <plait/plugin/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace plait::support {

// A cursor over UTF-8 text. Every reader advances past what it read, or throws plait::Error naming
// the offset.
class JsonCursor {
 public:
  // `base`: offset of the text in its file, for messages. Throws if the text is not valid UTF-8.
  JsonCursor(const std::string& where, std::string_view text, uint64_t base);

  bool accept(char c);  // skips blanks first
  void expect(char c);
  // Calls item() for each element between `open` and `close`, both of which it reads as well.
  template <class F>
  void each(char open, char close, F&& item) {
    expect(open);
    if (accept(close)) return;
    do item();
    while (accept(','));
    expect(close);
  }
  std::string text(size_t max_bytes);
  uint64_t whole_number();
  bool at_end();  // skips blanks first
  [[noreturn]] void bad(const std::string& text) const;

 private:
  void skip_blank();
  void read_escape(std::string& out);
  uint32_t hex4();

  const std::string& where_;
  std::string_view text_;
  uint64_t base_;
  size_t at_ = 0;
};

}  // namespace plait::support
