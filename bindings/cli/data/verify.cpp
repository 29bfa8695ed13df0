#include "bindings/cli/data/verify.hpp"

#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "bindings/cli/data/sha256.hpp"

namespace plait::cli {

std::string verify(const std::string& path, const SetFile& expected) {
  struct Close {
    void operator()(gzFile_s* file) const { gzclose_r(file); }
  };
  const std::unique_ptr<gzFile_s, Close> file(gzopen(path.c_str(), "rb"));
  if (!file) return std::string("cannot be read: ") + std::strerror(errno);
  Sha256 sum;
  uint64_t bytes = 0;
  std::vector<char> buffer(1 << 16);
  for (;;) {
    const int n = gzread(file.get(), buffer.data(), static_cast<unsigned>(buffer.size()));
    if (n == 0) break;
    if (n < 0) {
      int code = 0;
      return std::string("is a damaged gzip file (") + gzerror(file.get(), &code) + ")";
    }
    bytes += static_cast<uint64_t>(n);
    if (bytes > expected.bytes) break;  // wrong already, and it may be huge
    sum.add(buffer.data(), static_cast<size_t>(n));
  }
  if (bytes != expected.bytes)
    return "unpacks to " + std::string(bytes > expected.bytes ? "more than " : "") +
           std::to_string(bytes > expected.bytes ? expected.bytes : bytes) + " bytes, expected " +
           std::to_string(expected.bytes);
  const std::string found = sum.hex();
  return found == expected.sha256
             ? ""
             : "has sha256 " + found + " unpacked, expected " + expected.sha256;
}

}  // namespace plait::cli
