#include "plugins/data/npy/zip_file.hpp"

#include <algorithm>
#include <array>

#include <zlib.h>

namespace plait::data::npy {
namespace {

constexpr uint32_t kEnd = 0x06054b50, kEnd64 = 0x06064b50, kLocator64 = 0x07064b50,
                   kDirectory = 0x02014b50, kLocal = 0x04034b50;
constexpr size_t kEndSize = 22, kLocatorSize = 20, kEnd64Size = 56, kDirectorySize = 46,
                 kLocalSize = 30;
constexpr uint64_t kMostMembers = 1 << 20;
constexpr const char* kAgain = "; the file is cut off or damaged: copy it again";

template <class T>
T get(const uint8_t* at) {
  T v;
  std::memcpy(&v, at, sizeof v);
  return v;
}

// Where the directory is.
struct Directory {
  uint64_t offset, size, members;
};

class Reader {
 public:
  Reader(const support::SourceFile& source, const support::SteadyFile& file)
      : source_(source), file_(file) {}

  Directory find() {
    const size_t tail = std::min<uint64_t>(file_.size(), kEndSize + 65535);
    std::vector<uint8_t> bytes(tail);
    const uint64_t begin = file_.size() - tail;
    file_.read(begin, bytes.data(), tail);
    for (size_t at = tail < kEndSize ? 0 : tail - kEndSize + 1; at-- > 0;) {
      const uint8_t* end = bytes.data() + at;
      if (get<uint32_t>(end) != kEnd || at + kEndSize + get<uint16_t>(end + 20) != tail) continue;
      const Directory found{get<uint32_t>(end + 16), get<uint32_t>(end + 12),
                            get<uint16_t>(end + 10)};
      if (found.offset != 0xffffffff && found.size != 0xffffffff && found.members != 0xffff)
        return checked(found, begin + at);
      return checked(find64(begin + at), begin + at);
    }
    source_.bad(0,
                "this is no .npz file: it has no directory of a zip file at its end; save it "
                "with numpy.savez, or, for a .npy file, set type = \"npy\"");
  }

  std::vector<ZipMember> members(const Directory& directory) {
    std::vector<uint8_t> bytes(directory.size);
    file_.read(directory.offset, bytes.data(), bytes.size());
    std::vector<ZipMember> all;
    for (size_t at = 0; all.size() < directory.members;) {
      const uint8_t* entry = bytes.data() + at;
      const uint64_t place = directory.offset + at;
      if (bytes.size() - at < kDirectorySize || get<uint32_t>(entry) != kDirectory)
        source_.bad(place, std::string("expected an entry of the zip directory") + kAgain);
      const size_t name = get<uint16_t>(entry + 28), extra = get<uint16_t>(entry + 30),
                   comment = get<uint16_t>(entry + 32),
                   whole = kDirectorySize + name + extra + comment;
      if (whole > bytes.size() - at)
        source_.bad(place, std::string("an entry of the zip directory ends beyond it") + kAgain);
      all.push_back(member(entry, name, extra, place));
      at += whole;
    }
    return all;
  }

 private:
  Directory find64(uint64_t end) {
    std::array<uint8_t, kEnd64Size> record;
    if (end < kLocatorSize) lost(end);
    file_.read(end - kLocatorSize, record.data(), kLocatorSize);
    const uint64_t at = get<uint64_t>(record.data() + 8);
    if (get<uint32_t>(record.data()) != kLocator64 || at > end || end - at < kEnd64Size) lost(end);
    file_.read(at, record.data(), kEnd64Size);
    if (get<uint32_t>(record.data()) != kEnd64) lost(end);
    return {get<uint64_t>(record.data() + 48), get<uint64_t>(record.data() + 40),
            get<uint64_t>(record.data() + 32)};
  }
  [[noreturn]] void lost(uint64_t at) const {
    source_.bad(at, std::string("there is no zip64 directory where this says") + kAgain);
  }

  Directory checked(const Directory& d, uint64_t end) const {
    if (d.offset > end || d.size > end - d.offset)
      source_.bad(end, std::string("the zip directory lies outside of the file") + kAgain);
    if (d.members > kMostMembers || d.members > d.size / kDirectorySize)
      source_.bad(end, "the zip directory has " + std::to_string(d.members) +
                           " members, more than it has room for" + kAgain);
    return d;
  }

