// Splits the output of a pipe into lines.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace plait::cli {

class LineReader {
 public:
  using OnLine = std::function<void(std::string_view line)>;
  // Borrows the descriptor and makes it non-blocking.
  LineReader(int fd, OnLine on_line);
  // Reads the available bytes. False once the other side has closed.
  bool read();
  // The last line, if it did not end with a newline.
  void finish();

 private:
  void add(std::string_view bytes);
  int fd_;
  OnLine on_line_;
  std::string pending_;
};

}  // namespace plait::cli
