#include "plugins/data/idx/idx_file.hpp"

#include <zlib.h>

#include <algorithm>
#include <cstdio>

namespace plait::data::idx {
namespace {

constexpr size_t kMaxHeader = 4 + 4 * PLAIT_MAX_NDIM;
constexpr const char* kRefetch = "; fetch the file again";

const char* type_of(uint8_t code) {
  switch (code) {
    case 0x09:
      return "i8";
    case 0x0B:
      return "i16";
    case 0x0C:
      return "i32";
    case 0x0D:
      return "f32";
    case 0x0E:
      return "f64";
    default:
      return "unknown";
  }
}

bool is_gzip(std::span<const uint8_t> raw) {
  return raw.size() >= 2 && raw[0] == 0x1f && raw[1] == 0x8b;
}

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

// Grows with the values that are really unpacked, so that a declared size alone allocates nothing.
support::Bytes unpack(const support::SourceFile& source, std::span<const uint8_t> packed) {
  constexpr size_t kStep = 1 << 20;
  Inflater inflater(source, packed);
  uint8_t head[kMaxHeader];
  const size_t head_size = inflater.read(head, sizeof head);
  const Header header = read_header(source, {head, head_size});

  support::Bytes bytes(head_size);
  std::memcpy(bytes.data(), head, head_size);
  while (bytes.size() <= header.total) {
    const size_t at = bytes.size();
    bytes.resize(at + std::min<uint64_t>(std::max(kStep, at), header.total + 1 - at));
    const size_t n = inflater.read(bytes.data() + at, bytes.size() - at);
    const bool ended = at + n < bytes.size();
    bytes.resize(at + n);
    if (ended) break;
  }
  bytes.shrink();
  return bytes;
}

}  // namespace

Header read_header(const support::SourceFile& source, std::span<const uint8_t> head) {
  if (head.size() < 4)
    source.bad(0, std::to_string(head.size()) +
                      " bytes, expected at least the 4 of an IDX magic number" + kRefetch);
  if (head[0] != 0 || head[1] != 0) {
    char found[32];
    std::snprintf(found, sizeof found, "%02x %02x %02x %02x", head[0], head[1], head[2], head[3]);
    source.bad(0, std::string("the magic number is ") + found +
                      ", expected 00 00 08 and the number of dimensions; this is not an IDX file: "
                      "check the path");
  }
  if (head[2] != 0x08)
    source.bad(2, "type code " + std::to_string(head[2]) + " (" + type_of(head[2]) +
                      "), expected 8 (u8); convert the file, or use an npy dataset");
  const size_t ndim = head[3];
  if (ndim < 1 || ndim > PLAIT_MAX_NDIM)
    source.bad(3, "ndim " + std::to_string(ndim) + ", expected 1 to " +
                      std::to_string(PLAIT_MAX_NDIM) + kRefetch);
  Header header;
  header.offset = 4 + 4 * ndim;
  if (head.size() < header.offset)
    source.bad(head.size(), "the header is truncated: " + std::to_string(head.size()) +
                                " bytes, expected " + std::to_string(header.offset) + kRefetch);
  uint64_t values = 1;
  for (size_t i = 0; i < ndim; ++i) {
    const uint8_t* p = head.data() + 4 + 4 * i;
    const uint32_t extent =
        uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | p[3];
    header.dims.push_back(extent);
    if (!support::multiply(values, extent, values) || values > uint64_t{1} << 62)
      source.bad(4 + 4 * i,
                 "the extents multiply to more than 2^62 values" + std::string(kRefetch));
  }
  header.total = header.offset + values;
  return header;
}

File parse(const support::SourceFile& source, support::Bytes raw) {
  File file;
  file.bytes = is_gzip(raw.span()) ? unpack(source, raw.span()) : std::move(raw);
  file.header = read_header(source, file.bytes.span());
  const uint64_t found = file.bytes.size(), expected = file.header.total;
  if (found != expected) {
    const std::string relation = found < expected ? std::to_string(found) : "more";
    source.bad(std::min(found, expected),
               "extents " + Shape(file.header.dims).text() + " need " + std::to_string(expected) +
                   " bytes with the header, found " + relation + kRefetch);
  }
  return file;
}

File open(const support::SourceFile& source) { return parse(source, support::read_file(source)); }

}  // namespace plait::data::idx
