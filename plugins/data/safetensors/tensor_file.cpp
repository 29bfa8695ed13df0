#include "plugins/data/safetensors/tensor_file.hpp"

#include <algorithm>

namespace plait::data {
namespace {
constexpr uint64_t kMostHeader = 100'000'000;  // larger headers are refused without reading them
}

TensorFile::TensorFile(SourceFile source) : source_(std::move(source)) {
  fd_ = ::open(source_.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd_ < 0) refuse("cannot open it");
  struct stat s {};
  const bool known = ::fstat(fd_, &s) == 0, regular = S_ISREG(s.st_mode);
  if (!known || !regular) {
    const int reason = errno;
    ::close(fd_);
    errno = reason;
    if (!known) refuse("cannot get its size");
    fail(PLAIT_ERR_IO, source_.text() + ": is not a regular file; give the path of a file");
  }
  size_ = static_cast<uint64_t>(s.st_size);
}

TensorFile::~TensorFile() { ::close(fd_); }

void TensorFile::refuse(const char* what) const {
  const int reason = errno;
  fail(reason == ENOENT ? PLAIT_ERR_NOT_FOUND : PLAIT_ERR_IO,
       source_.text() + ": " + what + ": " + std::strerror(reason) +
           "; relative paths start at the data folder, else at the experiment file");
}

void TensorFile::read_at(uint64_t offset, uint8_t* out, size_t size) const {
  for (size_t done = 0; done < size;) {
    const ssize_t n = ::pread(fd_, out + done, std::min<size_t>(size - done, 1u << 30),
                              static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) refuse("cannot read it");
    if (n == 0)
      source_.bad(offset + done, "the file ended while it was read, " + std::to_string(size_) +
                                     " bytes were there before; something else is writing it");
    done += static_cast<size_t>(n);
  }
}

std::vector<support::SafetensorsEntry> TensorFile::entries() const {
  // The parser expects the whole file but reads only the header: the rest is reserved and never
  // touched, so it takes no memory.
  Bytes file(static_cast<size_t>(size_));
  uint64_t header = 0;
  const auto front = static_cast<size_t>(std::min<uint64_t>(8, size_));
  read_at(0, file.data(), front);
  if (front == 8) {
    std::memcpy(&header, file.data(), 8);
    const auto rest = static_cast<size_t>(std::min({header, size_ - 8, kMostHeader}));
    read_at(8, file.data() + 8, rest);
  }
  return support::read_safetensors(source_.text(), file.span());
}

Bytes TensorFile::read(const support::SafetensorsEntry& entry) const {
  Bytes bytes(static_cast<size_t>(entry.end - entry.begin));
  read_at(entry.begin, bytes.data(), bytes.size());
  return bytes;
}

}  // namespace plait::data
