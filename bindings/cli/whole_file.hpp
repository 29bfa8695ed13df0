// Files that a command writes for its user.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace plait::cli {

// Replaces the file at `path` by `text`: whoever reads it sees the old text or the new one, and a
// write that fails leaves the old one. A link stays, and what is behind it is replaced; a pipe or a
// device is written to. Errors: CliError (kEnvironment) with the path and the reason.
void write_whole_file(const std::string& path, const std::string& text);

// The same for a file that is too long to be held in memory: it is written beside `path`, and
// commit() lets it take that place; without it nothing remains. A file that may be written, but not
// replaced, gets a copy of it. Errors: as write_whole_file().
class WholeFile {
 public:
  // "-": standard output.
  explicit WholeFile(std::string path);
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  const std::string& path() const { return path_; }
  // Whether write_at() is possible: not in a pipe, a device or standard output.
  bool is_file() const { return !part_.empty(); }
  void write(std::string_view bytes);  // behind what was written before
  void write_at(uint64_t offset, std::string_view bytes);
  void commit();

 private:
  [[noreturn]] void fail(int reason) const;
  int open_part(const std::string& beside, mode_t mode);

  std::string path_, target_, part_;  // part_: its name until commit(); "": not a file
  int fd_ = -1;
  bool owned_ = true;      // to be closed
  bool is_beside_ = true;  // part_ lies where target_ is
};

}  // namespace plait::cli
