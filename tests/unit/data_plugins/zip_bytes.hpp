// A zip file, made byte by byte by a test.
#pragma once

#include <doctest/doctest.h>
#include <zlib.h>

#include <functional>
#include <string>
#include <vector>

namespace zip_bytes {

template <class T>
inline void put(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

inline std::string deflated(const std::string& text) {
  z_stream z{};
  REQUIRE(deflateInit2(&z, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&z, text.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(packed.data());
  z.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  packed.resize(z.total_out);
  deflateEnd(&z);
  return packed;
}

struct Member {
  std::string name, text, packed;
  std::string extra;  // of the directory: fields of an id, a size and values
  uint16_t flags = 0, method = 0;
  uint32_t crc, size, packed_size, local = 0;

  Member(const std::string& of, const std::string& all, bool deflate)
      : name(of),
        text(all),
        packed(deflate ? deflated(all) : all),
        method(deflate ? 8 : 0),
        crc(static_cast<uint32_t>(
            crc32_z(0, reinterpret_cast<const Bytef*>(all.data()), all.size()))),
        size(static_cast<uint32_t>(all.size())),
        packed_size(static_cast<uint32_t>(packed.size())) {}
};

// The ends of a file that a test may change.
struct End {
  uint16_t members;
  uint32_t size, offset;
};

// With `changed` the directory says something else than what lies there.
inline std::string zip(std::vector<Member> members,
                       const std::function<void(std::vector<Member>&)>& changed = {},
                       const std::function<void(End&)>& end_changed = {},
                       const std::string& comment = "") {
  std::string file;
  for (Member& m : members) {
    m.local = static_cast<uint32_t>(file.size());
    put(file, uint32_t{0x04034b50});
    file += std::string(22, '\0');
    put(file, static_cast<uint16_t>(m.name.size()));
    put(file, uint16_t{3});  // bytes that only this head has
    file += m.name + "..." + m.packed;
  }
  if (changed) changed(members);
  End end{static_cast<uint16_t>(members.size()), 0, static_cast<uint32_t>(file.size())};
  for (const Member& m : members) {
    put(file, uint32_t{0x02014b50});
    put(file, uint32_t{0});
    put(file, m.flags);
    put(file, m.method);
    put(file, uint32_t{0});
    put(file, m.crc);
    put(file, m.packed_size);
    put(file, m.size);
    put(file, static_cast<uint16_t>(m.name.size()));
    put(file, static_cast<uint16_t>(m.extra.size()));
    file += std::string(10, '\0');
    put(file, m.local);
    file += m.name + m.extra;
  }
  end.size = static_cast<uint32_t>(file.size()) - end.offset;
  if (end_changed) end_changed(end);
  put(file, uint32_t{0x06054b50});
  put(file, uint32_t{0});
  put(file, end.members);
  put(file, end.members);
  put(file, end.size);
  put(file, end.offset);
  put(file, static_cast<uint16_t>(comment.size()));
  return file + comment;
}

}  // namespace zip_bytes
