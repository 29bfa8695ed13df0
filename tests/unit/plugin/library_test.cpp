// Whether a library in memory is that of a file, for each part of the file that differs.
#include "engine/plugin/library.hpp"

#include <doctest/doctest.h>
#include <link.h>
#include <plait/plugin.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "tests/support/plugin_folder.hpp"
#include "tests/unit/plugin/fixtures.hpp"

using namespace plait;
using namespace plait::plugin;

namespace {

// A plugin of the build tree, loaded, and its file.
struct Loaded {
  std::string path, bytes;
  Library library;
  ElfW(Ehdr) head{};
  std::vector<ElfW(Phdr)> segments;

  Loaded()
      : path((test::plugin_folder() / "plait-layer-shape.so").string()),
        bytes(FileSystem::posix().read_all(path, uint64_t{1} << 30)),
        library(path) {
    std::memcpy(&head, bytes.data(), sizeof head);
    segments.resize(head.e_phnum);
    std::memcpy(segments.data(), bytes.data() + head.e_phoff, segments.size() * sizeof segments[0]);
  }
  bool is(const std::string& file) const {
    return library.is_loaded_from(std::as_bytes(std::span(file)));
  }
  bool is_with(const ElfW(Ehdr) & other) const {
    std::string file = bytes;
    std::memcpy(file.data(), &other, sizeof other);
    return is(file);
  }
  bool is_with(size_t segment, const ElfW(Phdr) & other) const {
    std::string file = bytes;
    std::memcpy(file.data() + head.e_phoff + segment * sizeof other, &other, sizeof other);
    return is(file);
  }
  bool is_with_changed_byte(size_t at) const {
    std::string file = bytes;
    file[at] = static_cast<char>(file[at] ^ 1);
    return is(file);
  }
};

bool is_constant(const ElfW(Phdr) & p) {
  return p.p_filesz > 0 &&
         (p.p_type == PT_NOTE || (p.p_type == PT_LOAD && (p.p_flags & (PF_W | PF_X)) == 0));
}

}  // namespace

TEST_CASE("a library in memory is that of its file, and exports what the file has") {
  const Loaded one;
  CHECK(one.is(one.bytes));
  CHECK(one.library.symbol(PLAIT_PLUGIN_ENTRY) != nullptr);
  CHECK(one.library.symbol("no_such_symbol") == nullptr);
  CHECK(contains(error_of([] { Library("/no/such/library.so"); }).text(),
                 "'/no/such/library.so': the system cannot load it"));
}

TEST_CASE("a file that differs in a constant is another library, one that differs in code is not") {
  const Loaded one;
  int n_constant = 0, n_code = 0;  // segments that are loaded
  for (const ElfW(Phdr) & p : one.segments) {
    CAPTURE(p.p_offset);
    const bool code = p.p_type == PT_LOAD && (p.p_flags & PF_X) != 0;
    n_constant += is_constant(p) && p.p_type == PT_LOAD;
    n_code += code;
    if (!is_constant(p) && !code) continue;
    for (const size_t at : {size_t{1}, p.p_filesz / 2, p.p_filesz - 1}) {
      CAPTURE(at);
      CHECK(one.is_with_changed_byte(p.p_offset + at) == code);
    }
  }
  CHECK(n_constant >= 1);
  CHECK(n_code >= 1);
}

// Where a segment that is compared contains the head, a head that differs is found there; the
// checks of the head itself only keep reads inside the file.
TEST_CASE("a file whose head or segments differ is another library, however far they point") {
  const Loaded one;
  const auto with_head = [&](auto&& change) {
    ElfW(Ehdr) head = one.head;
    change(head);
    return one.is_with(head);
  };
  CHECK(with_head([](auto&) {}));
  CHECK_FALSE(with_head([](auto& h) { ++h.e_phentsize; }));
  CHECK_FALSE(with_head([](auto& h) { ++h.e_phnum; }));
  CHECK_FALSE(with_head([](auto& h) { --h.e_phnum; }));
  CHECK_FALSE(with_head([](auto& h) { ++h.e_phoff; }));
  CHECK_FALSE(with_head([&](auto& h) { h.e_phoff = one.bytes.size() - 1; }));
  CHECK_FALSE(with_head([&](auto& h) { h.e_phoff = one.bytes.size() + 1; }));
  for (size_t i = 0; i < one.segments.size(); ++i) {
    CAPTURE(i);
    const auto with = [&](auto&& change) {
      ElfW(Phdr) p = one.segments[i];
      change(p);
      return one.is_with(i, p);
    };
    CHECK_FALSE(with([](auto& p) { p.p_vaddr += uint64_t{1} << 44; }));
    CHECK_FALSE(with([](auto& p) { p.p_offset += uint64_t{1} << 44; }));
    CHECK_FALSE(with([](auto& p) { p.p_filesz += uint64_t{1} << 44; }));
  }
}

TEST_CASE("a file that was cut short is another library") {
  const Loaded one;
  const size_t heads = one.head.e_phoff + one.segments.size() * sizeof one.segments[0];
  std::vector<size_t> sizes{0, 1, sizeof one.head - 1, sizeof one.head, heads - 1, heads};
  for (const ElfW(Phdr) & p : one.segments)
    if (is_constant(p))
      for (const size_t size : {p.p_offset, p.p_offset + 1, p.p_offset + p.p_filesz - 1})
        sizes.push_back(size);
  for (const size_t size : sizes) {
    CAPTURE(size);
    CHECK_FALSE(one.is(one.bytes.substr(0, size)));
  }
}
