// A limit that OpenMP would meet by ending the process.
#include "plugins/devices/cpu/thread_limit.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <plait/plugin.hpp>
#include <string>

namespace {

// While it exists, the process gets 256 MiB more address space at most: some 30 stacks.
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

}  // namespace

TEST_CASE("threads that cannot be started are an error that names the limits") {
  CHECK_NOTHROW(plait::cpu::check_thread_limit(1));
  CHECK_NOTHROW(plait::cpu::check_thread_limit(8));
  std::string text;
  {
    const LittleMemory few;
    try {
      plait::cpu::check_thread_limit(1000);
    } catch (const plait::Error& e) {
      CHECK(e.code() == PLAIT_ERR_IO);
      text = e.what();
    }
  }
  CAPTURE(text);
  CHECK(text.find("[cpu] cannot start 999 compute threads beside the calling one: ") == 0);
  CHECK(text.find("ulimit -u, ulimit -v") != std::string::npos);
  CHECK_NOTHROW(plait::cpu::check_thread_limit(8));
}
