// Files that do not fit in memory.
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "tests/unit/data_plugins/dataset_bench.hpp"

using namespace plait;
using fake::contains;
using fake::Folder;
using fake::little;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need the address space

namespace {

constexpr uint64_t kSize = uint64_t{1} << 30;

// While it exists, the process gets 256 MiB more address space at most.
class LittleMemory {
 public:
  LittleMemory() {
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    getrlimit(RLIMIT_AS, &before_);
    rlimit less = before_;
    less.rlim_cur = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + (256u << 20);
    REQUIRE(setrlimit(RLIMIT_AS, &less) == 0);
  }
  LittleMemory(const LittleMemory&) = delete;
  ~LittleMemory() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

// A file of kSize bytes that begins with `head`; the rest takes no space on the disk.
std::string large(const Folder& folder, const std::string& head) {
  std::string quoted = folder.write("large", head);
  REQUIRE(truncate(folder.path("large").c_str(), kSize) == 0);
  return quoted;
}

std::string error(const std::string& type, const std::string& option, const std::string& head) {
  const Folder folder;
  fake::data_plugins();
  fake::Options::Given given{{option, large(folder, head)}};
  if (type == "idx") given["labels"] = folder.write("labels", "");
  const LittleMemory little_memory;
  return fake::open_error(type, given, PLAIT_ERR_MEMORY);
}

void check_text(const std::string& text, const std::string& where) {
  CHECK(contains(text, where + " 'large': out of memory; the file has 1073741824 bytes"));
  CHECK(contains(text, "split it"));
}

}  // namespace

TEST_CASE("a file larger than the memory is an error that names it and its size") {
  check_text(error("csv", "path", "a,b\n1,2\n"), "[data.csv] path");
  const std::string dict =
      "{'descr': '|u1', 'fortran_order': False, 'shape': (" + std::to_string(kSize - 128) + ",), }";
  check_text(error("npy", "input",
                   std::string("\x93NUMPY\1\0", 8) + little(118, 2) + dict +
                       std::string(117 - dict.size(), ' ') + "\n"),
             "[data.npy] input");
  check_text(
      error("idx", "images", std::string("\0\0\x08\2", 4) + std::string("\0\0\0\1\0\0\0\1", 8)),
      "[data.idx] images");
  const std::string header = "{\"input\":{\"dtype\":\"U8\",\"shape\":[" +
                             std::to_string(kSize - 8 - 80) + "],\"data_offsets\":[0," +
                             std::to_string(kSize - 8 - 80) + "]}}";
  REQUIRE(header.size() <= 80);
  check_text(
      error("safetensors", "path", little(80, 8) + header + std::string(80 - header.size(), ' ')),
      "[data.safetensors] path");
}

#endif
