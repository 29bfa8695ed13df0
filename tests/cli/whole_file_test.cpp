// Files of commands that write at the same time.
#include "bindings/cli/whole_file.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "bindings/cli/context.hpp"
#include "tests/support/folder.hpp"

namespace {

using namespace plait;
using namespace plait::cli;

std::string content(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Writes 64 KiB of one letter in two halves; false: another one writes.
bool write_letter(const std::string& path, char letter) try {
  WholeFile file(path, WholeFile::Part::kPartial);
  file.cut(0);
  const std::string half(1 << 15, letter);
  file.write(half);
  file.write(half);
  file.commit();
  return true;
} catch (const CliError&) {
  return false;
}

}  // namespace

TEST_CASE("of two writers of one file each commits what it has written, and nothing else") {
  const test::Folder folder;
  const std::string path = folder / "p";
  REQUIRE(write_letter(path, 'a'));
  std::atomic<int> ended{0};
  const auto write = [&](char letter) {
    for (int done = 0; done < 2000;) done += write_letter(path, letter);
    ++ended;
  };
  std::thread a(write, 'a'), b(write, 'b');
  size_t torn = 0;
  while (ended < 2) {
    const std::string text = content(path);
    torn += text.size() != size_t{1} << 16 || text.find_first_not_of(text[0]) != std::string::npos;
  }
  a.join();
  b.join();
  CHECK(torn == 0);
  CHECK_FALSE(std::ifstream(partial_path(path)).good());
}
