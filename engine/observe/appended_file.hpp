// A file that grows by whole units, such as lines, while a run lasts. A run does not end because
// its disk is full for a while: what cannot be written is kept, and written before what follows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/files.hpp"
#include "engine/base/log.hpp"

namespace plait::observe {

// What a file consists of.
struct Units {
  const char* name;  // "lines", for messages
  // Length in bytes of the unit at the beginning of a text that is not empty.
  size_t (*first)(std::string_view text);
};
// A line end alone is not counted as a line.
extern const Units kLines;

// One thread.
class AppendedFile {
 public:
  // Bytes that are kept at most. Units beyond that are lost, and counted, and so are all that
  // follow until the file is written again.
  static constexpr size_t kMostKept = 256 * 1024;
  using Tell = std::function<void(const std::string& text)>;

  // Creates or continues the file. tell: is told of the first error, and later how many units were
  // lost; may be called in the destructor, too. Errors: PLAIT_ERR_IO.
  AppendedFile(FileSystem& files, std::string path, const Units& units, Tell tell);
  AppendedFile(FileSystem& files, std::string path, const Units& units, Log& log);
  ~AppendedFile();  // tries once more, and says what is missing
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  // Appends whole units, as one write of the system. Does not allocate unless writing fails.
  void write(std::string_view text);
  const std::string& path() const { return path_; }

 private:
  bool put(std::string_view text, uint64_t written);
  int64_t count(std::string_view text) const;

  std::string path_;
  const Units units_;
  const Tell tell_;
  std::unique_ptr<OutputFile> file_;
  std::string kept_;           // begins with the first unit that is not complete in the file,
  uint64_t kept_written_ = 0;  // of which so many bytes are in the file
  int64_t n_lost_ = 0;         // units
  bool failing_ = false, losing_ = false;
};

}  // namespace plait::observe
