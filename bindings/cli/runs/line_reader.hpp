// The lines of a file that another process appends to.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace plait::cli {

// Each call reads only what was added since the last one; a file that has not changed costs one
// stat(). A file that is shorter than before, another one, or has another text before the place
// where reading stopped is read again from its beginning. One thread at a time.
class LineReader {
 public:
  static constexpr int64_t kWhole = -1;
  struct Sink {
    std::function<void()> restarted;  // what was read so far no longer holds
    // A line without its newline. Returns whether it is whole: of the text behind the last newline
    // nobody knows that but the reader of its format. It comes again, longer, if it is not.
    std::function<bool(std::string_view)> line;
  };

  // `tail`: begins with the first whole line of the last `tail` bytes, or with the file's first.
  explicit LineReader(std::string path, int64_t tail = kWhole)
      : path_(std::move(path)), tail_(tail) {}
  // Reads about `most` bytes at most. Returns whether there is more to read at once. A file that
  // cannot be read, or is none, has no lines.
  bool read(const Sink& sink, size_t most = SIZE_MAX);
  const std::string& path() const { return path_; }

 private:
  bool is_same(int file, const struct stat& now) const;
  void begin(const struct stat& now);
  void take(std::string_view block, const Sink& sink);

  std::string path_;
  int64_t tail_;
  struct stat seen_ = {};  // of the newest read that came to the end; zeros: none
  int64_t offset_ = -1;    // of the next byte; -1: nothing is read
  std::string mark_;       // the bytes before it
  std::string pending_;    // a line without its end
  bool skips_ = false;     // up to the next newline
};

// The last line that contains `text`, among the last `most` bytes of a regular file; "": none.
std::string last_line_with(const std::string& path, std::string_view text, size_t most);

// The content of a regular file of at most 1 MiB; "" where it cannot be read, or is longer.
std::string read_small_file(const std::string& path);

}  // namespace plait::cli
