// A strict reader of a subset of JSON: objects, strings, lists of whole numbers. Anything else is
// an error.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace plait::kit {

// A file does not hold what it should: "<where>, offset N: found, expected". Each side turns it
// into an error of its own: PLAIT_ERR_DATA.
class Damaged : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Text for a message: control characters as \x1f.
std::string printable(std::string_view text);

// A cursor over UTF-8 text. Every reader advances past what it read, or throws Damaged naming the
// offset.
class JsonCursor {
 public:
  // base: offset of the text in its file, for messages. Throws if the text is not valid UTF-8.
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
  // What is being read, for messages, which join the parts: "tensor '", "w", "'". before and after
  // must outlive the cursor; `name` is copied. Called for every entry, so it joins nothing itself.
  void set_subject(std::string_view before, std::string_view name, std::string_view after) {
    before_ = before;
    name_ = name;
    after_ = after;
  }
  [[noreturn]] void bad(const std::string& text) const;

 private:
  std::string subject() const;
  void skip_blank();
  void read_escape(std::string& out);
  uint32_t hex4();

  const std::string& where_;
  std::string_view text_;
  uint64_t base_;
  std::string_view before_ = "the header", after_;
  std::string name_;
  size_t at_ = 0;
};

}  // namespace plait::kit
