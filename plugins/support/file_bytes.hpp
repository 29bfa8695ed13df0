// Bytes of a file in memory, for plugins that read files. Sizes are sizes of real files: no
// allocation depends on a number in a header alone.
#pragma once

#include <plait/plugin.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>

static_assert(std::endian::native == std::endian::little,
              "plugins read little-endian numbers in place");

namespace plait::support {

// A growing buffer. It grows by realloc, which moves a large buffer by remapping pages, not by
// copying.
class Bytes {
 public:
  Bytes() = default;
  explicit Bytes(size_t size) { resize(size); }
  Bytes(Bytes&& o) noexcept { swap(o); }
  Bytes& operator=(Bytes&& o) noexcept {
    swap(o);
    return *this;
  }
  ~Bytes() { std::free(data_); }

  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<const uint8_t> span() const { return {data_, size_}; }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }

  // New bytes are uninitialised. Errors: std::bad_alloc; see in_memory().
  void resize(size_t size) {
    if (size > capacity_) {
      const size_t capacity = size > 2 * capacity_ ? size : 2 * capacity_;
      void* p = std::realloc(data_, capacity);
      if (!p) throw std::bad_alloc();
      data_ = static_cast<uint8_t*>(p);
      capacity_ = capacity;
    }
    size_ = size;
  }
  void shrink() {
    if (size_ == 0 || size_ == capacity_) return;
    if (void* p = std::realloc(data_, size_)) {
      data_ = static_cast<uint8_t*>(p);
      capacity_ = size_;
    }
  }
  template <class T>
  void push(T value) {
    resize(size_ + sizeof(T));
    std::memcpy(data_ + size_ - sizeof(T), &value, sizeof(T));
  }

 private:
  void swap(Bytes& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(size_, o.size_);
    std::swap(capacity_, o.capacity_);
  }
  uint8_t* data_ = nullptr;
  size_t size_ = 0, capacity_ = 0;
};

// A file being read; messages call it "[data.csv] path 'x.csv'".
struct SourceFile {
  std::string part, option, path;
  // What to do about one that cannot be opened.
  std::string remedy = "relative paths start at the data folder, else at the experiment file";
  std::string text() const { return "[" + part + "] " + option + " '" + path + "'"; }
  // Throws with `found` (and the remedy in it) at a byte of the file.
  [[noreturn]] void bad(uint64_t offset, const std::string& found) const {
    fail(PLAIT_ERR_DATA, text() + ", offset " + std::to_string(offset) + ": " + found);
  }
};

// The absolute path of a file or folder, without links in it; as it is where there is none.
inline std::string whole_path(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> whole(::realpath(path.c_str(), nullptr), std::free);
  return whole ? whole.get() : path;
}

// Returns f(), which takes data of the file into memory. Errors: PLAIT_ERR_MEMORY naming the file
// and its size, and what to do.
template <class F>
decltype(auto) in_memory(const SourceFile& source, F&& f, const char* remedy = "split it") {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    struct stat s {};
    ::stat(source.path.c_str(), &s);
    fail(PLAIT_ERR_MEMORY,
         source.text() + ": out of memory; the file has " + std::to_string(s.st_size) +
             " bytes and is held in memory: " + remedy + ", or use a machine with more memory");
  }
}

// Reads the whole file. Errors: std::bad_alloc, PLAIT_ERR_NOT_FOUND, PLAIT_ERR_IO with the system's
// reason, PLAIT_ERR_DATA if the file shrinks while it is read.
inline Bytes read_file(const SourceFile& source) {
  struct Fd {
    int fd;
    ~Fd() {
      if (fd >= 0) ::close(fd);
    }
  };
  const auto refuse = [&](const char* what) {
    const int reason = errno;
    fail(reason == ENOENT ? PLAIT_ERR_NOT_FOUND : PLAIT_ERR_IO,
         source.text() + ": " + what + ": " + std::strerror(reason) + "; " + source.remedy);
  };
  Fd file{-1};
  do file.fd = ::open(source.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  while (file.fd < 0 && errno == EINTR);
  if (file.fd < 0) refuse("cannot open it");
  struct stat s {};
  if (::fstat(file.fd, &s) != 0) refuse("cannot get its size");
  if (!S_ISREG(s.st_mode))
    fail(PLAIT_ERR_IO, source.text() + ": is not a regular file; give the path of a file");
  Bytes bytes(static_cast<size_t>(s.st_size));
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::read(file.fd, bytes.data() + at, bytes.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) refuse("cannot read it");
    if (n == 0)
      source.bad(at, "the file ended while it was read, " + std::to_string(bytes.size()) +
                         " bytes were there before; something else is writing it");
    at += static_cast<size_t>(n);
  }
  return bytes;
}

// a * b, or false on overflow.
inline bool multiply(uint64_t a, uint64_t b, uint64_t& out) {
  return !__builtin_mul_overflow(a, b, &out);
}

}  // namespace plait::support
