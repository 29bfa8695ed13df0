#include "plugins/data/idx/idx_file.hpp"

#include <algorithm>
#include <cstdio>

#include "plugins/data/gzip.hpp"

namespace plait::data::idx {
namespace {

constexpr size_t kMaxHeader = 4 + 4 * PLAIT_MAX_NDIM;

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

namespace {
void check_size(const support::SourceFile& source, const Header& header, uint64_t found) {
  const uint64_t expected = header.total;
  if (found == expected) return;
  const std::string relation = found < expected ? std::to_string(found) : "more";
  source.bad(std::min(found, expected), "extents " + Shape(header.dims).text() + " need " +
                                            std::to_string(expected) +
                                            " bytes with the header, found " + relation + kRefetch);
}

std::vector<uint8_t> head_of(const support::SteadyFile& file, uint64_t most) {
  std::vector<uint8_t> head(std::min(file.size(), most));
  file.read(0, head.data(), head.size());
  return head;
}
}  // namespace

File parse(const support::SourceFile& source, support::Bytes raw) {
  File file;
  file.bytes = is_gzip(raw.span()) ? unpack(source, raw.span()) : std::move(raw);
  file.header = read_header(source, file.bytes.span());
  check_size(source, file.header, file.bytes.size());
  return file;
}

bool is_packed(const support::SteadyFile& file) { return is_gzip(head_of(file, 2)); }

Header header_of(const support::SourceFile& source, const support::SteadyFile& file) {
  Header header = read_header(source, head_of(file, kMaxHeader));
  check_size(source, header, file.size());
  return header;
}

Header packed_header_of(const support::SourceFile& source, const support::SteadyFile& file) {
  constexpr size_t kMostPacked = 1 << 16;  // that the header is packed into
  support::Bytes packed(std::min<uint64_t>(file.size(), kMostPacked));
  file.read(0, packed.data(), packed.size());
  Inflater inflater(source, packed.span());
  uint8_t head[kMaxHeader];
  const size_t size = inflater.read(head, sizeof head);
  return read_header(source, {head, size});
}

File open(const support::SourceFile& source) { return parse(source, support::read_file(source)); }

}  // namespace plait::data::idx
