#include "engine/observe/line_text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace plait::observe {

void LineText::add(std::string_view text) {
  const size_t size = std::min(text.size(), kCapacity - size_);
  std::copy_n(text.data(), size, data_.data() + size_);
  size_ += size;
}

void LineText::repeat(size_t times, std::string_view text) {
  for (; times > 0 && size_ < kCapacity; --times) add(text);
}

void LineText::addf(const char* format, ...) {
  char text[kCapacity + 1];  // snprintf() needs room for a final 0
  va_list args;
  va_start(args, format);
  const int size = std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (size > 0) add({text, std::min(static_cast<size_t>(size), kCapacity)});
}

void LineText::add_real(double value, const char* format) {
  if (std::isnan(value)) return add("nan");
  if (std::isinf(value)) return add(value > 0 ? "inf" : "-inf");
  addf(format, value);
}

void LineText::pad_left(size_t from, size_t width) {
  const size_t written = size_ - from;
  if (written >= width) return;
  const size_t blanks = std::min(width - written, kCapacity - size_);
  char* begin = data_.data() + from;
  std::memmove(begin + blanks, begin, written);
  std::fill_n(begin, blanks, ' ');
  size_ += blanks;
}

void LineText::cut(size_t size) { size_ = std::min(size_, size); }

}  // namespace plait::observe
