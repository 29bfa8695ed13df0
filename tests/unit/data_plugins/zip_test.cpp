// Zip files, built byte by byte: members come back, and each fault of a file is told.
#include "plugins/data/npy/zip_file.hpp"

#include <fcntl.h>

#include "tests/unit/data_plugins/zip_bytes.hpp"

using namespace plait::data::npy;
using zip_bytes::End;
using zip_bytes::Member;
using zip_bytes::put;
using zip_bytes::zip;

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

namespace {

// What the end of a file says in 64 bits, and where.
struct End64 {
  uint64_t members, size, offset;
  uint32_t magic = 0x06064b50, locator = 0x07064b50;
  int64_t shift = 0;  // of the place that the locator names
};

// A file whose sizes and places are all in fields of 64 bits.
std::string zip64(std::vector<Member> members, const std::function<void(End64&)>& changed = {}) {
  std::string file = zip(members, [](std::vector<Member>& all) {
    for (Member& m : all) {
      m.extra.clear();
      put(m.extra, uint16_t{7});  // a field of another kind, which is left out
      put(m.extra, uint16_t{8});
      put(m.extra, UINT64_MAX);
      put(m.extra, uint16_t{1});
      put(m.extra, uint16_t{24});
      put(m.extra, uint64_t{m.size});
      put(m.extra, uint64_t{m.packed_size});
      put(m.extra, uint64_t{m.local});
      m.size = m.packed_size = m.local = 0xffffffff;
    }
  });
  const std::string end = file.substr(file.size() - 22);
  file.resize(file.size() - 22);
  const auto number = [&end](size_t at) {
    uint32_t n = 0;
    std::memcpy(&n, end.data() + at, sizeof n);
    return n;
  };
  End64 e{members.size(), number(12), number(16)};
  if (changed) changed(e);
  const uint64_t place = file.size() + static_cast<uint64_t>(e.shift);
  put(file, e.magic);
  file += std::string(20, '\0');
  put(file, e.members);
  put(file, e.members);
  put(file, e.size);
  put(file, e.offset);
  put(file, e.locator);
  put(file, uint32_t{0});
  put(file, place);
  put(file, uint32_t{1});
  put(file, uint32_t{0x06054b50});
  put(file, uint32_t{0});
  file += std::string(12, '\xff');
  put(file, uint16_t{0});
  return file;
}

}  // namespace

TEST_CASE("a zip file with sizes of 64 bits") {
  for (const bool deflate : {false, true})
    CHECK(texts(zip64({{"a.npy", "first", deflate}, {"b", std::string(500, 'b'), deflate}})) ==
          std::vector<std::string>{"a.npy: first", "b: " + std::string(500, 'b')});
  const std::vector<Member> one{{"a", "text", false}};
  const auto error = [&](auto&& change) {
    try {
      texts(zip64(one, change));
    } catch (const plait::Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  const std::pair<std::function<void(End64&)>, const char*> rows[] = {
      {[](End64&) {}, "no error"},
      {[](End64& e) { e.magic += 1; }, "there is no zip64 directory where this says"},
      {[](End64& e) { e.locator += 1; }, "there is no zip64 directory where this says"},
      {[](End64& e) { e.shift = 21; }, "there is no zip64 directory where this says"},
      {[](End64& e) { e.shift = -1; }, "there is no zip64 directory where this says"},
      {[](End64& e) { e.shift = 1 << 20; }, "there is no zip64 directory where this says"},
      {[](End64& e) { e.members = 2; }, "has 2 members, more than it has room for"},
      {[](End64& e) { e.size = UINT64_MAX; }, "the zip directory lies outside of the file"},
      {[](End64& e) { e.offset = UINT64_MAX; }, "the zip directory lies outside of the file"},
  };
  for (const auto& [change, expected] : rows) {
    const std::string found = error(change);
    CHECK_MESSAGE(found.find(expected) != found.npos, found);
  }
  // Fields that are cut off give no number, and what is left over is no field.
  for (const size_t n : {0, 3, 4, 11, 12, 14}) {
    const std::string file = zip(one, [&](std::vector<Member>& all) {
      all[0].extra = std::string("\1\0\10\0\4\0\0\0\0\0\0\0\0\0\0", 15).substr(0, n);
      all[0].size = 0xffffffff;
    });
    if (n < 12)
      CHECK_THROWS_WITH(texts(file), doctest::Contains("stored in another size than its own"));
    else
      CHECK(texts(file) == std::vector<std::string>{"a: text"});
  }
}
