// The JSON that safetensors headers are made of: objects, texts, lists of whole numbers. Nothing else is accepted.
#pragma once

#include <plait/plugin/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace plait::support {

// A cursor over UTF-8 text. Every reader moves past what it read, or throws plait::Error naming the offset.
class JsonCursor {
 public:
  // `base`: offset of the text in its file, for messages. Throws where the text is no UTF-8.
  JsonCursor(const std::string& where, std::string_view text, uint64_t base);

  bool accept(char c);  // after blanks
  void expect(char c);
  // Calls item() for each element between `open` and `close`, both read here too.
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
  bool at_end();  // after blanks
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
