// The files of compiled kernels.
#include <doctest/doctest.h>

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>

#include "plugins/devices/cuda/map/cache.hpp"
#include "tests/cuda_map/host_code.hpp"

namespace cuda_map {
namespace {

namespace fs = std::filesystem;
using plait::cuda::map::Cache;

std::vector<fs::path> files(const fs::path& folder) {
  return {fs::directory_iterator(folder), fs::directory_iterator()};
}

std::string content(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

void replace(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

mode_t mode_of(const fs::path& file) {
  struct stat s {};
  REQUIRE(stat(file.c_str(), &s) == 0);
  return s.st_mode & 0777;
}

}  // namespace

TEST_CASE("a cache finds what was kept, in this process and the next") {
  const TemporaryFolder folder;
  const fs::path place = folder.path() / "a" / "b";
  const Cache cache(place.string() + "/");
  REQUIRE(cache.why() == "");
  CHECK(mode_of(place) == 0700);
  CHECK(!cache.find("key"));
  const std::string code("co\0de", 5);
  cache.keep("key", code);
  cache.keep("other", "");
  CHECK(cache.find("key") == code);
  CHECK(Cache(place).find("key") == code);
  CHECK(Cache(place).find("other") == "");
  CHECK(!cache.find("key "));
  cache.keep("key", "newer");
  CHECK(cache.find("key") == "newer");
  const auto kept = files(place);
  CHECK(kept.size() == 2);  // no temporary file stays
  for (const fs::path& file : kept) CHECK(mode_of(file) == 0600);
}

TEST_CASE("a damaged file is deleted") {
  const TemporaryFolder folder;
  const Cache cache(folder.path());
  cache.keep("key", "the code of a kernel");
  const fs::path file = files(folder.path()).at(0);
  const std::string sound = content(file);
  const auto damaged = [&](const std::string& text) {
    replace(file, text);
    CHECK(!cache.find("key"));
    CHECK(!fs::exists(file));
  };
  damaged("");
  damaged(sound.substr(0, 20));
  damaged(sound.substr(0, sound.size() - 1));
  damaged(sound + "x");
  for (const size_t at :
       {size_t{0}, size_t{16}, size_t{32}, size_t{39}, size_t{40}, sound.size() - 1}) {
    std::string changed = sound;
    changed[at] = static_cast<char>(changed[at] ^ 0x55);
    CAPTURE(at);
    damaged(changed);
  }
  replace(file, sound);
  CHECK(cache.find("key") == "the code of a kernel");
  fs::remove(file);
  fs::create_symlink("/etc/hostname", file);  // not followed
  CHECK(!cache.find("key"));
  fs::remove(file);
  fs::create_directory(file);
  CHECK(!cache.find("key"));
  cache.keep("key", "cannot replace a folder");
  CHECK(!cache.find("key"));
  CHECK(files(folder.path()).size() == 1);
}

TEST_CASE("what a process left unfinished is removed after a day") {
  const TemporaryFolder folder;
  const auto left = [&](const char* name, int hours) {
    const fs::path file = folder.path() / name;
    replace(file, "half");
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(hours));
    return file;
  };
  const fs::path old = left("new-aaaaaa", 25), recent = left("new-bbbbbb", 23);
  const fs::path other = left("0123456789abcdef0123456789abcdef.cubin", 1000);
  REQUIRE(chmod(folder.path().c_str(), 0700) == 0);
  CHECK(Cache(folder.path()).why() == "");
  CHECK(!fs::exists(old));
  CHECK(fs::exists(recent));
  CHECK(fs::exists(other));
}

TEST_CASE("a folder that others own or can write to is not used") {
  const TemporaryFolder folder;
  const fs::path open = folder.path() / "open";
  fs::create_directory(open);
  REQUIRE(chmod(open.c_str(), 0777) == 0);
  const Cache shared(open);
  CHECK(shared.why() == "others can write to " + open.string());
  shared.keep("key", "code");
  CHECK(files(open).empty());
  CHECK(!shared.find("key"));
  const fs::path foreign = folder.path() / "foreign";
  if (geteuid() == 0) {
    fs::create_directory(foreign);
    REQUIRE(chown(foreign.c_str(), 12345, 12345) == 0);
    CHECK(Cache(foreign).why() == foreign.string() + " belongs to another user");
  } else {
    CHECK(Cache("/").why() == "/ belongs to another user");
  }
  const fs::path file = folder.path() / "file";
  replace(file, "");
  CHECK(Cache(file).why() != "");
  CHECK(Cache(file / "below").why() != "");
}

TEST_CASE("the option turns the cache off, and auto is the user's cache folder") {
  const Cache none("");
  CHECK(none.why() == "device.cache is empty");
  none.keep("key", "code");
  CHECK(!none.find("key"));
  const TemporaryFolder folder;
  const auto with = [&](const char* xdg, const char* home) {
    const char* old[2] = {getenv("XDG_CACHE_HOME"), getenv("HOME")};
    const std::string saved[2] = {old[0] ? old[0] : "", old[1] ? old[1] : ""};
    xdg ? setenv("XDG_CACHE_HOME", xdg, 1) : unsetenv("XDG_CACHE_HOME");
    home ? setenv("HOME", home, 1) : unsetenv("HOME");
    const Cache cache("auto");
    old[0] ? setenv("XDG_CACHE_HOME", saved[0].c_str(), 1) : unsetenv("XDG_CACHE_HOME");
    old[1] ? setenv("HOME", saved[1].c_str(), 1) : unsetenv("HOME");
    return cache.why() == "" ? cache.folder() : cache.why();
  };
  const std::string base = folder.path();
  CHECK(with((base + "/x").c_str(), base.c_str()) == base + "/x/plait/cuda");
  CHECK(with(nullptr, base.c_str()) == base + "/.cache/plait/cuda");
  CHECK(with("relative", base.c_str()) == base + "/.cache/plait/cuda");
  CHECK(with(nullptr, nullptr) == "neither XDG_CACHE_HOME nor HOME is an absolute path");
}

}  // namespace cuda_map
