// Zip files, built byte by byte: members come back, and each fault of a file is told.
#include "plugins/data/npy/zip_file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <zlib.h>

#include <functional>
#include <string>
#include <vector>

using namespace plait::data::npy;

namespace {

std::string content;  // of the file

const plait::support::FileCalls kCalls = {
    [](const char*) { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); },
    [](int, void* to, size_t n, off_t at) -> ssize_t {
      std::memcpy(to, content.data() + at, n);
      return static_cast<ssize_t>(n);
    },
    [](int, uint64_t& bytes) {
      bytes = content.size();
      return 0;
    },
    [](double) {}};

template <class T>
void put(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string deflated(const std::string& text) {
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
std::string zip(std::vector<Member> members,
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
    file += std::string(12, '\0');
    put(file, m.local);
    file += m.name;
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

std::vector<std::string> texts(const std::string& file) {
  content = file;
  const plait::support::SourceFile source{"data.npz", "path", "x"};
  const plait::support::SteadyFile steady(source, "", kCalls);
  std::vector<std::string> all;
  for (const ZipMember& m : read_zip(source, steady)) {
    const plait::support::Bytes bytes = read_member(source, steady, m);
    all.push_back(m.name + ": " +
                  std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  return all;
}

// `changed` acts on the second one of two members.
void refuses(const std::function<void(Member&)>& changed, const char* expected) {
  for (const bool deflate : {false, true}) {
    const std::string text(100, 'b');
    const std::string file = zip({{"a", "first", deflate}, {"b", text, deflate}},
                                 [&](std::vector<Member>& all) { changed(all[1]); });
    CHECK_THROWS_WITH(texts(file), doctest::Contains(expected));
  }
}

}  // namespace

TEST_CASE("members of a zip file come back, stored or deflated, with a comment behind them") {
  std::string large;
  for (int64_t i = 0; i < 300000; ++i) large += static_cast<char>(i * i % 251 + i % 7);
  for (const bool deflate : {false, true})
    for (const char* comment : {"", "made by PK\5\6 somebody"}) {
      const auto found =
          texts(zip({{"a.npy", "first", deflate}, {"b", "", deflate}, {"c", large, deflate}}, {},
                    {}, comment));
      CHECK(found == std::vector<std::string>{"a.npy: first", "b: ", "c: " + large});
    }
  CHECK(texts(zip({})).empty());
}

TEST_CASE("a member that is not as the directory says is refused") {
  refuses([](Member& m) { m.flags = 1; }, "member 'b' is encrypted");
  refuses([](Member& m) { m.method = 12; }, "member 'b' is packed by method 12, expected 0 or 8");
  refuses([](Member& m) { m.crc ^= 1; }, "the checksum of member 'b' is wrong");
  refuses([](Member& m) { m.local += 1; }, "member 'b' lies outside of the file");
  refuses([](Member& m) { m.local = 1u << 31; }, "member 'b' lies outside of the file");
  refuses([](Member& m) { m.packed_size = 1u << 31; }, "member 'b' lies outside of the file");
  const std::vector<Member> one{{"a", std::string(100, 'a'), true}}, stored{{"a", "text", false}};
  const auto error = [](const std::vector<Member>& members, auto&& changed) {
    try {
      texts(zip(members, [&](std::vector<Member>& all) { changed(all[0]); }));
    } catch (const plait::Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const auto has = [](const std::string& text, const char* part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  };
  has(error(stored, [](Member& m) { m.size += 1; }), "is stored in another size than its own");
  has(error(one, [](Member& m) { m.size += 1; }), "unpacks to 100 bytes, expected 101");
  has(error(one, [](Member& m) { m.size -= 1; }), "the packed data of member 'a' is damaged");
  has(error(one, [](Member& m) { m.packed_size -= 2; }),
      "the packed data of member 'a' is damaged");
  std::vector<Member> damaged = one;
  damaged[0].packed[0] = '\xFF';
  has(error(damaged, [](Member&) {}), "the packed data of member 'a' is damaged");
}

TEST_CASE("a directory that is cut off, or lies outside of the file, is refused") {
  const std::vector<Member> one{{"a", "text", false}};
  const std::string whole = zip(one);
  for (size_t n = 0; n < whole.size(); ++n)
    CHECK_THROWS_WITH(texts(whole.substr(0, n)), doctest::Contains("no directory of a zip file"));
  const auto with_end = [&](auto&& change) { return zip(one, {}, change); };
  CHECK_THROWS_WITH(texts(with_end([](End& e) { e.offset += 1; })),
                    doctest::Contains("the zip directory lies outside of the file"));
  CHECK_THROWS_WITH(texts(with_end([](End& e) { e.size += 1; })),
                    doctest::Contains("the zip directory lies outside of the file"));
  CHECK_THROWS_WITH(texts(with_end([](End& e) { e.members += 1; })),
                    doctest::Contains("has 2 members, more than it has room for"));
  CHECK_THROWS_WITH(texts(with_end([](End& e) { e.offset -= 1; })),
                    doctest::Contains("expected an entry of the zip directory"));
  CHECK_THROWS_WITH(texts(with_end([](End& e) { e.size -= 1; })),
                    doctest::Contains("zip directory"));
  for (const int part : {0, 1, 2})
    CHECK_THROWS_WITH(texts(with_end([&](End& e) {
                        if (part == 0) e.offset = 0xffffffff;
                        if (part == 1) e.size = 0xffffffff;
                        if (part == 2) e.members = 0xffff;
                      })),
                      doctest::Contains("there is no zip64 directory where this says"));
}
