// Reading from the POSIX file system.
#include "engine/base/posix_read.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/file_memory.hpp"
#include "engine/base/text.hpp"
#include "kit/obstacle.hpp"

namespace plait::posix {

void fail_path(const char* what, const std::string& path, int number) {
  if (number == ENXIO)
    fail_data("[files] '" + path +
              "' is not a regular file, but a pipe that nobody reads, a socket "
              "or a device; remove it");
  const std::string text = std::string("[files] cannot ") + what + " '" + path + "'";
  if (number == ENOENT) fail_not_found(text + ": there is no such file or folder; check the path");
  if (number == ENOMEM) fail_no_memory("files", what, path, 0);
  fail_io(text, number);
}

void fail_making(const char* what, const std::string& path, int number) {
  if (number == ENOMEM || number == ENXIO) fail_path(what, path, number);
  const std::string text = std::string("[files] cannot ") + what + " '" + path + "'";
  const std::string why = kit::obstacle(path, number);
  if (why.empty()) fail_io(text, number);
  fail(PLAIT_ERR_IO, text + ": " + why);
}

Descriptor::Descriptor(const std::string& path, int flags, const char* what) : path_(path) {
  do fd_ = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  while (fd_ < 0 && errno == EINTR);
  if (fd_ < 0) ((flags & O_CREAT) != 0 ? fail_making : fail_path)(what, path, errno);
  constexpr int kFirst = 3;  // above the standard streams
  if (fd_ >= kFirst) return;
  const int higher = ::fcntl(fd_, F_DUPFD_CLOEXEC, kFirst), number = errno;
  ::close(std::exchange(fd_, higher));
  if (fd_ < 0) fail_path(what, path, number);
}

// An error of this close() says nothing: what was read is here, and what was to be durable has been
// synced or has failed before (a write that the system could not make later is an error of sync(),
// or of close() below). The descriptor is gone in any case.
Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

void Descriptor::close() {
  // Never retried: on Linux the descriptor is closed even after EINTR.
  const int fd = std::exchange(fd_, -1);
  if (fd >= 0 && ::close(fd) != 0 && errno != EINTR) fail_path("close", path_, errno);
}

struct stat Descriptor::status() const {
  struct stat s {};
  if (::fstat(fd_, &s) != 0) fail_path("examine", path_, errno);
  return s;
}

void Descriptor::refuse_pipes() const {
  if (S_ISFIFO(status().st_mode))
    fail_data("[files] '" + path_ + "' is a pipe, expected a regular file; remove it");
}

namespace {

// The size of a regular file of at most max_bytes.
uint64_t plain_size(const Descriptor& file, uint64_t max_bytes) {
  const struct stat s = file.status();
  if (S_ISDIR(s.st_mode)) fail_path("read", file.path(), EISDIR);
  if (!S_ISREG(s.st_mode))
    fail_data("[files] '" + file.path() + "' is not a regular file; give a regular file");
  const auto size = static_cast<uint64_t>(s.st_size);
  if (size > max_bytes)
    fail_data("[files] '" + file.path() + "' has " + human_bytes(size) + ", expected at most " +
              human_bytes(max_bytes) + "; check that it is the right file");
  return size;
}

class PosixMapped final : public MappedFile {
 public:
  PosixMapped(const std::string& path, uint64_t max_bytes)
      : file_(path, O_RDONLY | O_NONBLOCK, "open"), size_(plain_size(file_, max_bytes)) {
    if (size_ == 0) return;
    data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file_.get(), 0);
    if (data_ == MAP_FAILED) {
      const int number = errno;
      data_ = nullptr;
      fail_path("map", path, number);
    }
  }
  ~PosixMapped() override {
    if (data_) ::munmap(data_, size_);
  }
  const std::byte* data() const override { return static_cast<const std::byte*>(data_); }
  uint64_t size() const override { return size_; }

 private:
  Descriptor file_;
  uint64_t size_ = 0;
  void* data_ = nullptr;
};

class PosixInput final : public InputFile {
 public:
  PosixInput(const std::string& path, uint64_t max_bytes)
      : file_(path, O_RDONLY | O_NONBLOCK, "open"), size_(plain_size(file_, max_bytes)) {}
  uint64_t size() const override { return size_; }
  void read_at(uint64_t offset, void* out, size_t size) const override {
    for (size_t done = 0; done < size;) {
      const ssize_t n =
          ::pread(file_.get(), static_cast<char*>(out) + done,
                  std::min<size_t>(size - done, 1u << 30), static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail_path("read", file_.path(), errno);
      if (n == 0) fail_truncated(file_.path(), offset + done, offset + size, size_);
      done += static_cast<size_t>(n);
    }
  }

 private:
  Descriptor file_;
  uint64_t size_ = 0;
};

}  // namespace

std::unique_ptr<MappedFile> map_file(const std::string& path, uint64_t max_bytes) {
  return std::make_unique<PosixMapped>(path, max_bytes);
}

std::unique_ptr<InputFile> open_file(const std::string& path, uint64_t max_bytes) {
  return std::make_unique<PosixInput>(path, max_bytes);
}

std::string read_regular(const std::string& path, uint64_t max_bytes) {
  const Descriptor file(path, O_RDONLY | O_NONBLOCK, "open");
  plain_size(file, max_bytes);
  return read_rest(file, max_bytes);
}

std::string read_rest(const Descriptor& file, uint64_t max_bytes) {
  // Grows with the bytes read: pipes and files in /proc do not report their size. A regular file
  // that ends before its size was cut meanwhile, and a part of it may look whole.
  const struct stat s = file.status();
  const uint64_t least = S_ISREG(s.st_mode) ? static_cast<uint64_t>(s.st_size) : 0;
  std::string content;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(file.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_path("read", file.path(), errno);
    if (n == 0 && content.size() < least) fail_truncated(file.path(), content.size(), least, least);
    if (n == 0) return content;
    const uint64_t size = content.size() + static_cast<uint64_t>(n);
    with_memory("files", "read", file.path(), size,
                [&] { content.append(buffer, static_cast<size_t>(n)); });
    if (content.size() > max_bytes)
      fail_data("[files] '" + file.path() + "' has more than " + human_bytes(max_bytes) +
                ", the most accepted here; check that it is the right file");
  }
}

}  // namespace plait::posix
