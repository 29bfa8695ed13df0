#include "plugins/support/tensor_file.hpp"

#include <algorithm>

namespace plait::support {

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

std::vector<kit::SafetensorsEntry> TensorFile::entries() const {
  std::string head(static_cast<size_t>(std::min<uint64_t>(8, size_)), '\0');
  read_at(0, reinterpret_cast<uint8_t*>(head.data()), head.size());
  if (head.size() == 8) {
    uint64_t n = 0;
    std::memcpy(&n, head.data(), 8);
    if (n <= kit::kMaxHeaderBytes) head.resize(8 + static_cast<size_t>(std::min(n, size_ - 8)));
    read_at(8, reinterpret_cast<uint8_t*>(head.data()) + 8, head.size() - 8);
  }
  try {
    kit::SafetensorsHeader header = kit::read_safetensors_header(head, size_, source_.text());
    for (kit::SafetensorsEntry& e : header.entries) {
      e.begin += header.data_start;
      e.end += header.data_start;
    }
    return std::move(header.entries);
  } catch (const kit::Damaged& e) {
    fail(PLAIT_ERR_DATA, e.what());
  }
}

Bytes TensorFile::read(const kit::SafetensorsEntry& entry) const {
  Bytes bytes(static_cast<size_t>(entry.end - entry.begin));
  read_at(entry.begin, bytes.data(), bytes.size());
  return bytes;
}

}  // namespace plait::support
