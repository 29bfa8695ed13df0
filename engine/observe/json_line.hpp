// One line of JSON built in a fixed buffer without allocation, so a training step may use it.
// (engine/base/json.hpp is for everything else.)
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

namespace plait::observe {

// Whether a JSON string may hold this byte without an escape.
constexpr bool is_plain(unsigned char c) { return c >= 0x20 && c != '"' && c != '\\'; }

// A name in the source. The compiler refuses one that JSON would escape, so that writing it is a
// copy.
class PlainName {
 public:
  template <size_t N>
  consteval PlainName(const char (&text)[N]) : text_(text, N - 1) {
    for (const char c : text_)
      if (!is_plain(static_cast<unsigned char>(c))) throw "a character that JSON escapes";
  }
  constexpr std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

// The JSON text of a number: the shortest that reads back the same; not finite: "nan", "inf",
// "-inf". Finding it is most of the cost of a line, so it is kept while the number stays the same.
class NumberText {
 public:
  const NumberText& of(double number);
  std::string_view text() const { return {text_, size_}; }

 private:
  char text_[32] = "0";
  size_t size_ = 1;
  uint64_t bits_ = 0;  // of the number of text_
};

// An object, or nested objects, on one line. If the line does not fit, it overflows: full() returns
// true and text() is empty.
class JsonLine {
 public:
  explicit JsonLine(size_t capacity);

  void open();   // { (for a nested object: key() first)
  void close();  // }
  void key(PlainName name);
  void key(std::same_as<std::string_view> auto name) { escaped_key(name); }
  void value(std::string_view text);
  void value(const char* text) { value(std::string_view(text)); }
  void value(int64_t number);
  void value(double number);  // as NumberText
  void value(float number);   // the same, as a float
  void value(const NumberText& number) { put(number.text()); }
  // A time or a rate, with at most six decimals, which are found faster than the shortest text.
  // Outside of [0.001, 4e9) as field().
  void measured(PlainName name, double number);
  void value(bool flag);
  template <class T>
  void field(PlainName name, const T& v) {
    key(name);
    value(v);
  }
  template <class T>
  void field(std::same_as<std::string_view> auto name, const T& v) {
    key(name);
    value(v);
  }

  // A place in the line. return_to() drops what was written after it, so that lines can share their
  // beginning.
  struct Mark {
    size_t size = 0;
    bool comma = false, full = false;
  };
  Mark mark() const { return {size_, comma_, full_}; }
  void return_to(const Mark& mark);

  void end_line();  // newline
  bool full() const { return full_; }
  std::string_view text() const {
    return full_ ? std::string_view() : std::string_view(data_.get(), size_);
  }

 private:
  void put(char c);
  void put(std::string_view text);
  void escaped_key(std::string_view name);
  void quoted(std::string_view text);
  template <class Number>
  void digits(Number number);
  std::unique_ptr<char[]> data_;
  size_t capacity_, size_ = 0;
  bool full_ = false, comma_ = false;
};

inline void JsonLine::key(PlainName name) {
  const std::string_view text = name.text();
  if (full_ || (comma_ ? 1 : 0) + text.size() + 3 > capacity_ - size_) {
    full_ = true;
    return;
  }
  char* at = data_.get() + size_;
  if (comma_) *at++ = ',';
  *at++ = '"';
  std::memcpy(at, text.data(), text.size());
  at += text.size();
  *at++ = '"';
  *at++ = ':';
  size_ = static_cast<size_t>(at - data_.get());
  comma_ = true;
}

}  // namespace plait::observe
