// Files that a command writes for its user.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace plait::cli {

class Terminal;

// Errors: CliError (kUsage) for a name that ends as that of another format of pictures; ours are
// SVG. option: that gave the name.
void check_svg_name(const std::string& option, const std::string& path);

// Replaces the file at `path` by `text`: whoever reads it sees the old text or the new one, and a
// write that fails leaves the old one. A link stays, and what is behind it is replaced; a pipe or a
// device is written to. Errors: CliError (kEnvironment) with the path and the reason.
void write_whole_file(const std::string& path, const std::string& text);
// The same, but "-" is standard output: true if so, for then nothing else may be written there.
bool print_or_write(Terminal& terminal, const std::string& path, const std::string& text);

// The same for a file that is too long to be held in memory: it is written beside `path`, and
// commit() lets it take that place; without it nothing remains. A file that may be written, but not
// replaced, gets a copy of it. Errors: as write_whole_file().
class WholeFile {
 public:
  // What becomes of the part when it is not committed.
  enum class Part {
    kTemporary,  // it goes
    // It stays from keep() on, as partial_path(), for a later command to continue. Nobody else may
    // write it meanwhile.
    kPartial,
  };
  // "-": standard output. Errors: also where the file may be neither replaced nor written to, which
  // would be found only by commit().
  explicit WholeFile(std::string path, Part part = Part::kTemporary);
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  const std::string& path() const { return path_; }
  // Whether write_at() is possible: not in a pipe, a device or standard output.
  bool is_file() const { return !part_.empty(); }
  // Behind what was written before. What standard output's reader no longer takes is dropped.
  void write(std::string_view bytes);
  bool is_unread() const { return unread_; }  // as in `plait predict demo | head -1`
  void write_at(uint64_t offset, std::string_view bytes);
  void commit();

  // Of Part::kPartial, unless it had to be put elsewhere: what an earlier command left is in it.
  bool is_partial() const { return partial_; }
  void keep() { kept_ = true; }
  void discard() { kept_ = false; }
  uint64_t size() const;
  void cut(uint64_t bytes);  // to so many, behind which write() continues
  // Errors: CliError (kEnvironment) when there are fewer bytes.
  void read_at(uint64_t offset, char* to, size_t n) const;

 private:
  [[noreturn]] void fail(int reason) const;
  int open_part(const std::string& beside, mode_t mode);
  int open_partial(mode_t mode);

  std::string path_, target_, part_;  // part_: its name until commit(); "": not a file
  int fd_ = -1;
  bool owned_ = true;      // to be closed
  bool is_beside_ = true;  // part_ lies where target_ is
  bool partial_ = false, kept_ = false, unread_ = false;
  mode_t mode_ = 0;  // of the file that a partial one becomes
};

// Where Part::kPartial lies.
std::string partial_path(const std::string& path);

}  // namespace plait::cli
