// One line of JSON built in a fixed buffer without allocation, so a training step may use it.
// (engine/base/json.hpp is for everything else.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace plait::observe {

// An object, or nested objects, on one line. If the line does not fit, it overflows: full() returns
// true and text() is empty.
class JsonLine {
 public:
  explicit JsonLine(size_t capacity);
  void clear();

  void open();                      // { (for a nested object: key() first)
  void close();                     // }
  void key(std::string_view name);  // escaped
  void value(std::string_view text);
  void value(const char* text) { value(std::string_view(text)); }
  void value(int64_t number);
  void value(
      double number);  // shortest text that reads back the same; not finite: "nan", "inf", "-inf"
  void value(float number);  // the same, as a float
  // A time or a rate, with at most six decimals, which are found faster than the shortest text.
  // Outside of [0.001, 4e9) as field().
  void measured(std::string_view name, double number);
  void value(bool flag);
  template <class T>
  void field(std::string_view name, T v) {
    key(name);
    value(v);
  }

  void end_line();  // newline
  bool full() const { return full_; }
  std::string_view text() const {
    return full_ ? std::string_view() : std::string_view(data_.get(), size_);
  }

 private:
  void put(char c);
  void put(std::string_view text);
  void quoted(std::string_view text);
  template <class Number>
  void digits(Number number);
  std::unique_ptr<char[]> data_;
  size_t capacity_, size_ = 0;
  bool full_ = false, comma_ = false;
};

}  // namespace plait::observe
