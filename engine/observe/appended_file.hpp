// A file that grows by whole units, such as lines, while a run lasts. A run does not end because
// its disk is full for a while: what cannot be written is kept, and written before what follows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/files.hpp"
#include "engine/base/log.hpp"

namespace plait::observe {

// One thread.
class AppendedFile {
 public:
  // Bytes that are kept at most; further units are lost, and counted.
  static constexpr size_t kMostKept = 256 * 1024;

  // Creates or continues the file. units: what it consists of, "lines", for messages. log: is told
  // of the first error, and later how many units were lost. Errors: PLAIT_ERR_IO.
  AppendedFile(FileSystem& files, std::string path, std::string units, Log& log);
  ~AppendedFile();  // tries once more, and says what is missing
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  // Appends n whole units, as one write of the system. Does not allocate unless writing fails.
  void write(std::string_view text, int64_t n);
  const std::string& path() const { return path_; }

 private:
  bool put(std::string_view text);
  void failed(const std::string& why, std::string_view text);
  void works_again();

  FileSystem& files_;
  std::string path_, units_;
  Log& log_;
  std::unique_ptr<OutputFile> file_;
  uint64_t end_;      // size of the file behind the last write that succeeded
  std::string kept_;  // continues the file at end_
  int64_t n_kept_ = 0, n_lost_ = 0;
  bool failing_ = false;
};

}  // namespace plait::observe
