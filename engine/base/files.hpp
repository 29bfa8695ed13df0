// The file system interface: all file access of the engine goes through it, so that a test can make
// the Nth call fail or simulate a power cut. Every error is PLAIT_ERR_IO (PLAIT_ERR_NOT_FOUND for
// an absent path, PLAIT_ERR_DATA for a file above its cap, PLAIT_ERR_MEMORY) and names the path.
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
  kReplace,  // created, or truncated
  kAppend,   // created, or continued; each write() is one O_APPEND write of the system
};

// A file open for writing. The destructor closes it and ignores errors; close() reports them.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  virtual void write(const void* data, size_t size) = 0;  // writes all of it or throws
  // Bytes that write() has written, also in calls that failed then.
  virtual uint64_t written() const = 0;
  virtual void write_at(uint64_t offset, const void* data, size_t size) = 0;
  virtual void sync() = 0;  // makes the content durable; after a failure the file is lost
  virtual void close() = 0;
  void write(std::string_view text) { write(text.data(), text.size()); }
};

// A file mapped read-only; its descriptor stays open for the object's lifetime. size() is the fstat
// size at opening. Reading a part that another process has truncated since raises SIGBUS, so use
// this only for files that nobody writes any more, and InputFile otherwise.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  virtual const std::byte* data() const = 0;  // NULL when empty
  virtual uint64_t size() const = 0;
  std::string_view text() const {
    return {reinterpret_cast<const char*>(data()), static_cast<size_t>(size())};
  }
};

// A file open for random-access reads by copying. Unlike a mapped file it may be truncated by
// another process without harm. Any thread may read.
class InputFile {
 public:
  virtual ~InputFile() = default;
  virtual uint64_t size() const = 0;  // the fstat size at opening
  // Copies exactly `size` bytes starting at `offset`. Errors: PLAIT_ERR_DATA when the file ends
  // earlier; PLAIT_ERR_IO.
  virtual void read_at(uint64_t offset, void* out, size_t size) const = 0;
};

// An advisory lock on a file, held for the object's lifetime.
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
  // max_bytes: a larger file is PLAIT_ERR_DATA, before anything is allocated.
  virtual std::unique_ptr<MappedFile> map(const std::string& path,
                                          uint64_t max_bytes = UINT64_MAX) = 0;
  virtual std::unique_ptr<InputFile> open_input(const std::string& path,
                                                uint64_t max_bytes = UINT64_MAX) = 0;
  // Of a regular file; a pipe, which could block, and a device are PLAIT_ERR_DATA.
  virtual std::string read_all(const std::string& path, uint64_t max_bytes) = 0;
  // Of any file, to its end; of a pipe it waits for who writes.
  virtual std::string read_stream(const std::string& path, uint64_t max_bytes) {
    return read_all(path, max_bytes);
  }
  // Information on `path`, links followed; kind kNone if nothing exists there.
  virtual FileInfo info(const std::string& path) = 0;
  // True if the path itself is a symbolic link, whether or not its target exists.
  virtual bool is_link(const std::string& path) = 0;
  // Names (without the folder) in sorted order.
  virtual std::vector<std::string> list(const std::string& folder) = 0;
  virtual void make_folder(const std::string& path) = 0;  // the parent must exist, `path` must not
  virtual void remove(const std::string& path) = 0;       // a file, or an empty folder
  virtual void rename(const std::string& from, const std::string& to) = 0;
  // Makes the directory entries of a folder durable.
  virtual void sync_folder(const std::string& path) = 0;
  // Locks `path` (created if absent); throws PLAIT_ERR_STATE when another process holds it.
  virtual std::unique_ptr<FileLock> lock(const std::string& path) = 0;
  virtual uint64_t free_bytes(const std::string& folder) = 0;
  // Absolute, links resolved; the path must exist.
  virtual std::string real_path(const std::string& path) = 0;

  // Built on the functions above.
  bool exists(const std::string& path) { return info(path).kind != FileKind::kNone; }
  bool is_folder(const std::string& path) { return info(path).kind == FileKind::kDirectory; }
  bool is_file(const std::string& path) { return info(path).kind == FileKind::kRegular; }
  void make_folders(const std::string& path);  // with parents; fine when it exists
  void remove_all(
      const std::string& path);  // a tree; links are removed, not followed; fine when absent
  // Replaces the file at `path` atomically: a reader sees the old or the new content. With kYes the
  // new content survives a crash of the machine; with kNo there may then be the old one, or an
  // empty file, and nothing waits for the disk.
  enum class Sync { kNo, kYes };
  void replace(const std::string& path, std::string_view content, Sync sync = Sync::kYes);

  // The file system of this machine. Stateless.
  static FileSystem& posix();
};

// Thrown by InputFile::read_at() when a file ends at byte `at` although `wanted` bytes were
// expected; `size` is its size at opening.
[[noreturn]] void fail_truncated(const std::string& path, uint64_t at, uint64_t wanted,
                                 uint64_t size);

// Helpers for path strings.
std::string join_path(std::string_view folder,
                      std::string_view name);  // an absolute name is returned unchanged
std::string folder_of(std::string_view path);  // "." when there is none
std::string name_of(std::string_view path);
bool is_absolute(std::string_view path);

}  // namespace plait