  ZipMember member(const uint8_t* entry, size_t name, size_t extra, uint64_t place) {
    ZipMember m;
    m.name.assign(reinterpret_cast<const char*>(entry) + kDirectorySize, name);
    const auto flags = get<uint16_t>(entry + 8), method = get<uint16_t>(entry + 10);
    m.crc = get<uint32_t>(entry + 16);
    m.packed = get<uint32_t>(entry + 20);
    m.size = get<uint32_t>(entry + 24);
    uint64_t local = get<uint32_t>(entry + 42);
    read_extra(entry + kDirectorySize + name, extra, m, local);
    if (flags & 1) source_.bad(place, "member '" + m.name + "' is encrypted; save it without");
    if (method != 0 && method != 8)
      source_.bad(place, "member '" + m.name + "' is packed by method " + std::to_string(method) +
                             ", expected 0 or 8; save it with numpy.savez");
    m.deflated = method == 8;
    std::array<uint8_t, kLocalSize> head;
    if (local > file_.size() || file_.size() - local < kLocalSize) outside(m, place);
    file_.read(local, head.data(), head.size());
    if (get<uint32_t>(head.data()) != kLocal) outside(m, place);
    m.offset =
        local + kLocalSize + get<uint16_t>(head.data() + 26) + get<uint16_t>(head.data() + 28);
    if (m.offset > file_.size() || m.packed > file_.size() - m.offset) outside(m, place);
    if (!m.deflated && m.packed != m.size)
      source_.bad(place, "member '" + m.name + "' is stored in another size than its own" + kAgain);
    return m;
  }
  [[noreturn]] void outside(const ZipMember& m, uint64_t place) const {
    source_.bad(place, "member '" + m.name + "' lies outside of the file" + kAgain);
  }

  // Values of 64 bits, of which those that do not fit in 32 are present, in this order.
  static void read_extra(const uint8_t* at, size_t size, ZipMember& m, uint64_t& local) {
    while (size >= 4) {
      const size_t id = get<uint16_t>(at),
                   length = std::min<size_t>(get<uint16_t>(at + 2), size - 4);
      const uint8_t *value = at + 4, *end = value + length;
      for (uint64_t* field : {&m.size, &m.packed, &local})
        if (id == 1 && *field == 0xffffffff && end - value >= 8) {
          *field = get<uint64_t>(value);
          value += 8;
        }
      at = end;
      size -= 4 + length;
    }
  }

  const support::SourceFile& source_;
  const support::SteadyFile& file_;
};

struct Inflate {
  z_stream z{};
  ~Inflate() { inflateEnd(&z); }
};

support::Bytes inflated(const support::SourceFile& source, const support::SteadyFile& file,
                        const ZipMember& m) {
  constexpr size_t kStep = 1 << 20;
  Inflate stream;
  if (inflateInit2(&stream.z, -15) != Z_OK) throw std::bad_alloc();
  std::vector<uint8_t> packed(std::min<uint64_t>(m.packed, 1 << 16));
  support::Bytes bytes;
  uint64_t read = 0;
  for (int status = Z_OK; status != Z_STREAM_END;) {
    if (stream.z.avail_in == 0 && read < m.packed) {
      const auto n = static_cast<size_t>(std::min<uint64_t>(packed.size(), m.packed - read));
      file.read(m.offset + read, packed.data(), n);
      read += n;
      stream.z.next_in = packed.data();
      stream.z.avail_in = static_cast<uInt>(n);
    }
    const size_t at = bytes.size();
    size_t room = std::min<size_t>(std::max(kStep, at), 1u << 30);
    if (m.size - at < room) room = m.size - at + 1;  // one more, to notice that there is more
    bytes.resize(at + room);
    stream.z.next_out = bytes.data() + at;
    stream.z.avail_out = static_cast<uInt>(room);
    status = inflate(&stream.z, Z_NO_FLUSH);
    bytes.resize(at + room - stream.z.avail_out);
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    const bool stuck = status == Z_BUF_ERROR && read == m.packed;
    if ((status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) || stuck ||
        bytes.size() > m.size)
      source.bad(m.offset, "the packed data of member '" + m.name + "' is damaged" + kAgain);
  }
  bytes.shrink();
  return bytes;
}

}  // namespace

std::vector<ZipMember> read_zip(const support::SourceFile& source,
                                const support::SteadyFile& file) {
  Reader reader(source, file);
  return reader.members(reader.find());
}

support::Bytes read_member(const support::SourceFile& source, const support::SteadyFile& file,
                           const ZipMember& member) {
  support::Bytes bytes;
  if (member.deflated) {
    bytes = inflated(source, file, member);
  } else {
    bytes.resize(member.size);
    file.read(member.offset, bytes.data(), bytes.size());
  }
  if (bytes.size() != member.size)
    source.bad(member.offset, "member '" + member.name + "' unpacks to " +
                                  std::to_string(bytes.size()) + " bytes, expected " +
                                  std::to_string(member.size) + kAgain);
  uLong crc = crc32_z(0, bytes.data(), bytes.size());
  if (bytes.size() == 0) crc = 0;
  if (crc != member.crc)
    source.bad(member.offset, "the checksum of member '" + member.name + "' is wrong" + kAgain);
  return bytes;
}

}  // namespace plait::data::npy
