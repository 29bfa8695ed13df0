// A limit of address space. Sanitizers need far more than any: tests leave themselves out there.
#pragma once

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace plait::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kLimitsMemory = false;
#else
inline constexpr bool kLimitsMemory = true;
#endif

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

}  // namespace plait::test
