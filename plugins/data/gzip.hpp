// Files packed by gzip, of one member or several.
#pragma once

#include "plugins/support/file_bytes.hpp"

#include <zlib.h>

#include <algorithm>

namespace plait::data {

constexpr const char* kRefetch = "; fetch the file again";

inline bool is_gzip(std::span<const uint8_t> raw) {
  return raw.size() >= 2 && raw[0] == 0x1f && raw[1] == 0x8b;
}

// Unpacks a file in memory, which it borrows. Errors: PLAIT_ERR_DATA with the offset in the packed
// file, PLAIT_ERR_MEMORY.
class Inflater {
 public:
  explicit Inflater(const support::SourceFile& source, std::span<const uint8_t> packed)
      : source_(source), packed_(packed) {
    if (inflateInit2(&z_, 15 + 16) != Z_OK)
      fail(PLAIT_ERR_MEMORY, source_.text() + ": out of memory to unpack it");
  }
  ~Inflater() { inflateEnd(&z_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Unpacks up to n more bytes; fewer only at the end of the file.
  size_t read(uint8_t* to, size_t n) {
    size_t done = 0;
    while (done < n && !ended_) {
      const size_t in = std::min<size_t>(packed_.size() - at_, 1u << 30),
                   out = std::min<size_t>(n - done, 1u << 30);
      z_.next_in = const_cast<Bytef*>(packed_.data() + at_);
      z_.avail_in = static_cast<uInt>(in);
      z_.next_out = to + done;
      z_.avail_out = static_cast<uInt>(out);
      const int status = inflate(&z_, Z_NO_FLUSH);
      at_ += in - z_.avail_in;
      done += out - z_.avail_out;
      if (status == Z_STREAM_END)
        next_member();
      else if (status == Z_MEM_ERROR)
        fail(PLAIT_ERR_MEMORY, source_.text() + ": out of memory to unpack it");
      else if (status != Z_OK)
        refuse(status);
    }
    return done;
  }

 private:
  void next_member() {
    if (at_ == packed_.size()) {
      ended_ = true;
    } else if (!is_gzip(packed_.subspan(at_))) {
      source_.bad(at_, std::to_string(packed_.size() - at_) +
                           " bytes after the end of the gzip data, expected none" + kRefetch);
    } else {
      inflateReset(&z_);
    }
  }
  [[noreturn]] void refuse(int status) {
    if (status == Z_BUF_ERROR && at_ == packed_.size())
      source_.bad(at_, std::string("the gzip data is truncated here") + kRefetch);
    source_.bad(at_, std::string("damaged gzip data (") + (z_.msg ? z_.msg : "no reason given") +
                         ")" + kRefetch);
  }

  const support::SourceFile& source_;
  std::span<const uint8_t> packed_;
  z_stream z_{};
  size_t at_ = 0;
  bool ended_ = false;
};

// All of a packed file. The memory grows with what is really unpacked. Errors: those of Inflater,
// std::bad_alloc.
inline support::Bytes unpack_all(const support::SourceFile& source,
                                 std::span<const uint8_t> packed) {
  constexpr size_t kStep = 1 << 20;
  Inflater inflater(source, packed);
  support::Bytes bytes;
  for (bool ended = false; !ended;) {
    const size_t at = bytes.size();
    bytes.resize(at + std::max(kStep, at));
    const size_t n = inflater.read(bytes.data() + at, bytes.size() - at);
    ended = at + n < bytes.size();
    bytes.resize(at + n);
  }
  bytes.shrink();
  return bytes;
}

}  // namespace plait::data
