// A line of text in a buffer of a fixed size: a step of training may write it, as nothing is
// allocated.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace plait::observe {

// What does not fit is cut off.
class LineText {
 public:
  static constexpr size_t kCapacity = 1024;  // bytes

  LineText() = default;
  // Views of its text stay valid: there are no copies.
  LineText(const LineText&) = delete;
  LineText& operator=(const LineText&) = delete;

  void add(std::string_view text);
  void repeat(size_t times, std::string_view text);
  [[gnu::format(printf, 2, 3)]] void addf(const char* format, ...);
  // With a printf format for one double; "nan", "inf" and "-inf" for what is not finite.
  void add_real(double value, const char* format);
  // Moves what was added since it had `from` bytes to the right, until that has `width` bytes.
  void pad_left(size_t from, size_t width);
  // Forgets all behind `size` bytes.
  void cut(size_t size);
  void clear() { size_ = 0; }

  size_t size() const { return size_; }
  std::string_view text(size_t from = 0) const { return {data_.data() + from, size_ - from}; }

 private:
  std::array<char, kCapacity> data_ = {};
  size_t size_ = 0;
};

}  // namespace plait::observe
