// The file system behind a seam: everything the engine does with files goes through here, so that a test can make the Nth call
// fail or cut the power. Every error is PLAIT_ERR_IO (PLAIT_ERR_NOT_FOUND for an absent path, PLAIT_ERR_DATA for a file above
// its cap) and names path and reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace plait {

enum class OpenMode {
  kCreate,   // the file must not exist
  kReplace,  // made, or emptied
  kAppend,   // made, or continued; each write() is one O_APPEND write of the system
};

// A file being written. Destroying it closes it without a word; close() reports.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  virtual void write(const void* data, size_t size) = 0;  // all of it
  virtual void write_at(uint64_t offset, const void* data, size_t size) = 0;
  virtual void sync() = 0;  // content is durable; after a failure the file is lost
  virtual void close() = 0;
  void write(std::string_view text) { write(text.data(), text.size()); }
};

// A file mapped read-only, with its descriptor held. Valid while this lives. size() is what fstat said at the opening. Touching
// what somebody else has cut off since is a SIGBUS: only for files that nobody writes any more; InputFile otherwise.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  virtual const std::byte* data() const = 0;  // NULL when empty
  virtual uint64_t size() const = 0;
  std::string_view text() const {
    return {reinterpret_cast<const char*>(data()), static_cast<size_t>(size())};
  }
};

// A file open for reading at any place, by copying: unlike a mapped one it may be cut short by somebody else without harm.
// Any thread may read.
class InputFile {
 public:
  virtual ~InputFile() = default;
  virtual uint64_t size() const = 0;  // what fstat said at the opening
  // Copies exactly `size` bytes from `offset` on. Errors: PLAIT_ERR_DATA when the file ends before; PLAIT_ERR_IO.
  virtual void read_at(uint64_t offset, void* out, size_t size) const = 0;
};

// An advisory lock on a file, held while this lives.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

enum class FileKind { kNone, kRegular, kDirectory, kOther };
struct FileInfo {
  FileKind kind = FileKind::kNone;
  uint64_t size = 0;
  uint32_t mode = 0;  // permission bits
  uint32_t owner = 0, group = 0;
  int64_t modified_ns = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual std::unique_ptr<OutputFile> open(const std::string& path, OpenMode mode) = 0;
  // max_bytes: more is PLAIT_ERR_DATA, before anything is allocated.
  virtual std::unique_ptr<MappedFile> map(const std::string& path,
                                          uint64_t max_bytes = UINT64_MAX) = 0;
  virtual std::unique_ptr<InputFile> open_input(const std::string& path,
                                                uint64_t max_bytes = UINT64_MAX) = 0;
  virtual std::string read_all(const std::string& path, uint64_t max_bytes) = 0;
  // What is at `path`, links followed; kind kNone when nothing is.
  virtual FileInfo info(const std::string& path) = 0;
  // True when the path itself is a symbolic link, whatever it leads to.
  virtual bool is_link(const std::string& path) = 0;
  // Names (without the folder) in sorted order.
  virtual std::vector<std::string> list(const std::string& folder) = 0;
  virtual void make_folder(const std::string& path) = 0;  // its parent must exist, it must not
  virtual void remove(const std::string& path) = 0;       // a file, or an empty folder
  virtual void rename(const std::string& from, const std::string& to) = 0;
  // Makes the names in a folder durable.
  virtual void sync_folder(const std::string& path) = 0;
  // Locks `path` (made if absent) or throws PLAIT_ERR_STATE when somebody else holds it.
  virtual std::unique_ptr<FileLock> lock(const std::string& path) = 0;
  virtual uint64_t free_bytes(const std::string& folder) = 0;
  // Absolute, links resolved; the path must exist.
  virtual std::string real_path(const std::string& path) = 0;

  // Made of the above.
  bool exists(const std::string& path) { return info(path).kind != FileKind::kNone; }
  bool is_folder(const std::string& path) { return info(path).kind == FileKind::kDirectory; }
  bool is_file(const std::string& path) { return info(path).kind == FileKind::kRegular; }
  void make_folders(const std::string& path);  // with parents; fine when it exists
  void remove_all(
      const std::string& path);  // a tree; links are removed, not followed; fine when absent
  // Replaces `path` so that a reader sees the old or the new content, and the new one survives a crash.
  void replace(const std::string& path, std::string_view content);

  // The machine's own. Stateless.
  static FileSystem& posix();
};

// What InputFile::read_at() throws where a file ends at byte `at`, while `wanted` were expected of it and it had `size` when it
// was opened.
[[noreturn]] void fail_truncated(const std::string& path, uint64_t at, uint64_t wanted,
                                 uint64_t size);

// Texts of paths.
std::string join_path(std::string_view folder,
                      std::string_view name);  // an absolute name stands alone
std::string folder_of(std::string_view path);  // "." when there is none
std::string name_of(std::string_view path);
bool is_absolute(std::string_view path);

}  // namespace plait
